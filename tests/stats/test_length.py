import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from places import DOCS
from scipy import stats
from score_tables import check_shown, crossed, ends, named, width

from toolkit.stats.conditions.contrasts import compare_conditions, equivalence, repeated_measures
from toolkit.stats.inference.means import bounded_mean
from toolkit.stats.inference.p_values import holm
from toolkit.stats.result import Estimate

GAINS = {"S": 0, "M": 0.3, "L": 0.5}


def study(bases=8, models=("m1", "m2"), repeats=2, seed=4):
    rng = np.random.default_rng(seed)
    frame = crossed(base=named("b", bases), model=models, level=GAINS, repeat=range(repeats))
    level = 3 + rng.normal(0, 0.6, bases)[pd.factorize(frame["base"])[0]]
    frame["composite_strict"] = level + frame["level"].map(GAINS) + rng.normal(0, 0.2, len(frame))
    return frame.astype({"level": pd.CategoricalDtype(GAINS, ordered=True)})


def base_means(runs):
    return runs.groupby(["base", "level"], observed=True)["composite_strict"].mean().unstack()


def test_contrasts_are_paired_t_tests_over_bases_with_holm():
    runs = study()
    comparison = compare_conditions(runs)
    means = base_means(runs)
    tests = [stats.ttest_rel(means[b], means[a]) for b, a in (("M", "S"), ("L", "M"), ("L", "S"))]
    assert [one.name for one in comparison.contrasts] == ["M-S", "L-M", "L-S"]
    for one, test in zip(comparison.contrasts, tests, strict=True):
        interval = test.confidence_interval(0.95)
        assert ends(one) == pytest.approx(ends(interval))
        assert one.n == {"bases": 8}
        assert one.correction == "Holm over 3 contrasts"
        assert one.unit == "score points (0-5)"
    assert [one.p_value for one in comparison.contrasts] == pytest.approx(
        holm([test.pvalue for test in tests])
    )


def test_the_mean_of_a_bin_is_that_of_scores_on_a_scale():
    runs = study()
    for one in compare_conditions(runs).per_level:
        means = base_means(runs)[one.name]
        expected = bounded_mean(Estimate("x", None), means, range(8), (0.0, 5.0))
        assert ends(one) == pytest.approx(ends(expected))
        assert one.n == {"bases": 8, "answers": 32}
        assert one.p_value is None


def test_a_run_without_a_score_is_missing_and_its_base_leaves_the_contrast():
    runs = study(models=("m1",), repeats=1)
    runs.loc[1, "composite_strict"] = np.nan
    comparison = compare_conditions(runs)
    assert [one.missing for one in comparison.per_level] == [0, 1, 0]
    assert [(one.n["bases"], one.missing) for one in comparison.contrasts] == [(7, 1), (7, 1), (8, 0)]
    rest = compare_conditions(runs[runs["base"] != "b0"])
    assert comparison.contrasts[0].estimate == pytest.approx(rest.contrasts[0].estimate)
    assert "1 of 24 runs has no composite_strict and is left out" in comparison.notes
    assert (
        "1 of 8 bases lacks a score at a level of prompt length and is left out of its contrasts"
        in comparison.notes
    )


def test_a_model_that_failed_in_one_bin_does_not_pass_for_an_effect_of_length():
    runs = study(models=("weak", "strong"), repeats=1)
    runs["composite_strict"] = np.where(runs["model"] == "weak", 1.0, 4.0) + runs["composite_strict"] / 100
    failed = (runs["base"] == "b0") & (runs["model"] == "weak") & (runs["level"] == "M")
    runs.loc[failed, "composite_strict"] = np.nan
    comparison = compare_conditions(runs)
    assert comparison.contrasts[0].n == {"bases": 8}
    assert abs(comparison.contrasts[0].estimate) < 0.1
    assert "pairs of base and model" in str(comparison.notes)


