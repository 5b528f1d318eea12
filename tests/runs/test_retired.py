"""A model that its provider retired is refused before anybody else is paid; what it said before counts on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from toolkit.errors import StudyError
from toolkit.runs.estimate import estimate_summary
from toolkit.study import Study

DAY = "2026-01-31"


@pytest.fixture
def study(study_file: Callable[..., Path]) -> Iterator[Study]:
    """Six runs and eighteen judgements by scripted models."""
    opened = Study.load(study_file())
    yield opened
    opened.store.close()


def retire(study: Study, *, model: str = "", role: str = "", day: str = DAY) -> Study:
    """Return the study as if a provider had retired one of its models."""
    models, judges = dict(study.plan.models), dict(study.plan.judge_models)
    for specs, name in ((models, model), (judges, role)):
        if name:
            specs[name] = replace(specs[name], retired=day)
    other = Study(study.file, study.path)
    vars(other).update(plan=replace(study.plan, models=models, judge_models=judges), store=study.store)
    return other


@pytest.mark.parametrize("which", [{"model": "scripted"}, {"role": "secondary"}])
def test_nothing_is_sent_before_the_study_names_another(study: Study, which: dict[str, str]) -> None:
    """Neither to the retired one nor to the others; the line says which, since when, and what to do."""
    with pytest.raises(
        StudyError, match=f"retired by their providers: .* since {DAY}. Nothing was sent: name"
    ):
        retire(study, **which).execute(progress=False)
    assert study.store.database["calls"].count_documents({}) == 0


def test_what_a_retired_model_said_counts_on(study: Study) -> None:
    """A finished study runs as before; a judge of one that is not judged is refused, but not where it only asks."""
    assert study.execute(progress=False).judged == 6
    gone = retire(study, model="scripted", role="secondary")
    assert (gone.execute(progress=False).new_calls, gone.execute(progress=False, replay=True).judged) == (
        0,
        6,
    )


def test_a_retired_model_keeps_nobody_from_judging_its_answers(study: Study) -> None:
    """Only judges are asked then."""
    study.execute(progress=False)
    for name in ("judgements", "runs"):
        study.store.database[name].delete_many({})
    study.store.database["calls"].delete_many({"purpose": "judge"})
    gone = retire(study, model="scripted")
    assert gone.execute(progress=False).judged == 6


def test_an_announced_end_is_no_end(study: Study) -> None:
    """Until the day it is asked; the estimate says the day, and afterwards that the study will not start."""
    ahead = retire(study, role="primary", day="9999-01-01")
    assert "is served until 9999-01-01" in estimate_summary(ahead.estimate()).text
    gone = estimate_summary(retire(study, role="primary").estimate())
    assert f"was retired by its provider on {DAY}: this study will not start" in gone.text
    assert ahead.execute(progress=False).judged == 6
    assert "retired" not in estimate_summary(retire(study, role="primary").estimate()).text
