"""Votes on pairs of replies, judged in both orders: win rates, a Bradley-Terry scale of models, bias for a position."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.sparse.csgraph import connected_components

from toolkit.errors import InputError
from toolkit.stats.inference import jackknife
from toolkit.stats.inference.clusters import of_rows, over_clusters
from toolkit.stats.inference.p_values import with_inversion
from toolkit.stats.inference.proportions import intracluster_correlation, rate_mean, share
from toolkit.stats.inference.run_table import need_columns, need_labelled
from toolkit.stats.result import Estimate, Result, estimates_frame, wide
from toolkit.words import SCORE, agreeing, choices, counted, joined

BRADLEY_TERRY = (
    "Bradley-Terry, ties as half wins, an order effect a judge, bias-reduced (Firth 1993); jackknife"
)
OF_WIN_RATE = "logits of Wilson's interval of the win rate"
POINTS = {"first": 1.0, "tie": 0.5, "second": 0.0}
_COLUMNS = ["base", "prompt", "judge", "first", "second"]
_LABELS = [*_COLUMNS, "repeat", "unit"]
# Of Fisher scoring: how many steps, how long at most, and when it has arrived.
_STEPS, _STEP, _EQUAL = 200, 2.0, 1e-9
_RANK = 1e-12  # judges without a vote in a set have no direction there
_SPREAD = 1e-7  # of strengths without each base: below it lies what the steps leave over


class PairComparison(Result):
    """Every pair of models by their votes, the models on one scale, and every judge's bias for a position."""

    def frame(self) -> pd.DataFrame:
        """Return one row a pair of models: counts, win rate of the first with ties half, difference in logits."""
        rows = []
        for difference, rate, counts in zip(self.differences, self.win_rates, self.counts, strict=True):
            tested = {"p_value": difference.p_value, "correction": difference.adjusted}
            limits = wide({"win_rate": rate, "difference": difference})
            rows.append({**difference.facets, **counts, **limits, **tested, "note": difference.remarks})
        numbers = list(wide(dict.fromkeys(("win_rate", "difference"))))
        counted_columns = ["prompts", "votes", "missing", "ties", "both_orders", "inconsistent"]
        columns = ["model_a", "model_b", *counted_columns, *numbers, "p_value", "correction", "note"]
        return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys([*numbers, "p_value"], "float64"))

    def strengths(self) -> pd.DataFrame:
        """Return one row a model, the strongest first: its strength in logits, whose mean is zero."""
        ordered = sorted(self.models, key=lambda model: self.ranks.get(model.facets["model"], 0))
        return estimates_frame(((model.facets["model"], model) for model in ordered), "model")

    def position_bias(self) -> pd.DataFrame:
        """Return one row a judge: how often it prefers the reply shown first, among votes that are no tie."""
        return estimates_frame(((judge.facets["judge"], judge) for judge in self.judges), "judge")