def test_by_model_is_the_interaction_of_length_and_model():
    """Of two models and complete data F of the interaction of statsmodels is the square of t, for each contrast."""
    from statsmodels.stats.anova import AnovaRM

    runs = study(repeats=1)
    for contrast, row in zip(("MS", "LM", "LS"), compare_conditions(runs).by_model, strict=True):
        pair = runs[runs["level"].isin(list(contrast))].astype({"level": str})
        oracle = AnovaRM(pair, "composite_strict", "base", within=["level", "model"]).fit().anova_table
        t = row.estimate / (width(row) / 2 / stats.t.ppf(0.975, 7))
        assert t**2 == pytest.approx(oracle.loc["level:model", "F Value"])
        assert row.facets == {"contrast": f"{contrast[0]}-{contrast[1]}", "model": "m1"}
        assert row.statistic == "less that of m2"


def test_a_model_on_which_length_does_nothing_stands_out_from_the_others():
    """The pooled contrast hides it; a base that lacks a model is left out, and all are corrected together."""
    runs = study(bases=12, models=("m1", "m2", "m3"))
    flat = runs["model"] == "m3"
    runs.loc[flat, "composite_strict"] = 3 + runs.loc[flat, "composite_strict"] / 100
    runs.loc[flat & (runs["base"] == "b0") & (runs["level"] == "M"), "composite_strict"] = np.nan
    rows = {(row.facets["contrast"], row.facets["model"]): row for row in compare_conditions(runs).by_model}
    assert len(rows) == 9
    last = rows["M-S", "m3"]
    assert (last.n, last.missing, last.role) == ({"bases": 11}, 1, "exploratory")
    assert last.correction == "Holm over 9 differences between models"
    assert last.p_value < 0.001 < 0.05 < rows["L-M", "m1"].p_value
    complete = runs[runs["base"] != "b0"]
    own = [mean for mean in compare_conditions(complete).of_models if mean.statistic == "M-S"]
    for mean, (_, rows) in zip(own, complete.groupby("model"), strict=True):
        alone = compare_conditions(rows).contrasts[0]
        assert (mean.estimate, mean.low, mean.high, mean.n) == (
            alone.estimate,
            alone.low,
            alone.high,
            alone.n,
        )
    first, second, third = (mean.estimate for mean in own)
    assert last.estimate == pytest.approx(third - (first + second) / 2)
    assert compare_conditions(runs[flat]).by_model == ()


def test_equal_differences_have_no_effect_size():
    runs = study(models=("m1",), repeats=1)
    runs["composite_strict"] = 4.1 + runs["level"].cat.codes * 0.1 + runs["base"].str[1:].astype(int) * 0.07
    comparison = compare_conditions(runs)
    for effect in (*comparison.effect_sizes, *comparison.corrected_effect_sizes):
        assert effect.remarks == "not estimable: the differences are all equal"


@pytest.mark.parametrize("runs", [study(bases=1), study(bases=0), study().query("level == 'S'")])
def test_too_few_bases_are_not_estimable(runs):
    comparison = compare_conditions(runs)
    for one in (*comparison.contrasts, *comparison.effect_sizes):
        assert one.estimate is None
        assert one.remarks.startswith("not estimable: ")
    check_shown(comparison)


def test_the_tests_of_any_difference_are_made_where_asked_over_complete_bases():
    runs = study(models=("m1",), repeats=1)
    runs.loc[1, "composite_strict"] = np.nan
    assert compare_conditions(runs).anova is None
    comparison = compare_conditions(runs, omnibus=True)
    table = base_means(runs).dropna().to_numpy()
    assert comparison.anova == repeated_measures(table, missing=1)
    assert comparison.frame()["name"].iloc[-1] == "F(levels)"
    check_shown(comparison)


def test_two_bins_and_one_bin_have_an_answer_to_any_difference():
    two = compare_conditions(study().query("level != 'M'"), omnibus=True)
    assert two.anova.p_value == pytest.approx(two.contrasts[2].p_value)
    one = compare_conditions(study().query("level == 'S'"), omnibus=True)
    assert one.anova.reason == "1 level with a score, and two are needed"


