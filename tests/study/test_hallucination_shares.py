"""Answers without a label: the share of yes, of files and of a study's own replies, read again from the ledger."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from small_study import STUDY
from stub_server import Fault, StubServer

from toolkit import stats
from toolkit.errors import InputError
from toolkit.hallucination.comparison import compare_hallucination, hallucination_tasks, reply_items
from toolkit.store import embedded
from toolkit.study import Study

MODE = "cot-seed"
EXPLANATION = "It invents a host that nobody named."


def says(body):
    """Answer a rubric by fours; judge-a calls M a hallucination, judge-b the others, and judge-c cannot be read."""
    asked = json.dumps(body["messages"])
    if "hallucination" not in asked:
        schema = body["response_format"]["json_schema"]["schema"]
        return json.dumps({name: "why" if name == "reasons" else 4 for name in schema["properties"]})
    words = len(body["messages"][-1]["content"].split())
    if body["model"] == "judge-c" or "unclear" in asked:
        return "Hm."
    is_yes = "invented" in asked or 250 < words < 500
    return f"yes\n{EXPLANATION}" if is_yes == (body["model"] == "judge-a") else "no"


@pytest.fixture
def study(tmp_path):
    """Two bases in three lengths, answered by a scripted model; the judges are the server."""
    with StubServer(answer=says) as server:
        text = STUDY.format(settings="budget = { confirm_above_aud = 5.0 }", judges="")
        for judge in "abc":
            own = f'provider = "openai", base_url = "{server.openai_url}", structured = true'
            own += ", usd_per_million_input = 1.0, usd_per_million_output = 1.0"
            text = text.replace(
                f'name = "judge-{judge}", provider = "scripted"', f'name = "judge-{judge}", {own}'
            )
        (tmp_path / "study.toml").write_text(text)
        opened = Study.load(tmp_path / "study.toml")
        opened.server = server
        try:
            yield opened
        finally:
            opened.close()
            embedded.stop(opened.plan.store_folder)


def shares_of(found):
    """Estimates by what they are of."""
    return {tuple(one["facets"].values()): one for one in found["shares"]["shares"]}


def test_replies_of_a_study_are_asked_once_and_read_from_the_ledger(study, toolkit):
    """The seed's prompt, prompt as question, reply as answer; missing is no no; again is free and says the same."""
    study.execute(progress=False)
    assert study.hallucination_verdicts().empty
    assert study.unanswerable["hallucination"] == "no judge was asked about hallucination"
    before = study.server.count
    code, out, _ = toolkit("judges", "hallucination", "--study", study.path, "--k", 3, "--json")
    fields = json.loads(out)
    assert (code, study.server.count - before) == (0, 6 * 3 * 3)
    sent = study.server.seen[-1].body
    runs = study.runs(replies=True)
    prompts = {study.prompt(row.prompt_id): row.reply for row in runs.itertuples()}
    texts = [f"Question: {prompt}\nGenerated Answer: {reply}" for prompt, reply in prompts.items()]
    assert sent["messages"][-1]["content"] in texts
    assert sent["messages"][0]["content"].endswith("explain in about ten words why there is a hallucination by "
        "thinking step by step.")  # fmt: skip
    shares = shares_of(fields)
    lengths = (
        study.hallucination_verdicts().groupby(["judge", "length_bin"], observed=True)["decision"].mean()
    )
    for judge in ("primary", "secondary"):
        assert shares[judge, MODE]["estimate"] == pytest.approx(lengths[judge].mean())
        for name in "SML":
            assert shares[judge, MODE, name]["estimate"] == lengths[judge, name]
    assert shares["primary", MODE]["n"] == {"answers": 6, "bases": 2}
    assert 0 < shares["primary", MODE]["estimate"] < 1
    assert (shares["tertiary", MODE]["estimate"], shares["tertiary", MODE]["missing"]) == (None, 6)
    asked = study.server.count
    again = toolkit("judges", "hallucination", "--study", study.path, "--k", 3, "--json")
    assert (again[0], json.loads(again[1])["shares"], study.server.count) == (0, fields["shares"], asked)
    calls = study.calls(purpose="hallucination")
    assert (len(calls), set(calls["role"])) == (54, {"primary", "secondary", "tertiary"})
    assert study.status()["spent_aud"] == pytest.approx(study.calls()["aud_cost"].sum())


