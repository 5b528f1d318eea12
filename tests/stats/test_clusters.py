"""Bases that share texts: a copy says nothing new, and studies full of copies find no more than they should."""

import numpy as np
import pandas as pd
import pytest
from score_tables import crossed, numbers

from toolkit.stats.comparisons.cost_quality import pareto
from toolkit.stats.comparisons.missing_data import ceiling, missing_data
from toolkit.stats.comparisons.models import compare_models
from toolkit.stats.conditions.contrasts import compare_conditions, dimension_profile
from toolkit.stats.conditions.reply_length import length_bias
from toolkit.stats.generalizability.g_study import study_generalizability
from toolkit.stats.power.pilot import pilot_power
from toolkit.stats.result import estimates_of


def study(bases=12):
    """Two models at three lengths, two scenarios."""
    rng = np.random.default_rng(3)
    runs = crossed(base=[f"b{base:02}" for base in range(bases)], model="uv", level="SML")
    place = runs["base"].str[1:].astype(int)
    level = rng.normal(0, 0.4, bases)[place]
    return runs.assign(
        scenario=place % 2,
        composite_strict=3 + level + (runs["level"] == "L") * 0.3 + rng.normal(0, 0.4, len(runs)),
        clarity=3.0 + rng.normal(0, 0.4, len(runs)),
        aud_cost=rng.uniform(0.01, 0.05, len(runs)),
        output_tokens=rng.integers(200, 600, len(runs)),
        judge="primary",
        repeat=0,
    )


def listed(runs, times):
    """The same runs again under other bases, as a dataset lists a text several times."""
    copies = [runs.assign(base=runs["base"] + f"-{copy}", cluster=runs["base"]) for copy in range(times)]
    return pd.concat(copies, ignore_index=True)


def focus(runs):
    off = runs.assign(run=[f"r{n}" for n in range(len(runs))], focus="off")
    on = off.assign(composite_strict=off["composite_strict"] + off["clarity"] / 10, focus="on")
    return compare_conditions(pd.concat([on, off]), factor="focus", within=("level", "model", "run", "judge"))


def ratings(runs):
    judged = [
        runs.assign(judge=name, composite_strict=runs["composite_strict"] + plus)
        for name, plus in (("a", 0.0), ("b", 0.2))
    ]
    judged[1]["composite_strict"] += runs["clarity"] / 4
    return study_generalizability(pd.concat(judged, ignore_index=True), of="base")


ANALYSES = {
    "lengths": lambda runs: compare_conditions(runs, omnibus=True, margin=0.25),
    "models": compare_models,
    "profile": lambda runs: dimension_profile(runs, ("clarity",)),
    "front": lambda runs: pareto(runs, resamples=200),
    "slope": length_bias,
    "focus": focus,
    "power": lambda runs: pilot_power(runs, 0.3),
    "generalizability of a base": ratings,
}


def every(found):
    return {f"{where} {one.name}": [*numbers(one), one.p_value] for where, one in estimates_of(found)}


def about(found):
    return {
        what: [one if one is None else pytest.approx(one, rel=1e-6, abs=1e-9) for one in values]
        for what, values in found.items()
    }


@pytest.mark.parametrize("name", ANALYSES)
def test_a_study_listed_three_times_says_what_it_says_once(name):
    """The same estimate, the same interval, the same test: copies are no observations."""
    once, thrice = (every(ANALYSES[name](runs)) for runs in (study(), listed(study(), 3)))
    assert len(once) > 2
    assert thrice == about(once)


@pytest.mark.parametrize("name", ["lengths", "models"])
def test_a_cluster_for_each_base_changes_nothing_whatever_it_is_called(name):
    """Questions that each have an address of their own, and the one answered question of several on a document."""
    runs = study()
    tables = runs, runs.assign(cluster="https://example.org/" + runs["base"])
    one, other = (every(ANALYSES[name](table)) for table in tables)
    assert other == about(one)


@pytest.mark.parametrize("name", [*ANALYSES, "missing", "ceiling"])
def test_the_order_of_rows_changes_nothing(name):
    """Shuffled rows, some of them without a score."""
    runs = study().assign(
        composite_strict=lambda rows: rows["composite_strict"].mask(rows.index % 17 == 0).clip(0, 5)
    )
    analysis = (ANALYSES | {"missing": missing_data, "ceiling": ceiling})[name]
    one, other = (every(analysis(table)) for table in (runs, runs.sample(frac=1, random_state=4)))
    assert other == about(one)


@pytest.mark.parametrize("name", ["lengths", "models", "profile", "front"])
def test_repeats_are_averaged_first_and_do_not_count_as_bases(name):
    """The same scores again, under another repeat."""
    again = pd.concat([study(), study().assign(repeat=1)])
    one, other = (every(ANALYSES[name](runs)) for runs in (study(), again))
    assert other == about(one)


def test_lengths_are_paired_within_a_base_before_bases_are_averaged():
    """A base that lacks a length drops out of its contrast with all it has, whatever its cluster has."""
    runs = study()
    other = runs.assign(base=runs["base"] + "-1", composite_strict=runs["composite_strict"] + 2.0)
    half = other[other["level"] == "L"]
    both = pd.concat([runs, half], ignore_index=True).assign(cluster=lambda rows: rows["base"].str[:3])
    found, alone = compare_conditions(both), compare_conditions(runs)
    assert [one.estimate for one in found.contrasts] == pytest.approx(
        [one.estimate for one in alone.contrasts]
    )
    assert found.per_level[2].estimate == pytest.approx(alone.per_level[2].estimate + 1.0)
    assert "24 of 48 pairs of base and model lack a score at a level of prompt length" in " ".join(
        found.notes
    )
