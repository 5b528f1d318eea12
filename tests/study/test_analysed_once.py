"""Each analysis is calculated once for the same state of the store, and again where the store has changed."""

import signal
import traceback
from collections import Counter

import pytest

from tests.study.test_scores import ratings
from toolkit import Scores, stats
from toolkit.errors import Stopped
from toolkit.store.filters import planned_judgements

COUNTED = ("reliability", "compare_conditions", "compare_judges", "missing_data")


@pytest.fixture
def calls(monkeypatch, no_pictures):
    """Count the calculations, each by its name."""
    calls = Counter()

    def counting(name):
        calculate = getattr(stats, name)

        def run(*args, **settings):
            calls[name] += 1
            calls[f"{name} of {settings.get('score')}"] += 1
            return calculate(*args, **settings)

        return run

    for name in COUNTED:
        monkeypatch.setattr(stats, name, counting(name))
    return calls


@pytest.fixture(autouse=True)
def _forget(request):
    """Begin with nothing calculated: the study is that of all tests."""
    if "study" in request.fixturenames:
        request.getfixturevalue("study").close()


def test_figures_calculate_nothing_that_was_calculated_before(study, calls, tmp_path):
    """The frames are read again, and are the same."""
    first = study.reliability()
    study.length()
    study.figures(tmp_path)
    study.statistics(tmp_path)
    assert study.reliability() is first
    assert study.frames().length() is study.length()
    assert set(COUNTED) <= set(calls)
    assert {count for name, count in calls.items() if " of " in name} == {1}, calls
    study.length("clarity")
    assert calls["compare_conditions of clarity"] == 1


def test_what_has_changed_is_calculated_again(study, calls, monkeypatch):
    """Only analyses of the frame that changed, and those that rest on them."""
    first, lengths = study.reliability(), study.length()
    missing, cards = study.missing(), study.compare_judges()

    def changed(*of, **filters):
        frame = planned_judgements(*of, **filters)
        frame.loc[0, "composite_strict"] = 0.0
        return frame

    monkeypatch.setattr("toolkit.study.planned_judgements", changed)
    assert study.reliability() is not first
    assert study.reliability().icc["composite_strict"] != first.icc["composite_strict"]
    assert study.length() is lengths
    assert study.missing() is not missing
    assert study.compare_judges() is not cards
    assert (calls["reliability"], calls["compare_conditions"], calls["missing_data"]) == (2, 1, 2)


def test_length_is_four_frames_from_its_calculation(study, monkeypatch):
    """A reader of a traceback goes from `Study.length` to `compare_conditions` without plumbing."""
    from toolkit.stats.conditions import contrasts

    deep = []
    paired = contrasts.paired

    def recorded(*args, **levels):
        deep.append([frame.name for frame in traceback.extract_stack()])
        return paired(*args, **levels)

    monkeypatch.setattr(contrasts, "paired", recorded)
    study.close()  # forgets what was calculated
    study.length()
    (names,) = deep
    names = names[names.index("length") : -1]
    assert names[-1] == "compare_conditions"
    assert len(names) <= 4, names
    study.close()


def test_an_interrupted_analysis_is_one_line_and_is_calculated_next_time():
    """The signal of an interrupted cell arrives in the middle of the calculation."""
    analyses, moments = Scores(ratings()).frames(), []

    def calculate():
        moments.append(len(moments))
        if len(moments) == 1:
            signal.raise_signal(signal.SIGINT)
        return "calculated"

    with pytest.raises(Stopped) as stopped:
        analyses.once(calculate)
    assert stopped.value._render_traceback_() == [
        "interrupted; an analysis changes nothing, so nothing is lost"
    ]
    assert analyses.once(calculate) == analyses.once(calculate) == "calculated"
    assert len(moments) == 2
