"""Answers with a key and votes on pairs: published numbers, an oracle written otherwise, and the edges."""

from collections import Counter
from itertools import combinations, cycle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import logit
from score_tables import crossed, ends, named, numbers
from sklearn.metrics import f1_score

from toolkit import stats

BASEBALL = pd.read_csv(Path(__file__).parents[1] / "golden" / "baseball_agresti_2002.csv")
"""Wins at home and away of the American League East in 1987 (Agresti 2002, Categorical Data Analysis, table 10.10)."""
PUBLISHED = {
    "Boston": 1.1438, "Cleveland": 0.7047, "Detroit": 1.4754, "Milwaukee": 1.6196, "New York": 1.2813, "Toronto": 1.3271
}  # fmt: skip
"""Abilities less Baltimore's with home advantage .3023, by R's BradleyTerry2 (Turner & Firth 2012, section 3.2)."""


def games():
    """Return every game as a vote: the home team is the reply that is shown first."""
    votes = BASEBALL.melt(["first", "second"], ["won", "lost"], "vote")
    votes = votes.loc[votes.index.repeat(votes["value"])].replace({"won": "first", "lost": "second"})
    names = named("g", len(votes))
    return votes.reset_index(drop=True).assign(base=names, prompt=names, judge="league")


def fitted(votes, penalty):
    """Return strengths less Baltimore's by direct maximisation of the likelihood, with Firth's penalty or without."""
    names = sorted(set(votes["first"]) | set(votes["second"]) - {"Baltimore"})
    names.remove("Baltimore")
    design = np.column_stack(
        [(votes["first"] == n).astype(float) - (votes["second"] == n).astype(float) for n in names]
        + [np.ones(len(votes))]
    )
    won = (votes["vote"] == "first").to_numpy(dtype=float)

    def loss(beta):
        linear = design @ beta
        chance = 1 / (1 + np.exp(-linear))
        information = (design * (chance * (1 - chance))[:, None]).T @ design
        likelihood = float(won @ linear - np.logaddexp(0, linear).sum())
        return -likelihood - penalty * 0.5 * float(np.linalg.slogdet(information)[1])

    beta = minimize(loss, np.zeros(design.shape[1]), method="BFGS", options={"gtol": 1e-8}).x
    return {**dict(zip([*names, "home"], map(float, beta), strict=True)), "Baltimore": 0.0}


def test_the_published_league_is_found_and_the_penalised_fit_is_ours():
    """Without a penalty the oracle has the published abilities; with Firth's it has the differences that we report."""
    votes = games()
    plain = fitted(votes, 0.0)
    assert {name: round(plain[name], 3) for name in PUBLISHED} == {
        name: pytest.approx(value, abs=6e-4) for name, value in PUBLISHED.items()
    }
    assert plain["home"] == pytest.approx(0.3023, abs=5e-4)
    oracle = fitted(votes, 1.0)
    differences = stats.compare_pairs(votes).differences
    assert len(differences) == 21
    for estimate in differences:
        a, b = estimate.name.split(" - ")
        assert estimate.estimate == pytest.approx(oracle[a] - oracle[b], abs=2e-4)
        assert estimate.low < estimate.estimate < estimate.high


def votes_of(*duels, bases=12):
    """Return votes in both orders on each base: of a pair, who wins on which (``+-=`` for the first, in turns)."""
    rows = []
    for a, b, winners in duels:
        for base, winner in zip(range(bases), cycle(winners), strict=False):
            forth, back = {"+": ("first", "second"), "-": ("second", "first"), "=": ("tie", "tie")}[winner]
            rows += [(f"b{base}", f"p{base}", "j", a, b, forth), (f"b{base}", f"p{base}", "j", b, a, back)]
    return pd.DataFrame(rows, columns=["base", "prompt", "judge", "first", "second", "vote"])


