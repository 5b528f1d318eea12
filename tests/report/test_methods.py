"""The methods section says what was done: recounted from the store; it cites what was calculated and nothing else."""

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pytest
from cases import cases
from methods_told import methods_of
from small_study import write_prompts
from whole_study import make_study

from toolkit.errors import InputError
from toolkit.people.ratings_file import import_ratings
from toolkit.prompts.check import KINDS as KINDS_OF_FLAWS
from toolkit.prompts.dataset import load_dataset
from toolkit.report.figure import About, about_study, save_figure, save_table
from toolkit.report.registry import draw_study, write_statistics
from toolkit.report.show import Files
from toolkit.report.tables import estimates_table
from toolkit.stats.inference.means import CR2_METHOD, SD_METHOD
from toolkit.stats.result import Estimate
from toolkit.study import Study
from toolkit.study_file import Replies
from toolkit.thesis.methods import (
    Done,
    bibliography,
    data_file,
    evidence_of,
    sentences,
    short_reference,
    statistics_used,
)
from toolkit.words import DIMENSIONS

KINDS = ("statistic", "method", "assumption")
UNCONFIRMED = {"marcoulides1990", "weerahandi1993"}
PRICED = """{ name = "scripted", prices = [
  { input = 1.0, output = 2.0, from = 2026-01-01, over = { tokens = 100_000, input = 2.0, output = 4.0 } },
] }"""
CHANGED = "[sampling]\ntemperature = 0.7\n[analysis]\nequivalence_margin = 0.5\n"
ONE_JUDGE = """
name = "tiny"
models = [{ name = "scripted" }]
output = "results/tiny"
scenarios = ["CTI_ANALYSIS"]
length_bins = ["S"]
[judges]
primary = { name = "judge-a", provider = "scripted" }
secondary = false
tertiary = false
"""


def told_of(path):
    """Run a study, and return its methods as text and every call of its store as the database has it."""
    with Study.load(path) as study:
        study.run(progress=False)
        return methods_of(study), list(study.store.database["calls"].find({}))


def test_every_number_is_that_of_the_store_also_after_settings_have_changed(study_file, tmp_path):
    """Answers and judgements of today, the cost of all calls, and whose they were."""
    path = study_file()
    path.write_text(path.read_text().replace('{ name = "scripted" }', PRICED))
    text, calls = told_of(path)
    assert len(calls) == 24
    assert (
        "2 bases of the scenario CTI analysis, in the lengths S (150 to 250 tokens), M (450 to 550 tokens) and L ("
        in text
    )
    assert "A base is a situation, and its prompts of all lengths ask for the same work." in text
    assert "The model under test, with the days (UTC) of the replies, was scripted (scripted, " in text
    assert text.count(", 6 answers)") == 1
    assert text.count(", 6 judgements)") == 3
    spent = sum(call["aud_cost"] for call in calls)
    assert f"The study cost AUD {spent:.3g} (runs AUD {spent:.3g}, judges AUD 0.00) in 24 calls." in text
    assert "scripted 1 sent and 2 received (of prompts of more than 100000 tokens 2 and 4) (given by" in text
    assert "(given by the study), at 1.5444 AUD a USD (Reserve Bank" in text
    assert "2025-10-17" in text
    assert "calls brought" not in text

    path.write_text(path.read_text().replace("[judges]", f"{CHANGED}[judges]", 1))
    text, calls = told_of(path)
    assert len(calls) == 48
    assert "asked for at most 2000 tokens, at temperature 0.7, with the seed" in text
    assert "The study file fixes a margin of equivalence of 0.5 score points." in text
    assert text.count(", 6 answers)") == 1  # those at another temperature are none of them
    assert text.count(", 6 judgements)") == 3
    spent = sum(call["aud_cost"] for call in calls)
    assert f"The study cost AUD {spent:.3g} (" in text
    assert "in 48 calls. 24 of these calls brought the answers and judgements that are reported" in text

    twin = path.with_name("twin.toml")
    twin.write_text(path.read_text().replace('name = "small"', 'name = "twin"', 1))
    text, calls = told_of(twin)
    half = sum(call["aud_cost"] for call in calls if call["request"].get("temperature") == 0.7)
    assert len(calls) == 48
    assert f"AUD {half:.3g} of it was paid by other studies, whose calls this one shares" in text


