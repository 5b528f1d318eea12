"""Answers without a label: the share of yes, of files and of a study's own replies, read again from the ledger."""

import json

import pandas as pd
import pytest
from small_study import STUDY, served_study
from stub_study import fours

from toolkit.hallucination.comparison import compare_hallucination, hallucination_tasks, reply_items

MODE = "cot-seed"
EXPLANATION = "It invents a host that nobody named."


def says(body):
    """Answer a rubric by fours; judge-a calls M a hallucination, judge-b the others, and judge-c cannot be read."""
    asked = json.dumps(body["messages"])
    if "hallucination" not in asked:
        return fours(body)
    words = len(body["messages"][-1]["content"].split())
    if body["model"] == "judge-c" or "unclear" in asked:
        return "Hm."
    is_yes = "invented" in asked or 250 < words < 500
    return f"yes\n{EXPLANATION}" if is_yes == (body["model"] == "judge-a") else "no"


@pytest.fixture
def study(server, tmp_path, store_folder):
    """Two bases in three lengths, answered by a scripted model; the judges are the server."""
    server.answer = says
    settings = "budget = { confirm_above_aud = 5.0 }"
    return served_study(tmp_path, server, STUDY.format(settings=settings, judges=""))


def shares_of(found):
    """Estimates by what they are of."""
    return {tuple(one["facets"].values()): one for one in found["shares"]["shares"]}


def test_replies_of_a_study_are_asked_once_and_read_from_the_ledger(server, study, toolkit):
    """Prompt as question, reply as answer; missing is no no; again is free and says the same."""
    study.execute(progress=False)
    assert study.unanswerable["hallucination"] == "no judge was asked about hallucination"
    asked = server.count
    command = ("judges", "hallucination", "--study", study.path, "--k", 3, "--json")
    fields = json.loads(toolkit(*command)[1])
    assert server.count - asked == len(study.calls(purpose="hallucination")) == 6 * 3 * 3
    messages = [message["content"] for message in server.seen[-1].body["messages"]]
    runs = study.runs(replies=True)
    texts = zip(map(study.prompt, runs["prompt_id"]), runs["reply"], strict=True)
    assert messages[2] in [f"Question: {prompt}\nGenerated Answer: {reply}" for prompt, reply in texts]
    assert "\nIf yes, on the next line, explain in about ten words why" in messages[0]
    shares, verdicts = shares_of(fields), study.hallucination_verdicts()
    means = verdicts.groupby(["judge", "level"], observed=True)["decision"].mean()
    for judge, name in (("primary", "S"), ("primary", "M"), ("secondary", "L")):
        assert shares[judge, MODE, name]["estimate"] == means[judge, name]
    assert shares["primary", MODE]["n"] == {"answers": 6, "bases": 2}
    assert 0 < shares["primary", MODE]["estimate"] < 1
    assert (shares["tertiary", MODE]["estimate"], shares["tertiary", MODE]["missing"]) == (None, 6)
    asked = server.count
    assert json.loads(toolkit(*command)[1])["shares"] == fields["shares"]
    assert server.count == asked


def test_the_result_stands_in_frames_findings_figure_methods_and_export(
    server, study, toolkit, tmp_path, no_pictures
):
    """Question, truth, inference, metric and explanation; verify and the export's own verify agree."""
    study.execute(progress=False)
    tasks = hallucination_tasks(study.plan, reply_items(study.plan, study.runs(replies=True)), [MODE])
    compare_hallucination(study.plan, study.store, tasks, 2, progress=False)
    server.answer = lambda body: pytest.fail("nobody is asked")
    rows = study.hallucination().verdicts
    assert (len(rows), set(rows["k"])) == (18, {2})
    assert set(rows.loc[rows["decision"].fillna(False), "explanation"]) == {EXPLANATION}
    assert rows.loc[rows["judge"] == "tertiary", "reason"].str.startswith("no verdict").all()
    replies = study.runs(replies=True).set_index("run_id")["reply"]
    assert replies[rows["run_id"]].tolist() == rows["inference"].tolist()
    estimates = [share.estimate for share in study.hallucination().shares[:2]]
    assert study.findings("hallucination").frame()["estimate"].dropna().tolist() == estimates
    assert "hallucination_shares.png" in {path.name for path in study.bundle()}
    methods = " ".join((study.output / "bundle" / "methods.tex").read_text().split())
    assert "in the mode cot-seed, whether it is a hallucination, with up to 2 votes" in methods
    for command in (
        ("verify", study.path),
        ("export", study.path, tmp_path / "out"),
        ("verify", tmp_path / "out"),
    ):
        assert toolkit(*command)[0] == 0
    assert len(pd.read_csv(tmp_path / "out" / "hallucination_verdicts.csv")) == 18


ANSWERS = (
    "item_id,question,answer,model,hallucinated\n"
    "w1,Which port?,It was invented.,x,\nw2,Which port?,Port 22.,y,\n"
    "w3,Which host?,unclear,x,\nw4,Which host?,\"=cmd|' /C calc'!A0 \u202e\",y,\n"
)


def test_a_file_without_labels_has_shares_by_model_and_a_table(study, toolkit, tmp_path):
    """As the seed prints them: one vote is yes or no, several are a share; the CSV has the texts whole and guarded."""
    path = tmp_path / "answers.csv"
    path.write_text(ANSWERS, encoding="utf-8")
    command = ("judges", "hallucination", path, "--study", study.path, "--mode", MODE, "--k")
    code, out, _ = toolkit(*command, 1, "--json", "--figures", tmp_path / "out")
    fields = json.loads(out)
    shares = shares_of(fields)
    assert (code, fields["rows"], fields["prevalence"]) == (0, [], None)
    assert shares["primary", MODE]["estimate"] == pytest.approx(1 / 3)
    assert (shares["primary", MODE]["n"]["bases"], shares["primary", MODE]["missing"]) == (2, 1)
    assert (shares["primary", MODE, "x"]["estimate"], shares["primary", MODE, "y"]["estimate"]) == (1.0, 0.0)
    row = next(row for row in fields["verdicts"] if row["item_id"] == "w1")
    assert (row["truth"], row["inference"], row["explanation"]) == (None, "It was invented.", EXPLANATION)
    table = pd.read_csv(tmp_path / "out" / "tables" / "hallucination_verdicts.csv")
    assert len(table) == 12
    assert not table["inference"].str.startswith("=").any()
    text = toolkit(*command, 1)[1]
    assert "\u202e" not in text
    assert any(
        line.split()[:3] == ["primary", "Which", "port?"] and " yes " in line for line in text.splitlines()
    )
    assert " 1.0 " in toolkit(*command, 3)[1]


def test_a_mixed_file_says_both_side_by_side(study, toolkit, tmp_path):
    """Labelled answers say how far a judge may be believed, the others are counted; neither is in the other."""
    path = tmp_path / "mixed.csv"
    path.write_text(ANSWERS + "l1,Which user?,It was invented too.,x,yes\nl2,Which user?,Root.,y,no\n")
    code, out, _ = toolkit(
        "judges", "hallucination", path, "--study", study.path, "--k", 1, "--mode", MODE, "--json"
    )
    fields = json.loads(out)
    rates = {one["name"]: one for one in fields["rows"][0]["estimates"]}
    assert (code, fields["items"], fields["hallucinated"]) == (0, 2, 1)
    assert (rates["sensitivity"]["estimate"], rates["specificity"]["estimate"]) == (1.0, 1.0)
    assert shares_of(fields)["primary", MODE]["n"]["answers"] == 3
    assert {row["item_id"] for row in fields["verdicts"]} == {"w1", "w2", "w3", "w4"}