@over_clusters
def compare_pairs(votes: pd.DataFrame) -> PairComparison:
    r"""Compare models by votes on pairs of their replies, clustered by base.

    A vote for the reply shown first counts 1, for the second 0, a tie 1/2; with :math:`\theta` the strengths of the
    models shown first and second and :math:`\delta_j` the order effect of judge j, its expectation is

    .. math:: \operatorname{logit} \mu = \theta_\text{first} - \theta_\text{second} + \delta_j.

    The fit maximises the quasi-likelihood with Firth's penalty :math:`\tfrac12 \ln |I|`, which takes out the bias of
    few votes. Strengths exist among models of which each has beaten each other, directly or through others (Ford 1957),
    and rest on their votes alone. Their intervals are the jackknife over bases (`jackknife_interval`), or, where no
    base makes a difference, as where all votes are ties, the logits of the win rate's interval. What won or lost every
    vote that connects it with others is unbounded: the penalty would make a number of it, and there is none. A
    difference has one end then, the logit of that of the win rate. P values invert the intervals (`p_by_inversion`), by
    Holm over the pairs, and over the judges for their share of first. A win rate is over the votes on that pair alone.

    Parameters
    ----------
    votes : DataFrame
        One row a vote: base, prompt, judge, first and second (the models, as shown) and vote: first, second, tie, or
        empty where there is none. Optional are repeat and cluster (bases that share texts).

    Returns
    -------
    PairComparison
        Differences and strengths in logits, rates as shares of votes; ``ranks`` is 1 for the strongest model.

    Raises
    ------
    InputError
        A column or label lacks, a vote is none of the three or is there twice, or a model is compared with itself.

    References
    ----------
    Bradley & Terry (1952), Biometrika 39, 324-345. Davidson & Beaver (1977), Biometrics 33, 693-702. Firth (1993),
    Biometrika 80, 27-38. Ford (1957), Am. Math. Mon. 64 (8), 28-33.

    Examples
    --------
    >>> rows = [(f"b{i}", f"p{i}", "j", *pair, vote) for i in range(6) for pair, vote in (
    ...     (("x", "y"), "first" if i else "second"), (("y", "x"), "second" if i % 2 else "tie"))]
    >>> result = compare_pairs(pd.DataFrame(rows, columns=["base", "prompt", "judge", "first", "second", "vote"]))
    >>> result.frame()[["model_a", "model_b", "votes", "ties", "win_rate"]].round(3).values.tolist()
    [['x', 'y', 12, 3, 0.792]]
    >>> result.strengths()[["model", "estimate"]].round(2).values.tolist()
    [['x', 0.55], ['y', -0.55]]
    """
    table = _checked(votes)
    cast = table.dropna(subset=["vote"]).reset_index(drop=True)
    names = sorted({*table["first"], *table["second"]})
    pairs = list(itertools.combinations(names, 2))
    by_pair = {pair: _of_pair(table, *pair) for pair in pairs}
    rates = [_win_rate(pair, rows) for pair, rows in by_pair.items()]
    fit = _fit(cast, names)
    differences = [_difference(fit, rate) for rate in rates]
    decided = cast[cast["vote"] != "tie"]
    intracluster = intracluster_correlation(decided["vote"] == "first", list(decided["unit"]))
    judges = [_first_share(judge, rows, intracluster) for judge, rows in table.groupby("judge", sort=True)]
    return PairComparison(
        "compare_pairs",
        text=_sentence,
        differences=differences,
        win_rates=[replace(rate, p_value=None) for rate in rates],
        models=[_strength(fit, model, cast) for model in names],
        judges=judges,
        counts=[_counts(rows) for rows in by_pair.values()],
        ranks=fit.ranks,
        notes=fit.notes,
    )


def _sentence(result: Result) -> str:
    """Return every difference and every judge's bias in words."""
    pairs, flips = (sum(count[name] for count in result.counts) for name in ("both_orders", "inconsistent"))
    lead = f"{flips} of {counted(pairs, 'pairs of votes')} in both orders"
    orders = f"{lead} {agreeing(flips, 'have')} another winner in the other order."
    estimates = (estimate.sentence() for estimate in (*result.differences, *result.judges))
    return " ".join([*estimates, orders, *(f"{note[:1].upper()}{note[1:]}." for note in result.notes)])


def _checked(votes: pd.DataFrame) -> pd.DataFrame:
    need_labelled("votes", votes, _COLUMNS, "vote")
    table = votes.reindex(columns=_LABELS).reset_index(drop=True)
    table["vote"] = votes["vote"].astype("object").where(votes["vote"].notna(), None).to_numpy()
    for model in ("first", "second"):
        table[model] = table[model].astype(str)
    for wrong, fault in (
        (table["vote"].notna() & ~table["vote"].isin(POINTS), "vote {vote!r}; {choices}, or leave it empty"),
        (table["first"] == table["second"], "{first} is compared with itself; leave such votes out"),
        (table.duplicated(_LABELS), "the vote of {judge} on {first} and {second} is there twice; keep one"),
    ):
        if wrong.any():
            row = int(wrong.to_numpy().argmax())
            values = {str(name): value for name, value in table.loc[row].items()}
            raise InputError(
                f"votes, row {row + 1}: {fault.format(**values, choices=choices(values['vote'], POINTS))}"
            )
    table["points"] = table["vote"].map(POINTS).astype("float64")
    return table


