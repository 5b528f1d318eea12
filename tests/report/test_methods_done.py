"""The methods section says what was done: recounted from the store, for studies as small and odd as they come."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.judges.ensemble import ENOUGH_JUDGES
from toolkit.people.ratings_file import import_ratings
from toolkit.report.bundle.accounts import cost, missing
from toolkit.report.bundle.asking import people
from toolkit.report.bundle.evidence import Evidence, evidence_of
from toolkit.report.bundle.methods import methods_section, methods_text
from toolkit.report.figure import About
from toolkit.report.registry import write_statistics
from toolkit.study import Study
from toolkit.study_file import Replies
from toolkit.words import DIMENSIONS
from toolkit.workbench.bundling import what_was_done

PRICED = '{ name = "scripted", usd_per_million_input = 1.0, usd_per_million_output = 2.0 }'
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


def told_of(path: Path) -> tuple[str, list[Mapping[str, Any]]]:
    """Run a study, and return its methods as text and every call of its store as the database has it."""
    study = Study.load(path)
    study.run(progress=False)
    done = what_was_done(study, study.status(), Evidence())
    calls = list(study.store.database["calls"].find({}))
    study.store.close()
    return methods_text(methods_section(done)), calls


def test_every_number_is_that_of_the_store_also_after_settings_have_changed(
    study_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Answers and judgements of today, the cost of all calls, and whose they were."""
    path = study_file()
    path.write_text(path.read_text().replace('{ name = "scripted" }', PRICED))
    text, calls = told_of(path)
    assert len(calls) == 24
    assert "6 prompts: 2 bases of the scenario CTI_ANALYSIS, in the lengths S, M and L" in text
    assert "The model under test, with the days (UTC) of the replies: scripted (scripted, " in text
    assert text.count(", 6 answers)") == 1
    assert text.count(", 6 judgements)") == 3
    spent = sum(call["aud_cost"] for call in calls)
    assert f"The study cost AUD {spent:.3g} (runs AUD {spent:.3g}, judges AUD 0.00) in 24 calls." in text
    assert "scripted 1 sent and 2 received (given by the study), at 1.5444 AUD a USD (Reserve Bank" in text
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


def test_a_study_of_one_model_one_judge_and_one_length_claims_nothing_more(store_folder: Path) -> None:
    """Singular throughout, no score, no statistics, no people, no other repeat."""
    path = store_folder.parent.parent / "tiny.toml"
    path.write_text(ONE_JUDGE)
    text, calls = told_of(path)
    assert len(calls) == 4
    assert "It asked 2 prompts: 2 bases of the scenario CTI_ANALYSIS, in the length S." in text
    assert "Each prompt was put to 1 model once, 2 runs in all" in text
    assert "The judge: primary judge-a (scripted, " in text
    assert "It was asked for at most 1000 tokens, at temperature 0.1" in text
    assert ENOUGH_JUDGES == 2
    assert "fewer than two judges scored has none; with one judge, as here, none has" in text
    assert "2 answers have no score, because fewer than two judges scored them" in text
    assert "No model that was asked has a price" in text
    for word in ("Statistics.", "People.", "repeat r", "pingouin", "seaborn", "famil", "Focus", "Holm"):
        assert word not in text
    assert re.findall(r"\b1 (?!of )\w+s\b", text) == []


def done_of(**changed: Any) -> SimpleNamespace:
    """Return what stands in for what a study did, with one of everything."""
    status = {
        "runs": {"planned": 3, "succeeded": 1, "failed": 1, "missing": 1},
        "distinct_calls": 3,
        "judgements": {"planned": 3, "done": 2, "scored": 1, "missing": 1},
        "excluded": {"truncated": 1},
        "failures": {"timeout": 1},
        "judgement_failures": {"prose without scores": 1},
        "finish_reasons": {"length": 1},
        "spent_aud": 0.0,
        "unsure_aud": 0.5,
    }
    plan = SimpleNamespace(
        test=SimpleNamespace(judged=True),
        study=SimpleNamespace(replies=Replies()),
        manner=SimpleNamespace(repeats=1),
    )
    given = {"plan": plan, "status": status, "unscored": 1, "people": (1, 1), "paid": (), "answers": ()}
    return SimpleNamespace(**(given | {"prices": {}, "settled": ()} | changed))


def test_equal_requests_are_told_of() -> None:
    """Runs that rest on one call are no answers of their own, and the methods say how many there are."""
    done = done_of()
    done.status["distinct_calls"] = 2
    assert missing(done)[1].text == "Equal requests were paid once: 3 runs, 2 distinct calls"


def test_what_is_one_is_told_of_as_one() -> None:
    """Verbs and nouns follow their numbers, and every reason is named."""
    told = [one.text for one in missing(done_of())]
    assert told == [
        "Of 3 planned runs 1 was answered, 1 failed (1 timeout) and 1 was not asked",
        "By the study file replies that are truncated, empty, refused or filtered are left out",
        "1 reply ended at the limit of tokens",
        "So 1 answer was left out as not whole (1 truncated)",
        "Of 3 planned judgements 2 were given, of which 1 could not be read (1 prose without scores), and 1 is missing",
        "1 answer has no score, because fewer than two judges scored it",
        "What failed is missing and never counted as zero",
    ]
    assert [one.text for one in people(done_of())] == ["Under the same rubric 1 person rated 1 answer"]
    assert people(done_of(people=(0, 0))) == ()
    assert [one.text for one in cost(done_of(prices={"gone": None}))][2:] == [
        "No price is known today of gone"
    ]
    billed = "At most AUD 0.50 more may have been billed for attempts without a reply"
    assert cost(done_of())[1].text == billed


@pytest.mark.parametrize(
    ("replies", "rule"),
    [
        (
            Replies(truncated="keep"),
            "replies that are truncated count as they are; replies that are empty, refused or filtered are left out",
        ),
        (
            Replies(truncated="retry", empty="retry", retries=3),
            "replies that are truncated or empty are asked for again with twice the tokens, up to 3 times, and then "
            "left out; replies that are refused or filtered are left out",
        ),
    ],
)
def test_what_became_of_replies_that_are_not_whole_is_the_rule_of_the_study(
    replies: Replies, rule: str
) -> None:
    """The examiner reads whether answers that were cut off count."""
    done = done_of()
    done.plan.study.replies = replies
    assert missing(done)[1].text == f"By the study file {rule}"


def test_related_judges_people_and_what_they_gave_are_told_of(
    study_file: Callable[..., Path], tmp_path: Path
) -> None:
    """Who shares a family with the judged model, how many people rated, and the statistics that hold both together."""
    path = study_file()
    same = '{ name = "judge-b", provider = "scripted", family = "f" }'
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
    told = methods_text(methods_section(what_was_done(study, study.status(), evidence_of(drawn))))
    study.store.close()
    assert (
        "Judges that share a family with a model under test: secondary with scripted; their judgements count"
        in told
    )
    assert "Of 6 planned runs 5 were answered, 0 failed and 1 was not asked" in told
    assert "Under the same rubric 2 people rated 4 answers." in told
    assert "Agreement of judges and people is weighted kappa with quadratic weights" in told
    assert "Means of the judges were corrected by the ratings of people" in told


def test_models_that_set_their_own_temperature_are_not_said_to_have_been_given_one(tmp_path: Path) -> None:
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
