"""The sentences of a results section: numbers of the results, verdicts that never turn undecided into equal."""

import numpy as np
import pandas as pd
import pytest
from cases import cases
from score_tables import of_methods
from small_study import finished_study
from whole_study import make_study

from toolkit.analyses.answers import Analyses
from toolkit.errors import InputError
from toolkit.report.figure import about_study
from toolkit.report.registry import FIGURES, TABLES, draw_study
from toolkit.report.show import Files, NothingToShow
from toolkit.report.tables import length_table
from toolkit.stats import WORDS, Result
from toolkit.stats.one_shot.methods import KEYS, VERDICTS, score_methods
from toolkit.stats.result import Estimate
from toolkit.study import Study
from toolkit.thesis.bundle import write_bundle
from toolkit.thesis.contents import Contents
from toolkit.thesis.findings import (
    NOT_ANSWERED,
    TEXTS,
    Findings,
    adaptive_findings,
    one_shot_findings,
    scored_findings,
    verdict_of,
)
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

pytestmark = pytest.mark.usefixtures("no_pictures")

RATED = {"calibration": "nobody rated a reply"}
HOSTILE = "<script>alert(1)</script>\n& \\input{x} 100%"


def findings_of(analyses, **reasons):
    return Findings("whole", tuple(scored_findings(analyses, RATED | reasons)))


def of(findings, question):
    frame = findings.frame()
    return frame[frame["question"] == question].reset_index(drop=True)


def test_every_number_is_that_of_its_result_and_every_question_has_its_sentences():
    """Estimate, interval, P value and n of RQ1 and of the models; two to five sentences a question."""
    analyses, _ = make_study(bases=8)
    findings = findings_of(analyses)
    length = of(findings, "Prompt length (RQ1)")
    for row, number in enumerate(analyses.length().contrasts):
        found = length.loc[row]
        assert tuple(found[["estimate", "low", "high", "p_value"]]) == (
            number.estimate, number.low, number.high, number.p_value
        )  # fmt: skip
        assert found["n"] == number.counts
        assert f"scored {abs(number.estimate or 0):.2f} points" in found["statement"]
    icc = {one.name: one for one in analyses.reliability().icc[analyses.score]}
    assert length.loc[5, "estimate"] == icc["ICC(A,k)"].estimate
    *_, of_models, of_scenarios, of_judges = length["statement"]
    assert "to differ by scenario" in of_scenarios
    assert length.loc[4, "estimate"] in [number.estimate for number in analyses.length().by_scenario]
    assert length.loc[3, "estimate"] in [number.estimate for number in analyses.length().by_model]
    for number in analyses.length().of_models:
        ends = f"{number.estimate:.2f} [{number.low:.2f}, {number.high:.2f}]"
        is_told = f"{ends} ({number.facets['model']})" in of_models
        assert is_told == (f"by model {number.statistic} is" in of_models)
    assert of_judges.count("these judges alone") == 1
    models = of(findings, "Models")
    assert not models["statement"].str.contains("told apart").any()  # of two models the difference says it
    best, worst = sorted(analyses.compare_models().models, key=lambda one: -one[1].estimate)
    for model, words in ((best, "has the highest mean"), (worst, "the lowest")):
        assert f"{model[0]} {words}, {model[1].estimate:.2f}" in models.loc[0, "statement"]
    sizes = findings.frame().groupby("question").size()
    assert sizes["Cost and quality"] == 1
    assert sizes.drop("Cost and quality").between(2, 7).all()
    assert findings.sentences() == tuple(findings.frame()["statement"])
    assert "Prompt length (RQ1)\n  Exploratory: within bases" in repr(findings)