def test_the_result_stands_in_frames_findings_figure_methods_and_export(
    study, toolkit, tmp_path, no_pictures
):
    """Question, truth, inference, metric and explanation; verify and the export's own verify agree."""
    study.execute(progress=False)
    plain = {path.name for path in study.figures(tmp_path / "plain")}
    tasks = hallucination_tasks(
        study.plan, reply_items(study.plan, study.runs(replies=True)), [MODE, "boolean"]
    )
    compare_hallucination(study.plan, study.store, tasks, 2, progress=False)
    study.close()
    study.server.answer = lambda body: pytest.fail("nobody is asked")
    rows = study.hallucination().verdicts
    assert len(rows) == 6 * 3 * 2
    assert (rows["k"] == 2).all()
    yes = rows[(rows["mode"] == MODE) & rows["decision"].fillna(False)]
    assert set(yes["explanation"]) == {EXPLANATION}
    assert set(rows["metric"].dropna()) == {0.0, 1.0}
    assert rows.loc[rows["judge"] == "tertiary", "reason"].str.startswith("no verdict").all()
    runs = study.runs(replies=True).set_index("run_id")
    assert all(runs.loc[row.run_id, "reply"] == row.inference for row in rows.itertuples())
    statements = study.findings("hallucination").frame()
    assert len(statements) == 6
    assert statements["estimate"].dropna().tolist() == [
        share.estimate for share in study.hallucination().shares[:6] if share.estimable
    ]
    drawn = {path.name for path in study.bundle()}
    assert {"hallucination_shares.png", "hallucination_shares.csv"} <= drawn
    assert not any(name.startswith("hallucination") for name in plain)
    methods = (study.output / "bundle" / "methods.tex").read_text()
    assert "in the mode cot-seed, whether it is a hallucination, with up to 2 votes" in " ".join(
        methods.split()
    )
    assert toolkit("verify", study.path)[0] == 0
    assert toolkit("export", study.path, tmp_path / "out")[0] == 0
    assert len(pd.read_csv(tmp_path / "out" / "hallucination_verdicts.csv")) == 36
    assert toolkit("verify", tmp_path / "out")[0] == 0


def test_a_judge_without_reply_is_asked_again_and_a_budget_leaves_what_was_paid_for(study, toolkit):
    """Exit code 1, then 0 for the votes that lacked alone; another test of its own is asked as well."""
    study.execute(progress=False)
    study.server.faults = lambda n, body: Fault(status=400) if body["model"] == "judge-b" else None
    command = ("judges", "hallucination", "--study", study.path, "--k", 1, "--json")
    code, out, _ = toolkit(*command)
    assert (code, sum(json.loads(out)["failures"].values())) == (1, 6)
    assert set(study.hallucination_verdicts()["judge"]) == {"primary", "tertiary"}
    study.server.faults, asked = (lambda n, body: None), study.server.count
    assert (toolkit(*command)[0], study.server.count - asked) == (0, 6)
    assert study.hallucination_verdicts()["judge"].value_counts().tolist() == [6, 6, 6]


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
    row = next(row for row in fields["verdicts"] if (row["item_id"], row["judge"]) == ("w1", "primary"))
    texts = {name: row[name] for name in ("question", "truth", "inference", "metric", "explanation")}
    assert list(texts.values()) == ["Which port?", None, "It was invented.", 1.0, EXPLANATION]
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


def test_shares_are_clustered_and_refuse_a_frame_that_lacks_a_column():
    """Four copies of a cluster know no more than one; nothing decided is not estimable and never zero."""
    once = pd.DataFrame({"cluster": list("abcdefgh"), "model": "m", "judge": "j", "mode": "cot"})
    once = once.assign(decision=[True, False] * 4)
    few, many = (
        stats.hallucination_shares(rows).shares[0]
        for rows in (once, pd.concat([once] * 4, ignore_index=True))
    )
    assert (many.estimate, many.n) == (0.5, {"answers": 32, "bases": 8})
    assert many.high - many.low >= 0.95 * (few.high - few.low)
    (nothing,) = stats.hallucination_shares(once.assign(decision=None)).shares
    assert (nothing.estimate, nothing.missing) == (None, 8)
    with pytest.raises(InputError, match="cluster"):
        stats.hallucination_shares(once.drop(columns="cluster"))
