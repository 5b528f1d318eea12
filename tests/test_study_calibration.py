"""`Study.missing`, `Study.ceiling` and `Study.calibration` on a finished study, with people who rated it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from rated_study import clear_of_people, finished_study

from toolkit.people.rating import next_reply, open_round, rate
from toolkit.study import Study
from toolkit.words import DIMENSIONS


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A finished study of six runs."""
    with finished_study(tmp_path_factory.mktemp("calibrated")) as loaded:
        yield loaded


def test_what_is_missing_and_at_the_ceiling_is_counted(finished: Study) -> None:
    missing = finished.missing()
    assert missing.overall[0].n == {"runs": 6, "bases": 2}
    assert missing.overall[0].estimate == 0.0
    assert set(missing.shares) == {"length_bin", "model", "judge"}
    ceiling = finished.ceiling()
    assert ceiling.limit == finished.file.analysis.ceiling_share
    assert {"all", "length_bin S", "judge primary"} <= set(ceiling.shares)
    assert ceiling.shares["all"][0].n["scores"] == 18
    assert json.dumps([missing.to_dict(), ceiling.to_dict()], allow_nan=False)


def test_the_judges_are_held_against_the_people(finished: Study) -> None:
    nobody = finished.calibration()
    assert nobody.means["all"].calibrated.estimate is None
    try:
        round_ = open_round(finished.plan, finished.store, "anna")
        for score in (3.0, 4.0, 2.5, 4.5):
            reply = next_reply(round_)
            assert reply is not None
            scores = dict.fromkeys(DIMENSIONS, score)
            round_ = rate(finished.plan, finished.store, round_, reply, scores)
        found = finished.calibration(width=1.0)
        assert found.means["all"].people.estimate == pytest.approx(3.5)
        assert found.means["all"].calibrated.n["rated answers"] == 4
        assert found.means["all"].calibrated.n["unrated answers"] == 2
        assert found.alt_tests["ensemble"].passed is None
        assert json.dumps(found.to_dict(), allow_nan=False)
        assert "people" in found.sentence()
    finally:
        clear_of_people(finished)