def _of_pair(table: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Return the votes on one pair of models, with the points of the first of them."""
    forth, back = ((table["first"] == x) & (table["second"] == y) for x, y in ((a, b), (b, a)))
    rows = table[forth | back]
    return rows.assign(points=rows["points"].where(rows["first"] == a, 1 - rows["points"]))


def _counts(rows: pd.DataFrame) -> dict[str, int]:
    cast = rows.dropna(subset=["vote"])
    by = ["base", "prompt", "judge", "repeat"]
    orders = cast.groupby(by, sort=False, dropna=False).agg(
        n=("first", "size"), same=("vote", "nunique"), vote=("vote", "first")
    )
    pairs = orders[orders["n"] == 2]
    return {
        "prompts": int(cast["prompt"].nunique()),
        "votes": len(cast),
        "missing": len(rows) - len(cast),
        "ties": int((cast["vote"] == "tie").sum()),
        "both_orders": len(pairs),
        "inconsistent": int(((pairs["same"] == 1) & (pairs["vote"] != "tie")).sum()),
    }


def _win_rate(pair: tuple[str, str], rows: pd.DataFrame) -> Estimate:
    return of_rows(
        f"win rate of {pair[0]} over {pair[1]}", rows, "points", partial(rate_mean, reference=0.5),
        counts=("votes", "bases"), nothing="no vote compares them", unit="share of votes", statistic="win rate",
        facets=dict(zip(("model_a", "model_b"), pair, strict=True)),
    )  # fmt: skip


def _first_share(judge: object, rows: pd.DataFrame, intracluster: float | None) -> Estimate:
    decided = rows[rows["vote"].isin(("first", "second"))]
    return of_rows(
        f"share of first of {judge}", decided, "points",
        partial(rate_mean, intracluster=intracluster, reference=0.5), counts=("decided votes", "bases"),
        nothing="no vote is decided", unit="share of decided votes", missing=int(rows["vote"].isna().sum()),
        statistic="share of first", facets={"judge": str(judge)},
    )  # fmt: skip


@dataclass(frozen=True)
class _Fit:
    """Whom each model has beaten, and strengths by all bases and without each; ``scale`` is the largest set."""

    beats: pd.DataFrame
    sets: Mapping[str, pd.DataFrame]
    scale: pd.DataFrame
    ranks: Mapping[str, int]
    notes: tuple[str, ...] = ()
    broken: str = ""


def _fit(cast: pd.DataFrame, names: list[str]) -> _Fit:
    first, second = (cast[side].map(names.index).to_numpy(dtype=int) for side in ("first", "second"))
    points = cast["points"].to_numpy()
    wins = np.eye(len(names))
    np.add.at(wins, (first, second), points)
    np.add.at(wins, (second, first), 1 - points)
    beaten = np.linalg.matrix_power((wins > 0).astype(float), len(names)) > 0
    beats, nothing = pd.DataFrame(beaten, names, names), pd.DataFrame()
    part = _parts(len(names), first, second)
    if cast.empty or part.any():
        texts = (", ".join(np.array(names)[part == number]) for number in range(part.max(initial=-1) + 1))
        broken = "there are no votes" if cast.empty else f"no vote connects {' with '.join(texts)}"
        return _Fit(beats, {}, nothing, {}, (broken,), broken)
    sets: dict[str, pd.DataFrame] = {}
    for name in names:
        members = [other for other in names if beats.loc[name, other] and beats.loc[other, name]]
        if len(members) > 1 and name not in sets:
            sets |= dict.fromkeys(members, _strengths(cast, members))
    scale = max(sets.values(), key=lambda table: table.shape[1], default=nothing)
    ranks = _strengths(cast, names).iloc[0].round(6).rank(method="dense", ascending=False).dropna()
    note = f"strengths are those of {joined(list(map(str, scale)))}: others won or lost every vote that connects them"
    notes = (note,) if 0 < scale.shape[1] < len(names) else ()
    return _Fit(beats, sets, scale, {str(name): int(rank) for name, rank in ranks.items()}, notes)


def _strengths(cast: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return strengths by the votes on these models, one row for all bases and one without each base."""
    votes = cast[cast["first"].isin(names) & cast["second"].isin(names)]
    first, second = (votes[side].map(names.index) for side in ("first", "second"))
    labels = np.column_stack([first, second, jackknife.numbered(list(votes["judge"]))])
    cells, cell = np.unique(labels, axis=0, return_inverse=True)
    codes = jackknife.numbered(list(votes["unit"]))
    sums = np.zeros((codes.max(initial=-1) + 1, len(cells), 2))
    np.add.at(sums, (codes, cell.ravel()), np.column_stack([votes["points"], np.ones(len(votes))]))
    return pd.DataFrame(
        bradley_terry(cells, np.concatenate(jackknife.total_and_jackknife(sums)), len(names)), columns=names
    )


def _parts(models: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the number of the part that votes connect each model with."""
    graph = np.zeros((models, models))
    graph[first, second] = 1
    return np.asarray(connected_components(graph, directed=False)[1])


def bradley_terry(cells: np.ndarray, sums: np.ndarray, models: int) -> np.ndarray:
    """Return strengths (sets x models) of mean 0 from cells (first, second, judge), and their points and votes."""
    points, votes = sums[..., 0], sums[..., 1]
    first, second, judge = cells.T
    dummies = np.eye(models)
    x = np.column_stack([(dummies[first] - dummies[second])[:, 1:], np.eye(judge.max() + 1)[judge]])
    squares = (x[:, :, None] * x[:, None, :]).reshape(len(cells), -1)
    beta = np.zeros((len(sums), x.shape[1]))
    for number in range(_STEPS):
        mu = special.expit(beta @ x.T)
        weights = votes * mu * (1 - mu)
        inverse = np.linalg.pinv(
            (weights @ squares).reshape(-1, x.shape[1], x.shape[1]), rcond=_RANK, hermitian=True
        )
        leverage = weights * (inverse.reshape(len(sums), -1) @ squares.T)
        score = (points - votes * mu + leverage * (0.5 - mu)) @ x
        step = np.einsum("rpq,rq->rp", inverse, score)
        longest = np.abs(step).max(axis=1, keepdims=True, initial=0.0)
        # Whole steps go to and fro for ever where a cell has one vote.
        beta += step * np.minimum(1.0 if number < _STEPS // 8 else 0.5, _STEP / np.maximum(longest, _EQUAL))
        if longest.max(initial=0.0) < _EQUAL:
            break
    strengths = np.column_stack([np.zeros(len(sums)), beta[:, : models - 1]])
    strengths[longest[:, 0] > _EQUAL] = np.nan
    for row in np.flatnonzero((votes == 0).any(axis=1)):
        used = votes[row] > 0
        if _parts(models, first[used], second[used]).any():
            strengths[row] = np.nan
    return strengths - strengths.mean(axis=1, keepdims=True)


def _difference(fit: _Fit, rate: Estimate) -> Estimate:
    a, b = rate.facets.values()
    empty = Estimate(
        f"{a} - {b}", method=BRADLEY_TERRY, unit="logits", n=rate.n, missing=rate.missing,
        statistic="difference", facets=rate.facets,
    )  # fmt: skip
    if fit.broken:
        return empty.not_estimable(fit.broken)
    if a in fit.sets and b in fit.sets[a]:
        values = (fit.sets[a][a] - fit.sets[a][b]).to_numpy()
        uniform = np.ptp(values[1:]) <= _SPREAD and rate.low is not None and rate.high is not None
        # A judge that prefers a position draws the win rate towards one half, which may leave out the difference.
        if not uniform or not rate.low <= special.expit(values[0]) <= rate.high:
            return _jackknifed(empty, values)
        logits = (float(special.logit(end)) for end in (rate.low, rate.high))
        return empty.with_value(float(values[0]), *logits, p_value=rate.p_value, method=OF_WIN_RATE)
    if not (fit.beats.loc[a, b] or fit.beats.loc[b, a]):
        return empty.not_estimable("unbounded: both are parted from what connects them")
    won, loser = (True, b) if fit.beats.loc[a, b] else (False, a)
    reason, end = f"unbounded: {loser} won nothing back", rate.low if won else rate.high
    if end is None:
        more = "one base" if rate.estimable else "the two are compared through others alone"
        return empty.not_estimable(f"{reason}; {more}")
    bound = float(special.logit(end))
    unbounded = empty.not_estimable(f"{reason}; {'at least' if won else 'at most'} {bound:.2f}")
    low, high = (bound, None) if won else (None, bound)
    return replace(unbounded, low=low, high=high, p_value=rate.p_value, method=OF_WIN_RATE)


def _strength(fit: _Fit, model: str, cast: pd.DataFrame) -> Estimate:
    rows = cast[(cast["first"] == model) | (cast["second"] == model)]
    n = {"votes": len(rows), "bases": rows["unit"].nunique()}
    empty = Estimate(
        f"strength of {model}", method=BRADLEY_TERRY, unit="logits", n=n, statistic="strength",
        facets={"model": model},
    )  # fmt: skip
    if fit.broken:
        return empty.not_estimable(fit.broken)
    if model not in fit.scale:
        others = list(map(str, fit.scale)) or [str(name) for name in fit.beats if name != model]
        sides = {"won": fit.beats.loc[[model], others], "lost": fit.beats.loc[others, [model]]}
        words = " or ".join(word for word, side in sides.items() if side.to_numpy().any()) or "won or lost"
        return empty.not_estimable(f"unbounded: it {words} every vote that connects it with {joined(others)}")
    return replace(_jackknifed(empty, fit.scale[model].to_numpy()), p_value=None)


def _jackknifed(empty: Estimate, values: np.ndarray) -> Estimate:
    estimate, bases = empty.with_value(float(values[0])), len(values) - 1
    reason = "" if np.ptp(values[1:]) > _SPREAD else jackknife.NO_SPREAD
    if bases < jackknife.FEWEST_BASES:
        reason = f"{counted(bases, 'bases')}, and {jackknife.FEWEST_BASES} are needed"
    if reason:
        return estimate.no_interval(reason, "interval or p value")

    def limits(confidence: float) -> tuple[float, float]:
        low, high, _ = jackknife.jackknife_interval(values[0], values[1:], confidence)
        return float(low), float(high)

    return with_inversion(
        estimate, limits, degrees=float(jackknife.jackknife_interval(values[0], values[1:])[2])
    )


@over_clusters
def pair_agreement(votes: pd.DataFrame, runs: pd.DataFrame, score: str = SCORE) -> Result:
    r"""Return how far votes on pairs of replies agree with the scores of these replies.

    Parameters
    ----------
    votes : DataFrame
        One row a vote, as `compare_pairs` takes them, with first_run_id and second_run_id.
    runs : DataFrame
        One row a run: run_id, base, model and the score.
    score : str
        Column of runs to compare with, in score points.

    Returns
    -------
    Result
        ``replies`` is the share of pairs of replies that most votes (of all judges, in both orders) and the difference
        of scores decide alike, among the pairs that both decide; its interval is clustered by base (see `share`).
        ``models`` is Kendall's :math:`\tau_b` between the ranks of the models and their mean scores; of so few models
        it has no interval.

    Raises
    ------
    InputError
        When a column is missing, or a vote is none.

    References
    ----------
    Kendall (1945), Biometrika 33, 239-251.

    Examples
    --------
    >>> order = {"vote": ["first", "second"] * 3, "base": list("aabbcc"), "prompt": list("aabbcc"), "judge": "j"}
    >>> votes = pd.DataFrame(order).assign(first=["x", "y"] * 3, second=["y", "x"] * 3)
    >>> votes = votes.assign(first_run_id=votes["first"] + votes["base"], second_run_id=votes["second"] + votes["base"])
    >>> runs = pd.DataFrame({"run_id": ["xa", "ya", "xb", "yb", "xc", "yc"], "base": list("aabbcc")})
    >>> runs = runs.assign(model=["x", "y"] * 3, composite_strict=[4.0, 3.0, 4.0, 2.0, 1.0, 3.0])
    >>> agreement = pair_agreement(votes, runs)
    >>> round(agreement.replies.estimate, 3), agreement.replies.n, agreement.models.estimate
    (0.667, {'pairs': 3, 'bases': 3}, 1.0)
    """
    need_columns("votes", votes, ("base", "vote", "first_run_id", "second_run_id"))
    need_columns("runs", runs, ("run_id", "base", "model", score))
    comparison: PairComparison = compare_pairs(votes)
    scores = runs.set_index("run_id")[score].astype("float64")
    points = votes["vote"].astype("object").map(POINTS).astype("float64") - 0.5
    # Both orders of a pair are one pair: the names of its runs in one order, and the votes for the first of them.
    first, second = votes["first_run_id"], votes["second_run_id"]
    forth = first < second
    a, b, points = first.where(forth, second), second.where(forth, first), points.where(forth, -points)
    pairs = pd.DataFrame({"unit": votes["unit"], "a": a, "b": b, "points": points})
    pairs = pairs.groupby(["unit", "a", "b"], sort=True)["points"].sum(min_count=1).reset_index()
    apart = pairs["a"].map(scores) - pairs["b"].map(scores)
    lacking = int((pairs["points"].isna() | apart.isna()).sum())
    decided = (pairs["points"].fillna(0.0) != 0) & (apart.fillna(0.0) != 0)
    agree = ((pairs["points"] > 0) == (apart > 0))[decided]
    name = f"pairs of replies that votes and {score} decide alike"
    replies = share(name, list(agree), list(pairs.loc[decided, "unit"]), missing=lacking)
    undecided = len(pairs) - lacking - int(decided.sum())
    replies = replies.with_note(f"{undecided} pairs undecided" if undecided else "")
    return Result("pair_agreement", replies=replies, models=_tau(comparison, runs, score), notes=())


def _tau(comparison: PairComparison, runs: pd.DataFrame, score: str) -> Estimate:
    strengths = -pd.Series(comparison.ranks, dtype="float64")
    by_base = runs.assign(value=runs[score].astype("float64")).groupby(["model", "unit"])["value"].mean()
    untied = pd.DataFrame({"votes": strengths, "scores": by_base.groupby(level="model").mean()}).dropna()
    name = f"Kendall's tau of models by votes and by mean {score}"
    empty = Estimate(name, n={"models": len(untied)}, method="tau-b (Kendall 1945)")
    if len(untied) < 2:
        return empty.not_estimable("fewer than two models have both")
    tau = float(stats.kendalltau(untied["votes"], untied["scores"]).statistic)
    if tau != tau:
        return empty.not_estimable("all models are equal by votes or by scores")
    return empty.with_value(tau).no_interval("a rank correlation of a few models is a description")