def test_a_question_that_is_not_answered_is_named_with_its_reason():
    """By what the study says, and by what an analysis finds lacking when it is asked."""
    analyses, _ = make_study(bases=4, bins="S", models=("m",))
    asked = ["Cost and quality", "Judges", "Missing scores and cost"]
    assert sorted(set(findings_of(analyses).frame()["question"])) == asked
    reasons = RATED | {"length": "one prompt length", "compare_models": "one model"}
    findings = Findings("whole", tuple(scored_findings(analyses, reasons, reasons)))
    for question, reason in (
        ("Prompt length (RQ1)", "one prompt length"),
        ("Models", "one model"),
        ("Judges and people", "nobody rated a reply"),
    ):
        (row,) = of(findings, question).itertuples()
        assert row.statement == f"This question was not answered: {reason}."
        assert row.verdict == NOT_ANSWERED
        assert np.isnan(row.estimate)
    assert "Models by votes" not in set(findings.frame()["question"])  # nobody was to vote
    three, _ = make_study(("a", "b", "c"), bases=8)
    findings = findings_of(three, length="one prompt length", pareto="no cost")
    assert (
        of(findings, "Models").loc[2, "statement"].startswith("2 of 3 pairs are told apart; undecided, which")
    )
    assert "The reliability of the mean of all judges" in of(findings, "Judges").loc[1, "statement"]
    assert len(of(findings_of(three, pareto="no cost"), "Prompt length (RQ1)")) == 6  # and no price
    unjudged = Analyses(three.runs.assign(judged=False), three.judgements, unanswerable=RATED)
    assert "Missing scores and cost" not in set(findings_of(unjudged).frame()["question"])
    forced = Analyses(three.runs, three.judgements, unanswerable={"length": "a lack"})
    assert of(findings_of(forced), "Prompt length (RQ1)").loc[0, "statement"].endswith("answered: a lack.")


@pytest.mark.parametrize(("p", "equivalence", "verdict"), CASES["verdicts"])
def test_the_verdict_is_that_of_both_tests(p, equivalence, verdict):
    """Equality needs a test of its own; a large P value shows nothing."""
    test = None if equivalence is None else Estimate("M-S", 0.0, p_value=equivalence)
    assert verdict_of(Estimate("M-S", 0.1, p_value=p), test) == verdict
    assert verdict_of(Estimate("M-S", None, p_value=p), test) == NOT_ANSWERED


@pytest.mark.parametrize(
    ("models", "names"), [("abcd", "c and d"), ("abcde", "undecided, which is not equal: the others")]
)
def test_more_pairs_than_a_sentence_holds_are_not_named(models, names):
    rng = np.random.default_rng(1)
    rows = [(f"b{b}", m, rng.normal(3, 1)) for b in range(6) for m in models]
    runs = pd.DataFrame(rows, columns=["base", "model", "composite_strict"]).assign(level="S", judged=True)
    *_, pairs = scored_findings(Analyses(runs, runs.iloc[:0]), {}, ("compare_models",))
    assert pairs.text.startswith("0 of")
    assert pairs.text.endswith(names)


@pytest.mark.parametrize(("right", "cost", "price"), CASES["prices"])
def test_the_price_of_right_answers_has_its_interval(right, cost, price):
    columns = {"base": list("abcdef"), "model": "m", "correct": right, "aud_cost": cost}
    answers = pd.DataFrame(columns | {"level": "all", "judged": True})
    answers = pd.concat([answers.assign(chance=0.25), answers.assign(model="n")])
    answers.attrs["score"] = "correct"
    accuracy, unknown = scored_findings(Analyses(answers, answers, keyed_answers=answers), {}, ("accuracy",))
    assert price in accuracy.text
    assert ("right answers cost" in accuracy.text) == bool(price)
    assert "less what a guess scores" in accuracy.text
    assert "less what a guess scores" not in unknown.text


@pytest.mark.parametrize(("numbers", "words"), CASES["sentences"])
def test_a_sentence_says_interval_p_value_and_verdict(numbers, words):
    found = Estimate("x", **numbers)
    width = 1000.0 if found.estimable else None
    asked = Result("sequential", differences=(found,), width=width, stop=False)
    first, last = adaptive_findings(asked, None)
    assert first.text == f"On all bases of the dataset x is {words}"
    assert f"is {'1,000' if width else 'unknown'} points wide, so asking goes on" in last.text


