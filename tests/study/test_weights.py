"""Judges that count twice on their specialities, and length normalization as seed 002 sets it."""

from dataclasses import replace

import pandas as pd
import pytest
from methods_told import methods_of

from tests.study.test_judges import SPEC, said
from toolkit.audit.verify import record_differences
from toolkit.errors import NotAnswerable, StudyError
from toolkit.judges.ensemble import ensemble_evaluation
from toolkit.scoring import composite_strict
from toolkit.study import Study
from toolkit.words import DIMENSIONS, JUDGE_ROLES

pytestmark = pytest.mark.usefixtures("no_pictures")

DOUBLED = {
    "primary": ("technical_accuracy", "compliance_alignment"),
    "secondary": ("actionability", "clarity"),
    "tertiary": ("risk_awareness", "relevance"),
}
SPECIAL = dict(
    zip(
        DOUBLED,
        (
            "technical accuracy and compliance alignment",
            "Actionability, clarity",
            "risk_awareness and relevance",
        ),
        strict=True,
    )
)
WEIGHTED = 'weights = "specialization"'


def study_at(folder, judges="", special=SPECIAL, cut=""):
    """Return a planted study of six bases and two models, whose judges differ in severity and speciality."""
    model = '{{ name = "{}", provider = "scripted", planted = {{ {} }}{} }}'
    rows = zip(special.items(), (0.0, 0.2, 0.9), strict=True)
    roles = "\n".join(
        f"{role} = {model.format(role, f'severity = {severity}', f', specialization = {text!r}')}"
        for (role, text), severity in rows
    )
    models = ", ".join(model.format(name, "", "") for name in "ab")
    path = folder / "weights.toml"
    head = f'name = "weights"\noutput = "{folder}/results/weights"\nbases = 6\nmodels = [{models}]'
    path.write_text(f"{head}\n[judges]\n{judges}\n{roles}\n{cut}")
    return Study.load(path)


def specs(**doubled):
    return [replace(SPEC, role=role, doubled=doubled.get(role, ())) for role in JUDGE_ROLES]


def test_a_judge_counts_twice_on_its_dimensions_and_one_that_failed_takes_its_weight_with_it():
    """By hand: 4, 3 and 2 everywhere; without the third judge its dimensions are the plain mean of the others."""
    judgements = [said(role, score) for role, score in zip(JUDGE_ROLES, (4, 3, 2), strict=True)]
    aggregated = ensemble_evaluation(judgements, judges=specs(**DOUBLED))["aggregated"]
    means = aggregated["mean_scores"]
    by_hand = {"completeness": 3.0}
    by_hand |= {
        name: total / 4 for role, total in zip(DOUBLED, (13, 12, 11), strict=True) for name in DOUBLED[role]
    }
    assert {name: means[name] for name in DIMENSIONS} == pytest.approx(by_hand)
    assert means["composite"] == means["composite_strict"] == composite_strict(by_hand) == pytest.approx(3.0)
    assert aggregated["confidence_intervals"] == {}
    two = ensemble_evaluation([*judgements[:2], said("tertiary", None)], judges=specs(**DOUBLED))[
        "aggregated"
    ]
    assert two["mean_scores"]["relevance"] == two["mean_scores"]["completeness"] == 3.5
    assert two["mean_scores"]["clarity"] == pytest.approx(10 / 3)
    one = ensemble_evaluation([judgements[0], said("tertiary", None)], judges=specs(**DOUBLED))["aggregated"]
    assert (one["judged"], {*one["mean_scores"].values()}) == (False, {None})


def test_equal_weights_are_the_numbers_without_any():
    judgements = [said(role, score) for role, score in zip(JUDGE_ROLES, (4.5, 3, 0), strict=True)]
    aggregated = ensemble_evaluation(judgements, judges=specs())["aggregated"]
    assert aggregated["mean_scores"]["composite_strict"] == pytest.approx(2.5)
    assert aggregated["mean_scores"]["composite"] == pytest.approx(2.5)
    assert aggregated["confidence_intervals"]["clarity"] == pytest.approx([0.0, 5.0])