@pytest.mark.parametrize("winner", ["first", "second"])
def test_who_won_or_lost_all_has_no_strength_and_takes_none_from_the_others(winner):
    """Boston wins, or loses, every game: the others are those of a league without it, by the penalised oracle."""
    votes = games()
    at_home, away = votes["first"] == "Boston", votes["second"] == "Boston"
    votes.loc[at_home, "vote"], votes.loc[away, "vote"] = winner, {"first": "second"}.get(winner, "first")
    result, rest = stats.compare_pairs(votes), votes[~(at_home | away)]
    alone, oracle = stats.compare_pairs(rest), fitted(rest, 1.0)
    differences, strengths = (
        {tuple(estimate.facets.values()): estimate for estimate in group}
        for group in (result.differences, result.models)
    )
    for estimate in (*alone.differences, *alone.models):
        same = (differences | strengths)[tuple(estimate.facets.values())]
        assert numbers(same) == pytest.approx(numbers(estimate))
        if estimate in alone.differences:
            a, b = estimate.facets.values()
            assert same.estimate == pytest.approx(oracle[a] - oracle[b], abs=2e-4)
    boston = strengths["Boston",]
    assert numbers(boston) == (None, None, None)
    assert boston.remarks.startswith("not estimable: unbounded")
    for (a, b), number in differences.items():
        if "Boston" in (a, b):
            bound = number.low if (a == "Boston") == (winner == "first") else number.high
            assert number.estimate is None
            assert [number.low, number.high].count(None) == 1
            rate = next(r for r in result.win_rates if tuple(r.facets.values()) == (a, b))
            assert bound == pytest.approx(logit(rate.low if rate.estimate == 1 else rate.high))
            assert (number.p_value < 0.05) == (
                not rate.low <= 0.5 <= rate.high
            ) or number.correction != "none"
    ordered = list(result.strengths()["model"])
    assert ordered.index("Boston") == (0 if winner == "first" else 6)


def test_parted_sets_have_differences_within_and_strengths_of_the_largest():
    """Two lose every vote to three: each set is compared within, and the scale is that of the larger one."""
    beaten = [(a, b, "+") for a in "xyz" for b in "vw"]
    votes = votes_of(*beaten, ("x", "y", "++-"), ("y", "z", "+-"), ("x", "z", "+++-"), ("v", "w", "+-"))
    result = stats.compare_pairs(votes)
    by_pair = {"".join(estimate.facets.values()): estimate for estimate in result.differences}
    within = ("xy", "xz", "yz")
    assert {pair for pair, number in by_pair.items() if number.estimable} == {*within, "vw"}
    assert all(by_pair[pair].low is not None for pair in within)
    strengths = {model.facets["model"]: model.estimate for model in result.models if model.estimable}
    assert strengths.keys() == set("xyz")
    assert sum(strengths.values()) == pytest.approx(0.0, abs=1e-9)
    assert list(result.strengths()["model"])[:3] == ["x", "y", "z"]
    assert "x, y and z" in result.notes[0]


def test_an_interval_of_the_win_rate_never_leaves_out_the_difference():
    """Bases of one pattern make no spread; a judge's preference draws the win rate towards one half."""
    votes = votes_of(("x", "y", "+"))
    biased = [votes.assign(prompt=votes["prompt"] + name, vote="first") for name in "ab"]
    (difference,) = stats.compare_pairs(pd.concat([votes, *biased])).differences
    assert difference.estimate > 1.2
    assert difference.low is None
    assert "no usable spread" in difference.remarks


def test_one_base_is_no_test():
    """Whatever it says: there is no P value of 1, and nothing finite of a model that won its two votes."""
    won, even = (stats.compare_pairs(votes_of(("x", "y", way), bases=1)).differences[0] for way in "+=")
    assert (won.estimate, won.low, won.high, won.p_value, even.low, even.p_value) == (None,) * 6
    assert "one base" in won.remarks


@pytest.mark.parametrize("bases", [2, 5, 12])
def test_ties_only_have_the_interval_of_the_win_rate_in_logits(bases):
    """The jackknife has no spread there; a third model that differs changes nothing."""
    for more in ((), (("x", "z", "+-"), ("y", "z", "+-"))):
        result = stats.compare_pairs(votes_of(("x", "y", "="), *more, bases=bases))
        number, rate = result.differences[0], result.win_rates[0]
        assert number.estimate == pytest.approx(0.0, abs=1e-9)
        assert ends(number) == pytest.approx((logit(rate.low), logit(rate.high)))
        assert number.low < -0.5
        assert number.p_value == pytest.approx(1.0)
        assert "win rate" in number.method


@pytest.mark.parametrize("winners", ["+", "+++-", "++-", "=+", "-", "+-"])
def test_p_and_interval_of_every_number_of_votes_agree(winners):
    """An interval is what its own test does not reject."""
    for bases in (2, 4, 5, 12, 20):
        result = stats.compare_pairs(votes_of(("x", "y", winners), bases=bases))
        for number in (*result.differences, *result.judges):
            middle = 0.5 if number.statistic == "share of first" else 0.0
            if number.p_value is not None:
                out = (number.low is not None and number.low > middle) or (
                    number.high is not None and number.high < middle
                )
                assert (number.p_value < 0.05) == out, (bases, number)