def test_a_study_of_one_model_one_judge_and_one_length_claims_nothing_more(store_folder):
    """Singular throughout, no agreement, no statistics, no people, no other repeat."""
    path = store_folder.parent.parent / "tiny.toml"
    path.write_text(ONE_JUDGE)
    text, calls = told_of(path)
    assert len(calls) == 4
    assert (
        "It asked 2 prompts: 2 bases of the scenario CTI analysis, in the length S (150 to 250 tokens)."
        in text
    )
    assert "A base is a situation" not in text
    assert "Each prompt was put to 1 model once, 2 runs in all" in text
    assert "The judge was primary judge-a (scripted, " in text
    assert "It was asked for at most 1000 tokens, at temperature 0.1" in text
    assert "is that of the one judge, whose agreement with other judges is not estimable" in text
    assert "have no score" not in text
    assert "No model that was asked has a price" in text
    for word in ("Statistics.", "People.", "repeat r", "pingouin", "seaborn", "famil", "Focus", "Holm"):
        assert word not in text
    assert re.findall(r"\b1 (?!of )\w+s\b", text) == []


def done_of(**changed):
    """Return what a study did, with one of everything."""
    plan = SimpleNamespace(
        test=SimpleNamespace(judged=True),
        scored=True,
        compared=False,
        study=SimpleNamespace(replies=Replies()),
        manner=SimpleNamespace(repeats=1),
    )
    given = {"plan": plan, "status": cases(__file__)["status"], "manifest": {}}
    given |= {"unscored": 1, "people": (1, 1), "paid": (), "answers": ()}
    return Done(**(given | changed))


@pytest.mark.parametrize(
    ("replies", "rule"),
    [
        (
            Replies(truncated="keep"),
            "replies that are truncated count as they are; replies that are empty, refused, filtered or of an unknown "
            "ending are left out",
        ),
        (
            Replies(truncated="retry", empty="retry", retries=3),
            "replies that are truncated or empty are asked for again with twice the tokens, up to 3 times, and then "
            "left out; replies that are refused, filtered or of an unknown ending are left out",
        ),
    ],
)
def test_what_became_of_replies_that_are_not_whole_is_the_rule_of_the_study(replies, rule):
    """The examiner reads whether answers that were cut off count."""
    done = done_of()
    done.plan.study.replies = replies
    assert sentences("missing", done)[1].text == f"By the study file {rule}"


def test_related_judges_people_and_what_they_gave_are_told_of(study_file, tmp_path):
    """Who shares a family with the judged model, how many people rated, and the statistics that hold both together."""
    path = study_file()
    same = '{ name = "judge-a", provider = "scripted", family = "f" }'
    text = path.read_text().replace('{ name = "judge-b", provider = "scripted" }', same)
    path.write_text(text.replace('{ name = "scripted" }', '{ name = "scripted", family = "f" }'))
    study = Study.load(path)
    study.run(progress=False, limit=5)
    ratings = tmp_path / "ratings.csv"
    rated = [
        f"{run},{rater},{','.join(str((n + place) % 5 + 1) for place in range(7))}"
        for n, run in enumerate(study.runs()["run_id"][:4])
        for rater in ("anna", "ben")
    ]
    ratings.write_text("\n".join((f"run_id,rater,{','.join(DIMENSIONS)}", *rated)) + "\n")
    import_ratings(study.plan, study.store, ratings)
    drawn = write_statistics({"calibration": ("People", study.calibration())}, About(), tmp_path)
    told = methods_of(study, drawn)
    study.store.close()
    assert (
        "Judges that share a family with a model under test: secondary with scripted; their judgements count"
        in told
    )
    assert "Of 6 planned runs 5 were answered and 1 was not asked" in told
    # The ledger knows the model of a call and not which judge it was: ten judgements, not ten of each.
    assert told.count("10 judgements of the 2 judges of this model together") == 2
    assert "tertiary judge-c (scripted" in told
    assert "Under the same rubric 2 people rated 4 answers." in told
    assert "Agreement of judges and people is weighted kappa with quadratic weights" in told
    assert "Means of the judges were corrected by the ratings of people" in told