def test_weights_change_no_call_and_the_result_has_the_difference(tmp_path):
    """The ledger is judged from again; the difference is that of both studies, paired, and verify makes it again."""
    with study_at(tmp_path) as equal:
        before = equal.execute(progress=False)
        runs, means = equal.runs().set_index("run_id"), equal.length().per_level
        with pytest.raises(NotAnswerable, match="judges count alike"):
            equal.conditions("weights")
        assert not any("count twice" in sentence for sentence in equal.findings().sentences())
    with study_at(tmp_path, WEIGHTED) as study:
        assert study.plan.ensemble_key != equal.plan.ensemble_key
        outcome = study.execute(progress=False)
        assert (outcome.new_calls, outcome.judged) == (0, before.judged)
        weighted, names = study.runs().set_index("run_id"), (*DIMENSIONS, "composite_strict")
        compared = [study.conditions("weights", name).contrasts[0] for name in names]
        apart = weighted[[*names]] - runs[[*names]]
        assert [e.estimate for e in compared] == pytest.approx(apart.mean().tolist())
        assert (
            apart["technical_accuracy"].mean() > 0.05 > -0.05 > apart["relevance"].mean()
        )  # its judge is severe
        assert all(e.low < e.estimate < e.high for e in compared[:-1])
        assert study.length().per_level != means
        (sentence,) = [text for text in study.findings().sentences() if "count twice" in text]
        assert f"{abs(compared[-1].estimate):.2f}" in sentence
        assert "Judges count twice on the dimensions of their specialization." in study.note
        of_bin = weighted[weighted["level"] == "S"].groupby("model", observed=True)["composite_strict"].mean()
        results = {(model, e.name): e.estimate for model, e in outcome.results}
        assert [results[model, "mean composite_strict, S"] for model in "ab"] == pytest.approx(
            of_bin.tolist()
        )
        assert record_differences(study) == []
        run = study.store.database["runs"].find_one()
        score = run["scores"]["clarity"] + 0.01
        study.store.database["runs"].update_one({"_id": run["_id"]}, {"$set": {"scores.clarity": score}})
        assert "scores differ from what the ledger gives" in record_differences(study)[0]
    with study_at(tmp_path) as again:
        assert again.plan.ensemble_key == equal.plan.ensemble_key
        assert again.execute(progress=False).new_calls == 0
        pd.testing.assert_frame_equal(again.runs().set_index("run_id"), runs, check_exact=True)


@pytest.mark.parametrize(
    ("special", "settings", "words"),
    [
        (
            SPECIAL | {"tertiary": "spelling"},
            WEIGHTED,
            "judges.tertiary: .*'spelling'.* names.*none of rubric 'default'",
        ),
        (SPECIAL | {"primary": ""}, WEIGHTED, "judges.primary: .* or leave weights out"),
        (SPECIAL, 'weights = "double"', "weights"),
        (SPECIAL, f'mode = "pairs"\n{WEIGHTED}', "judges.weights is about scores"),
    ],
)
def test_weights_that_cannot_be_are_one_line(tmp_path, special, settings, words):
    with pytest.raises(StudyError, match=words):
        _ = study_at(tmp_path, settings, special=special).plan


def test_length_normalization_of_the_seed_s_document_asks_for_the_length_bias(tmp_path):
    """``fsp_enabled`` with it and no more runs; the findings say what it does, and documents of runs have both."""
    controls = "[bias_controls]\nfsp_enabled = true\nlength_normalization = true\n"
    with study_at(tmp_path, cut=controls) as study:
        study.execute(progress=False)
        *_, sentence = study.findings("length_bias").sentences()
        assert sentence in study.findings().sentences()
        assert "changes no score in other modes" in sentence
        assert "per 100 tokens" not in methods_of(study)
        slope = study.length_bias().slope
        assert slope.estimate is None or f"{slope.estimate:.2f}" in sentence
        stored = study.store.database["runs"].find_one()["bias_controls"]
        assert (stored["fsp_enabled"], stored["length_normalization"]) == (True, True)
    with study_at(tmp_path) as plain:
        assert not any("length_normalization" in text for text in plain.findings().sentences())
