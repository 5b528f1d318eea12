"""Required elements of a good answer: looked for by judges, kept, read strictly, and held against the rubric."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import cases
from scipy.stats import pearsonr
from small_study import CTI_ONLY, STUDY, served_study
from stub_study import fours

import toolkit.prompts.dataset as dataset_module
from toolkit.judges.elements import parse_elements
from toolkit.judges.parse import Unreadable
from toolkit.probes.job import ask_elements
from toolkit.stats import required_elements

SHIPPED = Path(dataset_module.__file__).parent / "data" / "rq1_controlled"
ELEMENTS = ("Names the host", "States the clock began on Monday")
BOTH = '{"e1_quote": "host A", "e1": "present", "e2_quote": "", "e2": "absent"}'


def verdicts(body):
    """Answer a rubric by fours and elements by finding every second one; the third judge answers in prose."""
    asked = body["messages"][1]["content"] if len(body["messages"]) > 1 else ""
    names = re.findall(r"^(e\d+): ", asked, re.MULTILINE)
    if not names:
        return fours(body)
    if body["model"] == "judge-c":
        return "They are all there."
    reply = body["messages"][1]["content"].partition("<answer")[2].partition("\n")[2].partition("\n")[0]
    answers = {}
    for number, name in enumerate(names):
        # Every second quotation is not in the reply.
        answers[f"{name}_quote"] = reply if number % 4 == 1 else "it was not said so"
        answers[name] = "present" if number % 2 else "absent"
    return json.dumps(answers)


@pytest.fixture
def study(server, tmp_path, store_folder):
    """Two bases of the shipped dataset, answered by a scripted model and judged over a real client."""
    folder = tmp_path / "two"
    folder.mkdir()
    for name in ("academic_soc_007", "academic_soc_012"):
        shutil.copy(SHIPPED / f"{name}.toml", folder)
    server.answer = verdicts
    return served_study(
        tmp_path, server, STUDY.replace(CTI_ONLY, 'dataset = "two"').format(settings="", judges="")
    )


def test_judges_find_elements_and_are_asked_once(server, study, toolkit):
    """Shares and what is absent are in the store, an unreadable judge is missing and not zero, again is free."""
    study.execute(progress=False)
    found = ask_elements(study.plan, study.store, progress=False)
    assert len(found) == 6 * 3
    required = {prompt.prompt_id: prompt.metadata["elements"] for prompt in study.plan.dataset.prompts}
    frame = study.elements()
    assert set(frame["judge"]) == {"primary", "secondary", "tertiary"}
    read = frame[frame["judge"] != "tertiary"]
    runs = study.runs().set_index("run_id")
    for row in read.itertuples():
        elements = required[runs.loc[row.run_id, "prompt_id"]]
        assert row.required == len(elements)
        assert row.share == pytest.approx(len(elements[1::2]) / len(elements))
        assert row.absent.split("; ") == list(elements[::2])
        assert row.unquoted.split("; ") == list(elements[3::4])
    unread = frame[frame["judge"] == "tertiary"]
    assert unread["share"].isna().all()
    assert unread["failure"].str.startswith("prose").all()
    assert len(study.judgements()) == 6 * 3  # the rubric's are not mixed with them
    before = server.count
    ask_elements(study.plan, study.store, progress=False)
    assert server.count == before
    result = study.required_elements()
    assert [one.missing for one in result.shares] == [0, 0, 0]
    code, out, _ = toolkit("judges", "elements", study.path)
    assert code == 0
    assert out.startswith("elements  18 judgements, 6 unreadable, 0 unanswered")
    study.store.database["annotations"].update_many({"rubric": "elements"}, {"$set": {"scores": None}})
    assert (
        "elements, S: not estimable (no judgement could be read); n" in study.required_elements().sentence()
    )


def test_a_dataset_without_elements_is_refused(tmp_path, toolkit, store_folder):
    """One line that says what to do."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(settings="", judges=""))
    code, _, err = toolkit("judges", "elements", path)
    assert (code, err.count("\n")) == (2, 1)
    assert "dataset demo names no required elements; give its bases the key elements, or take dataset" in err


@pytest.mark.parametrize(("said", "reason"), [
    ('{"e1": "present"}', "missing key"), (BOTH.replace("}", ', "e3": "present"}'), "extra key"),
    (BOTH.replace("present", "yes"), "not a verdict"), (BOTH.replace('"present"', "true"), "not a verdict"),
    ("", "empty"), ("Both are present.", "prose"),
])  # fmt: skip
def test_what_is_not_a_verdict_for_each_is_unreadable(said, reason):
    """A verdict that is missing is no absent element."""
    with pytest.raises(Unreadable, match=reason):
        parse_elements(said, "stop", ELEMENTS, "It is host A.")
    # An element that stands twice counts twice.
    neither = BOTH.replace("present", "absent")
    assert parse_elements(neither, "stop", ELEMENTS[:1] * 2, "It is host A.").scores == {"share": 0.0}


@pytest.mark.parametrize(("quotation", "is_there"), cases(__file__)["quotations"])
def test_a_quotation_that_is_not_in_the_reply_is_named_and_the_verdict_counts(quotation, is_there):
    """Blanks, capitals and marks are no difference; nothing quoted is nothing there."""
    said = json.dumps(json.loads(BOTH) | {"e1_quote": quotation})
    read = parse_elements(said, "stop", ELEMENTS, "So:\nIt is host A. It began on Monday.")
    assert read.detail["unquoted"] == ([] if is_there else [ELEMENTS[0]])
    assert read.scores == {"share": 0.5}


def test_shares_and_correlation_are_those_of_the_runs():
    """Judges' means first, against numpy and scipy; runs nobody could read are missing; none at all is no number."""
    rng = np.random.default_rng(5)
    runs = pd.DataFrame({"run_id": [f"r{i}" for i in range(12)], "composite": rng.uniform(1, 5, 12)})
    runs["composite_strict"] = runs["composite"]
    rows = [
        (f"r{i}", f"b{i // 3}", "SML"[i % 3], judge, share)
        for i in range(12)
        for judge, share in zip("pq", rng.uniform(0, 1, 2), strict=True)
    ]
    elements = pd.DataFrame(rows, columns=["run_id", "cluster", "level", "judge", "share"])
    elements.loc[elements["run_id"] == "r0", "share"] = np.nan
    found = required_elements(elements, runs)
    means = elements.groupby("run_id")["share"].mean().dropna()
    expected = pearsonr(means, runs.set_index("run_id").loc[means.index, "composite"])[0]
    assert found.rubric[0].estimate == pytest.approx(expected)
    assert found.rubric[0].missing == 1
    of_s = elements[(elements["level"] == "S")].groupby("run_id")["share"].mean()
    assert found.shares[0].estimate == pytest.approx(of_s.mean())
    assert (found.shares[0].missing, found.shares[0].n) == (1, {"bases": 3, "answers": 3})
    nothing = required_elements(elements.iloc[:0], runs)
    assert [one.estimate for _, one in nothing.rows()] == [None] * 3