def test_models_that_set_their_own_temperature_are_not_said_to_have_been_given_one(tmp_path):
    """One of two, and all of them; the judges likewise."""
    path = tmp_path / "tiny.toml"
    own = '{ name = "own", provider = "scripted", sampling_supported = false }'
    path.write_text(ONE_JUDGE.replace('{ name = "scripted" }', f'{{ name = "scripted" }}, {own}'))
    text, calls = told_of(path)
    assert "asked for at most 2000 tokens, at temperature 0.2, own at that of the provider" in text
    assert [call["request"]["temperature"] for call in calls if call["purpose"] == "run"].count(None) == 2
    path.write_text(
        ONE_JUDGE.replace('{ name = "scripted" }', own)
        .replace('"tiny"', '"alone"')
        .replace('provider = "scripted" }', 'provider = "scripted", sampling_supported = false }')
    )
    text, _ = told_of(path)
    assert "tokens, at the temperature that the provider sets, with the seed" in text
    assert "tokens, at the temperature that the provider sets. " in text
    assert "0.2" not in text.split("The judge")[0].split("The model")[1]


def test_flaws_equal_texts_and_unsure_money_stand_in_the_methods(study_file, tmp_path, toolkit):
    """Accepted and found flaws, independent groups, what may have been billed, and how that was settled."""
    prompts = [one for one in load_dataset("demo").prompts if one.scenario == "CTI_ANALYSIS"]
    same = [
        replace(one, text="Name the first step and why." if one.level == "S" else one.text) for one in prompts
    ]
    write_prompts(tmp_path / "mine.csv", same)
    path = study_file(settings='dataset = "mine.csv"\naccept_flaws = ["range"]\nnote = "A rehearsal."\n')
    with Study.load(path) as study:
        study.run(progress=False)
        call = study.plan.call_ids[0]
        study.store.database["calls"].update_one({"_id": call}, {"$set": {"unsure_aud": 0.25}})
    with Study.load(path) as study:
        told = methods_of(study)
    for words in (
        "The study file accepts these flaws of the dataset: ",
        "The check of the prompts finds flaws besides that the study file does not name: ",
        f"{KINDS_OF_FLAWS['range']} (",
        "were given prompts, and judges scored their replies by a rubric. A rehearsal. It asked",
        "only 5 differ in their text",
        "independent group",
        "At most AUD 0.25 more may have been billed",
    ):
        assert words in told, words
    toolkit("status", path, "--settle", "billed", "the bill of May")
    with Study.load(path) as study:
        told = methods_of(study)
    assert "more may have been billed" not in told
    assert "AUD 0.25 of 1 call without a reply was accepted as billed besides" in told


def cited(evidence):
    """Return the keys that the sentences on statistics cite."""
    return {key for some in statistics_used(evidence).values() for one in some for key in one.cite}


def evidence_of_table(folder, *estimates):
    """Return what the files of one table of results show."""
    table = estimates_table("some", "Wilson.", [("Wilson", one) for one in estimates])
    return evidence_of(save_table(table, folder).shown)


def test_a_method_counts_where_it_gave_an_interval_or_a_p_value(tmp_path):
    """A test that was not made and an interval that there is not are not told of."""
    nothing = Estimate("x", 0.5, method="Wilson", correction="Holm over 3 contrasts", note="no interval")
    assert cited(evidence_of_table(tmp_path, nothing)) == set()
    drawn = Estimate("x", 0.5, 0.25, 0.75, method="Wilson", correction="Holm over 3 contrasts")
    assert cited(evidence_of_table(tmp_path, drawn)) == {"wilson1927"}
    tested = replace(nothing, p_value=0.1, method=SD_METHOD)
    assert cited(evidence_of_table(tmp_path, nothing, tested)) == {"bonett2006", "holm1979"}