def test_equivalence_is_tested_against_the_margin_of_the_study_only():
    runs = study()
    assert compare_conditions(runs).equivalence == ()
    means = base_means(runs)
    found = compare_conditions(runs, margin=0.4).equivalence
    raw = [equivalence(name, means[name[0]] - means[name[2]], 0.4).p_value for name in ("M-S", "L-M", "L-S")]
    assert [one.p_value for one in found] == pytest.approx(holm(raw))
    assert [one.facets["verdict"] for one in found] == [
        "equivalent" if p < 0.05 else "larger than the margin" if one.low > 0.4 else "equivalence not shown"
        for one, p in zip(found, holm(raw), strict=True)
    ]
    other = compare_conditions(runs.rename(columns={"composite_strict": "aud_cost"}), "aud_cost", margin=0.4)
    assert (other.equivalence, other.per_level[0].unit) == ((), "aud_cost")
    assert "the margin is in score points" in other.notes[-1]


def test_the_page_on_statistics_fits_a_mixed_model_to_the_joined_table(capsys):
    """The five lines of the page, on bases that react to models and lengths; each run stands there once a judge."""
    page = (DOCS / "explain" / "statistics.md").read_text("utf-8")
    (lines,) = re.findall(r"```python\n(import statsmodels.*?)```", page, re.DOTALL)
    runs, rng = study(bases=24, repeats=1).astype({"level": str}), np.random.default_rng(2)
    base, model, place = (pd.factorize(runs[name])[0] for name in ("base", "model", "level"))
    runs["run_composite_strict"] = 3 + rng.normal(0, 0.5, 24)[base] + rng.normal(0, 0.2, (24, 2))[base, model]
    runs["run_composite_strict"] += rng.normal(0, 0.2, (24, 3))[base, place] + rng.normal(0, 0.3, len(runs))
    runs = runs.assign(run_id=range(len(runs)), scenario=np.array(["x", "y"])[base % 2])
    exec(lines, {"study": SimpleNamespace(joined=lambda: pd.concat([runs, runs]))})
    told = capsys.readouterr().out
    assert "C(level, Sum)[S.M]:C(model, Sum)[S.m1]" in told
    assert re.search(r"No. Observations: +144 .*Converged: +Yes", told, re.DOTALL)


@pytest.mark.parametrize("seed", range(8))
def test_a_contrast_says_which_models_and_how_many_bases_it_rests_on(seed):
    """Recounted from cells that are missing at random; a model that gives nothing is named, and n counts the others."""
    drawn, runs = np.random.default_rng(seed), study(bases=5, models=("m1", "m2", "m3"), repeats=1)
    place = runs.groupby(["model", "level"], observed=True).ngroup()
    keep = np.ones(9)
    keep[drawn.permutation(9)[: seed % 5]] = drawn.choice([0.0, 0.5], seed % 5)
    runs.loc[drawn.random(len(runs)) >= keep[place], "composite_strict"] = np.nan
    cells = runs.pivot(index=["base", "model"], columns="level", values="composite_strict")
    comparison = compare_conditions(runs, margin=0.5)
    pairs = [cells[one.name.split("-")].notna().all(axis=1) for one in comparison.contrasts]
    counts = [pair.groupby("model").sum() for pair in pairs]
    lacking = any(count.min() == 0 < count.max() for count in counts)
    for one, test, count in zip(comparison.contrasts, comparison.equivalence, counts, strict=True):
        used = int((count > 0).sum())
        assert one.n.get("models") == test.n.get("models") == (used if lacking and used else None)
        words = one.why_no_number if one.estimate is None else one.remarks
        assert ("rests on" in words) == bool(used and (lacking or count.nunique() > 1))
        for model, bases in count.items():
            assert (f"none of {model}" in words or f"or {model}" in words) == bool(
                lacking and used and not bases
            )
        if lacking and used:
            least, most = count[count > 0].min(), count.max()
            assert (f"{least} to {most} bases" if least < most else f"{most} base") in words
