"""Filter, sort and page of the table of runs."""

from __future__ import annotations

import time

import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.store.dictionary import typed
from toolkit.store.frames import RUN_TYPES
from toolkit.viewer.table import PAGE, SORTS, Filter, disagreement, matching, pages, plain_row


def frame(*rows: dict[str, object]) -> pd.DataFrame:
    """Return a runs frame with these values; all else is missing."""
    base = {"status": "succeeded", "excluded": False, "judged": False}
    return typed([{**dict.fromkeys(RUN_TYPES), **base, **row} for row in rows], RUN_TYPES)


RUNS = frame(
    {"run_id": "a", "model": "m", "length_bin": "S", "scenario": "SOC_INCIDENT", "judged": True, "composite": 2.0,
     "composite_std": 0.5},
    {"run_id": "b", "model": "n", "length_bin": "L", "scenario": "SOC_INCIDENT", "judged": True, "composite": 4.0,
     "composite_std": None},
    {"run_id": "c", "model": "m", "length_bin": "L", "judged": False},
    {"run_id": "d", "model": "m", "length_bin": None, "status": "failed"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        (Filter(), "abcd"),
        (Filter(model="m"), "acd"),
        (Filter(model="none"), ""),
        (Filter(length_bin="L"), "bc"),
        (Filter(scenario="SOC_INCIDENT"), "ab"),
        (Filter(status="failed"), "d"),
        (Filter(judged=True), "ab"),
        (Filter(judged=False), "cd"),
        (Filter(low=0, high=4.9), "ab"),
        (Filter(low=2, high=2), "a"),
        (Filter(spread=0.5), "a"),
        (Filter(spread=0.6), ""),
        (Filter(model="m", length_bin="L"), "c"),
        (Filter(text=" SECRET "), "b"),
        (Filter(text="a.b"), ""),
        (Filter(text="  "), "abcd"),
        (Filter(sort="composite"), "abcd"),
        (Filter(sort="composite", descending=True), "bacd"),
        (Filter(sort="length bin", descending=True), "bcad"),
        (Filter(sort="model"), "acdb"),
    ],
)
def test_a_filter_takes_what_it_says(wanted, ids):
    """Missing is never zero: a run without a score is in no range but the whole, and comes last."""
    texts = {"a": "axb", "b": "the secret", "c": ""}
    assert "".join(matching(RUNS, wanted, texts)["run_id"]) == ids


def test_every_sort_is_by_a_column_that_is_there():
    """Each word of the list can be chosen, on runs and on none."""
    for word in SORTS:
        assert len(matching(RUNS, Filter(sort=word))) == 4
        assert len(matching(frame(), Filter(sort=word, low=1, spread=1, judged=True))) == 0


def test_an_unknown_sort_and_a_search_without_texts_are_refused():
    """One line says what to do."""
    with pytest.raises(InputError, match="sort 'colour': use one of model, prompt"):
        matching(RUNS, Filter(sort="colour"))
    with pytest.raises(InputError, match="needs the texts"):
        matching(RUNS, Filter(text="x"))


def test_a_filter_says_what_it_takes():
    """The words of an empty filter are empty."""
    assert Filter().words() == Filter(text=" ", sort="model").words() == ""
    assert Filter(status="failed", judged=False, low=1.5, spread=0.2).words() == (
        "status failed; not judged; composite 1.5 to 5; judges' SD at least 0.2"
    )


def test_pages_and_rows():
    """The last page may be short, and a missing value is None."""
    assert [pages(count) for count in (0, 1, PAGE, PAGE + 1)] == [1, 1, 1, 2]
    row = plain_row(RUNS.to_dict("records")[3])
    assert row["status"] == "failed"
    assert row["composite"] is row["length_bin"] is row["attempts"] is None


def test_the_disagreement_of_the_judges_is_a_sentence_with_and_without_scores():
    """Without two scores of any run there is no number, least of all a zero."""
    assert disagreement(RUNS, 0.5) == (
        "4 runs, 2 judged; judges' SD of 1 runs: median 0.50, largest 0.50 points; 1 runs at 0.5 or more"
    )
    assert disagreement(RUNS.iloc[2:]).startswith("2 runs, 0 judged; no run has the scores of two judges")
    assert disagreement(frame()).startswith("0 runs, 0 judged; no run")


def test_ten_thousand_runs_are_filtered_sorted_and_searched_without_lag():
    """Each step takes less than 100 ms of this process, with 4 kB of text a run; the best of three counts."""
    runs = pd.concat([RUNS] * 2500, ignore_index=True)
    runs["run_id"] = pd.array([f"run-{n}" for n in range(len(runs))], dtype="string")
    texts = {f"run-{n}": f"{'isolate the host ' * 240}{n}" for n in range(len(runs))}
    for wanted in (Filter(judged=True, low=1, high=4.5), Filter(sort="composite"), Filter(text=" 99")):
        taken = []
        for _ in range(3):
            started = time.process_time()
            found = matching(runs, wanted, texts)
            taken.append(time.process_time() - started)
        assert min(taken) < 0.1
        assert len(found) > 0