def test_a_lower_score_is_told_as_lower_with_the_interval_of_what_it_is_lower_by():
    """The sentence turns the difference round; the frame holds it as the result does."""
    analyses, _ = make_study(bases=8)
    turned = analyses.runs.assign(level=analyses.runs["level"].map({"S": "L", "M": "M", "L": "S"}))
    row = of(findings_of(Analyses(turned, analyses.judgements)), "Prompt length (RQ1)").loc[2]
    assert row["high"] < 0
    assert (
        f"L prompts scored {-row['estimate']:.2f} points lower than S prompts (95% interval "
        f"[{-row['high']:.2f}, {-row['low']:.2f}]" in row["statement"]
    )


def test_differences_of_other_models_are_told_with_the_models_that_each_rests_on():
    """In the results, in the caption and notes of the figure, and in the rows of the table; silent where alike."""
    whole, plan = make_study(models=("a", "b"), bases=6, missing=0.0)
    runs = whole.runs.copy()
    lost = (runs["model"] == "b") & (runs["level"] == "L")
    runs.loc[lost, ["composite", "composite_strict"]] = np.nan
    runs.loc[lost, "judged"] = False
    uneven = Analyses(runs, whole.judgements, name="whole", margin=whole.margin)
    for analyses, is_uneven in ((whole, False), (uneven, True)):
        said = of(findings_of(analyses), "Prompt length (RQ1)")["statement"]
        about = about_study(analyses, plan)
        (figure,) = draw_study(analyses, about, ["conditions"])
        table = length_table(analyses.length(), context=about)
        words = "M-S rests on 6 bases of a and b; L-M rests on 6 bases of a, and on none of b; L-S rests on 6 bases"
        assert (
            said.str.contains(f"ot all numbers rest on the same models: {words}", regex=False).sum()
            == is_uneven
        )
        assert said.str.contains("n = 6 bases, 1 model", regex=False).sum() == 2 * is_uneven
        for shown in (figure, table):
            assert ("; not all numbers rest on the same models" in shown.caption) == is_uneven
            assert (words in shown.notes) == is_uneven
        assert ("& 1 model" in table.grid.latex()) == is_uneven
    notes = uneven.compare_models().notes
    assert "a - b rests on S and M prompts alone" in notes


def test_a_paragraph_ends_with_figures_and_tables_that_exist():
    """A name in the data file that no figure and no table has would be left out in silence."""
    there = {*(f"figures/{row.name}" for row in FIGURES), *(f"tables/{name}" for name in TABLES)}
    there |= {"figures/one_shot", "tables/one_shot"}
    shown = {name: words["shown"] for name, words in WORDS.items() if "shown" in words}
    assert len(shown) > 8
    for names in shown.values():
        assert set(names) <= there
    assert WORDS["one_shot"]["heading"] == TEXTS["one_shot"]["title"]
    assert WORDS["missing"]["heading"] == TEXTS["totals"]


def test_hostile_names_stay_text_on_one_line(tmp_path):
    """In the notebook no HTML, in LaTeX no command, in every form one line a sentence."""
    analyses, _ = make_study(models=(HOSTILE, "b"), bases=4)
    findings = findings_of(analyses)
    assert all("\n" not in sentence for sentence in findings.sentences())
    assert "<script>" not in findings._repr_html_()
    assert "&lt;script&gt;" in findings._repr_html_()
    write_bundle(tmp_path, Files(), Contents("whole", findings, ()), {"study": "whole", "kind": "Study"})
    tex = (tmp_path / "findings.tex").read_text()
    assert "script" in tex
    assert "\\input{x}" not in tex
    assert not any(line.lstrip().startswith("&") for line in tex.splitlines())
    assert "\\input{findings.tex}" in (tmp_path / "bundle.tex").read_text()
    assert (tmp_path / "findings.txt").read_text().startswith("Prompt length (RQ1)\n  Exploratory")
    assert list(pd.read_csv(tmp_path / "findings.csv")["verdict"].dropna())


