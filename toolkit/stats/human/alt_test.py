"""The alternative annotator test: whether a judge may stand in for people who rated the same answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pandas as pd
from scipy import special

from toolkit.errors import InputError
from toolkit.stats.inference.clusters import over_clusters
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.p_values import false_discovery
from toolkit.stats.inference.proportions import effective_cases, wilson
from toolkit.stats.inference.run_table import need_columns
from toolkit.stats.result import Estimate, Result
from toolkit.words import SCORE, counted

METHOD: Final = "t over bases, clustered; one-sided test of Calderon, Reichart & Dror (2025)"
FEWEST_BASES: Final = 10  # bases below which a t test of differences that are -1, 0 or 1 is not to be trusted
FEWEST_ANSWERS: Final = 30
_EQUAL: Final = 1e-9  # agreements that differ by less are equal
_TEST: Final = "alternative annotator test"


@dataclass(frozen=True)
class AltTest(Result):
    """Whether a judge may stand in for people."""

    winning_rate: Estimate
    advantage: Estimate
    raters: tuple[Estimate, ...]
    passed: bool | None
    epsilon: float
    level: float
    notes: tuple[str, ...]
    kinds: ClassVar[dict[str, str]] = {"winning_rate": "judge", "advantage": "judge", "raters": "person"}

    def sentence(self) -> str:
        """Return the verdict in words ready for the thesis."""
        if self.passed is None:
            return self.winning_rate.sentence()
        verdict = "may stand in for" if self.passed else "may not stand in for"
        return (
            f"The judge {verdict} the people by the alternative annotator test (epsilon = {self.epsilon:g}, "
            f"false discovery rate {self.level:g}): {self.winning_rate.sentence()} {self.advantage.sentence()}"
        )


@over_clusters
def alternative_annotator_test(
    judged: pd.DataFrame,
    human: pd.DataFrame,
    score: str = SCORE,
    *,
    epsilon: float = 0.2,
    level: float = 0.05,
) -> AltTest:
    r"""Test whether the judge represents the people as well as one of them does, leaving each person out in turn.

    For person j and answer i, :math:`S(x, i, j)` is how well x agrees with the other people who rated i: less the
    root mean square difference. :math:`W^f_{ij} = 1` where the judge does at least as
    well as j, :math:`W^h_{ij} = 1` where j does at least as well as the judge (both where they are equal). With
    :math:`d_{ij} = W^h_{ij} - W^f_{ij}` the judge beats j where the one-sided test rejects
    :math:`H_0: E\,d_{ij} \ge \varepsilon` after Benjamini & Yekutieli's correction over the people;
    :math:`\omega` is the share of people it beats, and it passes with :math:`\omega \ge 1/2`.
    :math:`\rho = \frac1m \sum_j \overline{W^f_{j}}`.

    The test is Student t with an error clustered by base; at its boundary it rejects a true null in 3.5-5.9 % of
    simulated studies. Where all d of a person are equal to c there is no spread,
    and :math:`p = [(1 - \varepsilon) / (1 - c)]^G` over G bases, the largest probability of such data under the null
    hypothesis. People with fewer than 30 answers or 10 bases are left out and named.

    The authors suggest :math:`\varepsilon` = .2 for experts, .15 for skilled people and .1 for crowd workers, three
    people at least and 50-100 answers.

    References
    ----------
    Calderon, Reichart & Dror (2025), The alternative annotator test for LLM-as-a-judge, Proceedings of ACL 2025,
    16051-16081. Benjamini & Yekutieli (2001), Annals of Statistics 29, 1165-1188.

    Examples
    --------
    >>> runs = pd.DataFrame({"run_id": range(40), "composite_strict": [3.0, 4.0] * 20})
    >>> rows = [(i, i % 20, r, 3.0 + i % 2 + d) for i in range(40) for r, d in (("a", 0.5), ("b", -0.5), ("c", 0))]
    >>> people = pd.DataFrame(rows, columns=["run_id", "base", "rater", "composite_strict"])
    >>> found = alternative_annotator_test(runs, people)
    >>> found.winning_rate.estimate, found.advantage.estimate, found.passed
    (1.0, 1.0, True)
    """
    if not 0 <= epsilon <= 1:
        raise InputError(f"{_TEST}: epsilon {epsilon:g} is not within 0-1; give such a share")
    judge, people, bases, missing, notes = _tables(judged, human, score)
    tables: dict[str, pd.DataFrame] = {}
    for rater in people.columns:
        table = _indicators(judge, people, rater)
        table = table.assign(base=bases.reindex(table.index).astype(str))
        answers, groups = len(table), table["base"].nunique()
        if answers < FEWEST_ANSWERS or groups < FEWEST_BASES:
            notes.append(
                f"rater {rater} is left out: {counted(answers, 'answers')} of {counted(groups, 'bases')} rated by "
                f"another person and the judge too, and {FEWEST_ANSWERS} of {FEWEST_BASES} are needed"
            )
        else:
            tables[rater] = table
    tested = [_against(rater, table, epsilon, missing) for rater, table in tables.items()]
    corrected = false_discovery([test.p_value for test in tested], dependent=True)
    correction = f"Benjamini & Yekutieli over {len(tested)} people" if len(tested) > 1 else "none"
    raters = tuple(
        replace(test, p_value=p, correction=correction) for test, p in zip(tested, corrected, strict=True)
    )
    source, n = "Calderon, Reichart & Dror (2025)", {"people": len(tables)}
    winning = Estimate("winning rate", None, None, None, source, "share of people", n, missing)
    if not tables:
        winning = winning.not_estimable(
            "nobody rated enough answers that another person and the judge scored too"
        )
        advantage = replace(winning, name="advantage probability")
        return AltTest(winning, advantage, (), None, epsilon, level, tuple(notes))
    omega = sum(p is not None and p <= level for p in corrected) / len(tested)
    if len(tables) < 3:
        notes.append(
            f"{counted(len(tables), 'people')}: the authors ask for three, or one person's manner decides"
        )
    winning = replace(winning, estimate=omega)
    return AltTest(winning, _advantage(tables, missing), raters, omega >= 0.5, epsilon, level, tuple(notes))


def _tables(
    judged: pd.DataFrame, human: pd.DataFrame, score: str
) -> tuple[pd.Series, pd.DataFrame, pd.Series, int, list[str]]:
    """Return the judge's scores, the people's (answers x raters), the base of each answer, and what is missing."""
    for source, frame, keys, more in (
        ("judge", judged, ["run_id"], ()),
        ("person", human, ["run_id", "rater"], ("base",)),
    ):
        need_columns(f"{_TEST}: scores of a {source}", frame, (*keys, *more, score))
        duplicated = frame.duplicated(keys)
        if duplicated.any():
            run = frame.loc[duplicated, "run_id"].iloc[0]
            raise InputError(f"{_TEST}: a {source} scored answer {run} twice; keep one score")
    ratings = human.assign(**{score: pd.to_numeric(human[score], errors="coerce").astype("float64")})
    people = ratings.pivot(index="run_id", columns="rater", values=score)
    bases = human.drop_duplicates("run_id").set_index("run_id")["base"]
    judge = pd.to_numeric(judged[score], errors="coerce").astype("float64")
    judge = judge.set_axis(judged["run_id"]).reindex(people.index)
    infinite = int(np.isinf(judge).sum() + np.isinf(ratings[score]).sum())
    judge, people = judge.where(np.isfinite(judge)), people.where(np.isfinite(people))
    missing = int(judge.isna().sum()) + int((~np.isfinite(ratings[score])).sum())
    return judge, people, bases, missing, [f"{infinite} infinite scores are left out"] if infinite else []


def _indicators(judge: pd.Series, people: pd.DataFrame, rater: str) -> pd.DataFrame:
    others = people.drop(columns=rater)
    usable = judge.notna() & people[rater].notna() & others.notna().any(axis=1)
    rest = others[usable].to_numpy(dtype=float)

    def agreement(values: pd.Series) -> np.ndarray:
        if not len(rest):
            return np.empty(0)
        distances = rest - values[usable].to_numpy(dtype=float)[:, None]
        return np.asarray(-np.sqrt(np.nanmean(distances**2, axis=1)))

    judge_agreement, person_agreement = agreement(judge), agreement(people[rater])
    wins = {
        "judge": judge_agreement >= person_agreement - _EQUAL,
        "person": person_agreement >= judge_agreement - _EQUAL,
    }
    return pd.DataFrame(wins, index=people.index[usable]).astype(float)


def _against(rater: str, table: pd.DataFrame, epsilon: float, missing: int) -> Estimate:
    d = (table["person"] - table["judge"]).to_numpy()
    bases = list(table["base"])
    n, unit = {"answers": len(d), "bases": len(set(bases))}, "difference of shares"
    estimate = Estimate(f"{rater} less judge", float(d.mean()), None, None, METHOD, unit, n, missing)
    if np.ptp(d) == 0:
        constant = float(d[0])
        p = min(1.0, (1 - epsilon) / (1 - constant)) ** n["bases"] if constant < epsilon else 1.0
        return replace(estimate, p_value=p).no_interval("all differences are equal")
    mean = clustered_mean(d, bases)
    if mean.error is None:
        return replace(estimate, p_value=1.0).no_interval(mean.reason)
    t = (mean.mean - epsilon) / mean.error
    return replace(estimate, low=mean.low, high=mean.high, p_value=float(special.stdtr(mean.degrees, t)))


def _advantage(tables: dict[str, pd.DataFrame], missing: int) -> Estimate:
    """Return rho with each person counting once, and an interval clustered by base over all people."""
    people = len(tables)
    rho = float(np.mean([table["judge"].mean() for table in tables.values()]))
    pulls = [
        ((table["judge"] - table["judge"].mean()) / (people * len(table))).groupby(table["base"]).sum()
        for table in tables.values()
    ]
    deviations = pd.concat(pulls, axis=1).sum(axis=1)
    groups, cases = len(deviations), sum(len(table) for table in tables.values())
    error = math.sqrt(groups / (groups - 1) * float((deviations**2).sum()))
    effective = effective_cases(rho, error, cases, groups)
    ends, n = wilson(rho * effective, effective), {"people": people, "answers": cases, "bases": groups}
    method = "Wilson, effective n (Dean & Pagano 2015)"
    return Estimate("advantage probability", rho, *ends, method, "probability", n, missing)