def test_a_method_that_no_sentence_explains_is_named_and_none_stands_as_a_fragment(tmp_path):
    """Whatever a table names is in the methods, and a correction names its families."""
    some = [Estimate("r", 0.5, 0.2, 0.7, method=CR2_METHOD, p_value=0.1, correction="Holm over 2 tests")]
    some.append(replace(some[0], method="by lot"))
    told = [one.text for one in statistics_used(evidence_of_table(tmp_path, *some))["Intervals and tests"]]
    assert told[0].startswith(
        "Slopes, and differences between groups or at equal length of the reply, are by least squares, "
    )
    assert told[1].startswith("P values of several tests of one family were corrected by the method of Holm")
    assert "(families: Holm over 2 tests)" in told[1]
    assert told[2:] == ["Results also name these methods: by lot"]


def test_names_of_results_models_and_prompts_cite_nothing(tmp_path):
    """A name that looks like a method is none; a figure cites the methods of the intervals that it draws."""
    named = Estimate(
        "quality of Wilson (TOST) at S, ICC(A,1)", 0.5, 0.25, 0.75, note="Koo & Li, Learned-Miller"
    )
    assert cited(evidence_of_table(tmp_path, named)) == set()
    drawn = replace(named, method=CR2_METHOD)
    assert "bell2002" in cited(evidence_of_table(tmp_path, drawn))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_what_missing_scores_could_change_is_told_of_where_some_are_missing(missing, tmp_path):
    """Bounds on nothing are no method that was used."""
    result = make_study(missing=missing)[0].missing()
    found = evidence_of(write_statistics({"missing": ("Missing", result)}, About(), tmp_path).shown)
    assert ("manski1990" in cited(found)) is (missing > 0)


def test_every_statistic_has_a_sign_that_the_code_writes():
    """A phrase that no method has any more would cite nothing, and nobody would see it."""
    root = Path(str(files("toolkit")))
    code = "\n".join(path.read_text("utf-8") for path in root.rglob("*.py"))
    entries = [one for kind in KINDS for one in data_file("methods.toml")[kind]]
    assert all(one.keys() & {"method", "row", "column", "correction"} for one in entries)
    for sign in (sign for one in entries for sign in one.get("method", ())):
        for phrase in sign.replace("65535", "*").replace("seed 0", "seed *").split("*"):
            assert phrase.strip(" ,") in code, sign


def test_every_citation_of_the_methods_has_a_whole_reference():
    """Author, title and year of each; volume and pages of every article; no reference that nothing cites."""
    methods, references = data_file("methods.toml"), data_file("references.toml")
    cited = {key for kind in KINDS for one in methods[kind] for key in one.get("cite", ())}
    cited |= {one["cite"] for one in methods["software"].values()}
    assert set(references) - cited == {"domhan2025", "liu2023"}  # of how judges are asked
    assert cited <= set(references)
    # These two were found in no list of references; an entry without a DOI can be looked up by who uses it.
    assert not any("doi" in references[key] for key in UNCONFIRMED)
    for key, fields in references.items():
        assert {"author", "title", "year"} <= set(fields), key
        assert fields["year"] in key
        assert fields["type"] != "article" or {"journal", "volume"} <= set(fields), key
        assert fields["type"] != "article" or "pages" in fields or "Article" in fields["note"], key
        assert short_reference(key).endswith(fields["year"])
    with pytest.raises(InputError, match="add it there"):
        bibliography(["nobody1900"])


def test_models_that_are_called_after_methods_change_no_citation(tmp_path):
    """The same study with other names of models has the same references, and they are not none."""
    some = ["quality_by_length", "cost_quality"]
    found = []
    for names in (("a", "b", "c"), ("Bland-Altman (TOST)", "Holm over", "Wilson, effective n")):
        held, plan = make_study(models=names, bases=4)
        written = Files()
        for figure in draw_study(held, about_study(held, plan), some):
            assert names[0] in figure.caption + figure.data.to_csv()
            written += save_figure(figure, tmp_path)
        found.append(cited(evidence_of(written.shown)))
    assert found[0] == found[1]
    numbers = {"miller2024", "efron1993", "satterthwaite1946"}
    assert found[0] == numbers | {"bell2002", "pustejovsky2018"}  # of the costs, clustered over bases