def test_who_is_shown_first_changes_no_difference():
    """A judge that always takes the first reply tells no models apart, and its bias is 1."""
    result = stats.compare_pairs(votes_of(("x", "y", "+")).assign(vote="first"))
    assert result.differences[0].estimate == pytest.approx(0.0, abs=1e-6)
    assert result.counts[0]["inconsistent"] == 12
    assert result.judges[0].estimate == 1.0


def test_votes_that_connect_no_models_are_a_reason():
    """Two islands have no common scale."""
    result = stats.compare_pairs(votes_of(("v", "w", "+"), ("x", "y", "+"), bases=1))
    assert all(estimate.estimate is None for estimate in result.differences)
    assert "no vote connects" in result.differences[0].reason


@pytest.mark.parametrize("seed", range(8))
def test_macro_f1_is_that_of_scikit_learn(seed):
    """Its labels are those of the key of all answers: an unread answer takes none out, a foreign label adds none."""
    rng = np.random.default_rng(seed)
    labels, size = [*"wxyz"][: 2 + seed % 3], 30
    rows = pd.DataFrame({"model": "m", "base": named("q", size)})
    rows["key"], rows["answer"] = rng.choice(labels, size), rng.choice([*labels, "v", "VV"], size)
    rows.loc[rng.random(size) < 0.2, "answer"] = None
    rows.loc[rows["key"] == labels[-1], "answer"] = None if seed % 2 else "v"
    read = rows.dropna(subset=["answer"])
    result = stats.label_scores(rows)
    oracle = f1_score(read["key"], read["answer"], labels=labels, average=None, zero_division=0)
    assert [label.estimate for label in result.labels] == pytest.approx(oracle)
    assert result.macro[0].estimate == pytest.approx(oracle.mean())
    assert result.macro[0].missing == size - len(read)
    outside = int((~read["answer"].isin(labels)).sum())
    assert [note for note in result.notes if "outside the key" in note] == [
        f"m: {outside} answers with a label outside the key, wrong and no class of the mean"
    ]
    table = result.confusion.set_index(["key", "answer"])["answers"].to_dict()
    assert table == Counter(zip(read["key"], read["answer"], strict=True))
    nothing = stats.label_scores(rows.assign(answer=pd.NA))
    assert nothing.macro[0].estimate is None
    assert nothing.notes == ()


def test_a_model_that_takes_the_first_option_is_seen():
    """It is right where the right option is first, and chooses that position four times too often."""
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({"model": "m", "base": named("q", 60), "options": 4})
    rows["position"], rows["chosen_position"] = rng.integers(0, 4, 60), 0
    result = stats.position_effect(rows)
    assert [estimate.estimate for estimate in result.accuracies] == [1.0, 0.0, 0.0, 0.0]
    assert [estimate.estimate for estimate in result.preferences] == pytest.approx(
        [0.75, -0.25, -0.25, -0.25]
    )
    rows["chosen_position"] = rows["position"]
    knows = stats.position_effect(rows)
    assert all(estimate.low < 0 < estimate.high for estimate in knows.preferences)


def test_accuracy_beside_chance_and_what_a_right_answer_costs():
    """Two of three readable answers are right, half a cent each; the unreadable one was paid too."""
    rows = pd.DataFrame(
        {
            "model": "m", "base": list("abcd"), "correct": [1.0, 1.0, 0.0, None], "chance": 0.25,
            "aud_cost": 0.005, "reason": [None, None, None, "no answer: nothing"],
        }
    )  # fmt: skip
    result = stats.accuracy(rows)
    assert result.accuracies[0].estimate == pytest.approx(2 / 3)
    assert result.above_chance[0].estimate == pytest.approx(2 / 3 - 0.25)
    assert result.cost_per_right[0].estimate == pytest.approx(0.01)
    assert result.missing == {"m": {"no answer": 1}}
    assert result.above_majority == ()
    free = stats.accuracy(rows.assign(correct=0.0))
    assert free.cost_per_right[0].estimate is None


def test_power_of_models_needs_two_that_differ():
    """Two models that agree on every item have no spread, and the answer says so."""
    runs = crossed(base=named("b", 10), level=["all"], model="xyz").assign(right=[0, 0, 0, 1, 1, 1] * 5)
    result = stats.model_power(runs, score="right", effect=0.1)
    assert [len(result.detectable), len(result.needed)] == [len(list(combinations("xyz", 2)))] * 2
    assert all("agree on every item" in estimate.reason for estimate in result.detectable)