def test_people_correct_what_the_judges_say():
    """Agreement and the corrected mean stand beside; the contrast of lengths has the corrected one."""
    analyses, _ = make_study(bases=10, missing=0.0)
    scores = analyses.runs[[*DIMENSIONS, "composite", "composite_strict"]].astype(float) - 0.5
    rated = analyses.runs.assign(rater="anna", failed=False, **scores)
    judged = Analyses(analyses.runs, analyses.judgements, rated.iloc[::2].reset_index(drop=True))
    findings = Findings("whole", tuple(scored_findings(judged, {})))
    told = of(findings, "Prompt length (RQ1)")["statement"]
    assert told.str.startswith("Corrected by the ratings of people").sum() == 1
    people = of(findings, "Judges and people")
    number = judged.calibration().means["all"].calibrated
    assert people.loc[1, "estimate"] == number.estimate
    assert f"the mean score is {number.estimate:.2f}" in people.loc[1, "statement"]


def test_a_one_shot_test_tells_verdicts_scores_and_what_prompts_change():
    """Counts add up; prompts and documents of three questions are named as what they are."""
    counts = {("plain", "none"): (3, 2, 0), ("plain", "rfc"): (5, 0, 0), ("careful", "none"): (1, 0, 4)}
    rows = [
        (f"{prompt}/{document}/{q}", prompt, document, q, "s", "x", verdict)
        for q in "qrs"
        for (prompt, document), three in counts.items()
        for verdict, count in zip(VERDICTS, three, strict=True)
        for _ in range(count + (q == "r"))
    ]
    frame = pd.DataFrame(rows, columns=[*KEYS, "verdict"])
    told = list(one_shot_findings(scores := score_methods(frame), of_methods(scores)))
    plain, _, careful, by_prompt, by_document, missing = told
    assert plain.text.startswith(
        "Of 18 experiments of x with the prompt plain and no document 10 were expected, 7 unexpected and 1 "
        "hallucinated, and 0 had no verdict; the mean raw score over 3 of 3 methods is 0.55 ("
    )
    assert "over 3 of 3 methods is -0.15 (" in careful.text
    within = "Exploratory: within bases and on a scale of -0.5 to 1, the "
    assert by_prompt.text.startswith(
        f"{within}prompt careful scored 0.70 points lower than the prompt plain ("
    )
    assert by_document.text.startswith(f"{within}document rfc scored 0.35 points higher than no document (")
    assert (by_prompt.question, by_prompt.estimate.n) == ("Conditions", {"bases": 3})
    assert missing.text.startswith("0 of 54 experiments have no verdict")
    scores = score_methods(frame.assign(verdict=[None, *frame["verdict"][1:]]))
    plain, *_, by_prompt, _, missing = one_shot_findings(scores, of_methods(scores))
    assert "and 1 had no verdict; the mean raw score over 2 of 3 methods is" in plain.text
    assert by_prompt.estimate.n == {"bases": 2}
    assert "1 of 54 experiments has no verdict" in missing.text
    assert list(adaptive_findings(None, None)) == []


def test_a_study_tells_them_at_the_end_of_a_run_and_says_so_where_it_has_none(tmp_path):
    """The first sentences stand before the next step; a study that was not run has none."""
    with finished_study(tmp_path) as study:
        judges = study.findings("reliability", score="clarity", most=3).frame()[1:]
        icc = {number.name: number.estimate for number in study.reliability().icc["clarity"]}
        assert judges["estimate"].tolist() == [icc["ICC(A,1)"], icc["ICC(A,k)"]]
        assert set(judges["question"]) == {"Judges"}
        with pytest.raises(InputError, match="no question 'lenght'; did you mean length"):
            study.findings("lenght")
        assert list(study.findings("accuracy").frame()["verdict"]) == ["", NOT_ANSWERED]
        text = study.ending(study.execute(progress=False)).text.splitlines()
        assert text[-5:-2] == [f"result  {sentence}" for sentence in study.findings().sentences()[1:4]]
        assert text[-1].startswith("next")
    other = tmp_path / "other.toml"
    other.write_text((tmp_path / "small.toml").read_text().replace('"small"', '"other"', 1))
    with Study.load(other) as fresh, pytest.raises(NothingToShow, match="run it first"):
        fresh.findings()
