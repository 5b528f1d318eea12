"""The sentences under figures and tables: n, intervals, what is missing, where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pandas as pd

from toolkit.analyses import Analyses
from toolkit.models.base import DEFECTS
from toolkit.stats.inference.clusters import GROUPS, unit_counts
from toolkit.stats.result import Estimate
from toolkit.words import agreeing, counted, coverage, scale

MOST_NAMES = 4
"""Results without an estimate that a caption names for each reason; the data of the table name all."""
_COMPOSITES: Final = {
    "composite_strict": "the strict composite, in which a score of 0 counts",
    "composite": "the composite that leaves scores of 0 out",
}
UNCORRECTED = "The intervals are not corrected for their number."


def judged_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that have a composite score, in the order of their ids."""
    if runs.empty:
        return runs
    good = (runs["status"] == "succeeded") & runs["judged"].astype(bool) & runs["composite"].notna()
    return runs[good].sort_values("run_id", kind="stable")


def counts(judged: pd.DataFrame, repeats: int | None = None) -> dict[str, int]:
    """Count what a figure rests on."""
    if judged.empty:
        return {"bases": 0, "answers": 0, "models": 0, "judges": 0, "repeats": repeats or 0}
    return {
        **unit_counts(judged),
        "answers": len(judged),
        "models": int(judged["model"].nunique()),
        "judges": int(judged["judge_count"].max()),
        "repeats": repeats if repeats is not None else int(judged["repeat"].nunique()),
    }


def defects_note(runs: pd.DataFrame) -> str:
    """Say how many answers are not whole, those that count all the same and those that do not."""
    said = []
    for excluded, words in ((False, "counted though"), (True, "left out because")):
        kinds = runs.loc[(runs["excluded"] == excluded) & runs["defect"].notna(), "defect"].value_counts()
        total = counted(len(runs), "answers")
        said += [f"{count} of {total} {words} {DEFECTS[str(kind)]}." for kind, count in kinds.items()]
    return " ".join(said)


def related_note(judgements: pd.DataFrame) -> str:
    """Say how many judgements that count are of a judge that shares a family with the model it judged."""
    counting = judgements[~judgements["failed"].astype(bool)]
    own = int(counting["related"].fillna(False).sum())
    words = f"{own} of {counted(len(counting), 'judgements')} {agreeing(own, 'are')} by a judge of the judged model's"
    return f"{words} own family." if own else ""


def units(estimate: Estimate) -> int:
    """Return the number of bases, or of independent groups, that an estimate rests on."""
    return estimate.n.get("bases", estimate.n.get(GROUPS, 0))


def n_words(n: Mapping[str, int]) -> str:
    """Say the counts, singular where there is one."""
    return "n = " + ", ".join(counted(count, what) for what, count in n.items())


def interval_words(estimates: Iterable[Estimate], of: Iterable[str] | None = None) -> str:
    """Say what the drawn intervals are and how they were made, of what where they differ, or that there are none."""
    held = list(estimates)
    kinds: dict[tuple[float, str], list[str]] = {}
    for one, name in zip(held, of or (one.statistic or one.name for one in held), strict=True):
        if one.estimate is not None and one.low is not None and one.high is not None:
            kinds.setdefault((one.confidence, one.method), []).append(name)
    if not kinds:
        return "No interval could be estimated."
    several = len(kinds) > 1
    told = [
        f"{coverage(level)} intervals{f' of {_few(names)}' if several else ''}: {method}"
        for (level, method), names in kinds.items()
    ]
    return "; ".join(told) + "."


def estimates_n_words(estimates: Iterable[Estimate]) -> str:
    """Say n once where all estimates agree, and its range where they differ."""
    seen: dict[str, list[int]] = {}
    for one in estimates:
        for what, count in one.n.items():
            seen.setdefault(what, []).append(count)
    told = [
        n_words({what: c[0]}).removeprefix("n = ") if len(set(c)) == 1 else f"{min(c)} to {max(c)} {what}"
        for what, c in seen.items()
    ]
    return "n = " + (", ".join(told) or "0")


def not_estimable_words(estimates: Iterable[Estimate]) -> str:
    """Say how much was missing before the estimates, and which of them there is none of and why."""
    told = list(estimates)
    lost = max((e.missing for e in told), default=0)
    names: dict[str, list[str]] = {}
    for one in told:
        if one.estimate is None:
            names.setdefault(one.remarks.removeprefix("not estimable: "), []).append(one.name)
    were = "rating or answer was" if lost == 1 else "ratings or answers were"
    return join(
        f"Up to {lost} {were} missing." if lost else "",
        f"Not estimable: {_by_reason(names)}." if names else "",
    )


def no_interval_words(named: Iterable[tuple[str, Estimate]]) -> str:
    """Say which estimates have no interval and why, each reason once."""
    names: dict[str, list[str]] = {}
    for name, one in named:
        if one.estimable and (one.low is None or one.high is None):
            why = one.remarks.removeprefix("no interval or p value: ").removeprefix("no interval: ")
            names.setdefault(why.partition(";")[0], []).append(name)
    return f"Without an interval: {_by_reason(names)}." if names else ""


def role_words(one: Estimate) -> str:
    """Say whether a test was named beforehand."""
    return next((part for part in one.remarks.split("; ") if part in ("confirmatory", "exploratory")), "")


def tests_words(estimates: Iterable[Estimate]) -> str:
    """Say how P values were made that have no interval beside them."""
    kinds: dict[str, list[str]] = {}
    for one in estimates:
        if one.p_value is not None and one.low is None:
            kinds.setdefault(one.method, []).append(one.name)
    return f"Tests: {'; '.join(f'{_few(names)}: {how}' for how, names in kinds.items())}." if kinds else ""


def roles_words(estimates: Iterable[Estimate]) -> str:
    """Say which tests were named beforehand, and which were not."""
    roles: dict[str, list[str]] = {}
    for one in estimates:
        if one.p_value is not None and (role := role_words(one)):
            roles.setdefault(role, []).append(one.name)
    if list(roles) == ["exploratory"]:
        return "All of these tests are exploratory." if len(set(roles["exploratory"])) > 1 else "Exploratory."
    return (
        f"{capital('; '.join(f'{role}: {_few(names)}' for role, names in roles.items()))}." if roles else ""
    )


def cut_words(low: pd.Series, high: pd.Series) -> str:
    """Say that intervals leave the scale, where some do: what is drawn of them ends with the scale."""
    first, last = scale()
    beyond = bool((low.astype(float) < first).any() or (high.astype(float) > last).any())
    return "Intervals that leave the scale are cut at its ends; the data have their ends." if beyond else ""


def unpaired_words(differences: Iterable[Estimate]) -> str:
    """Say how many bases differences within bases lack; what is missing there is bases and not answers."""
    most = max((one.missing for one in differences), default=0)
    bases = f"Up to {counted(most, 'bases')} {agreeing(most, 'have')}"
    return f"{bases} no score at one of the two lengths and cannot be paired." if most else ""


def _by_reason(names: Mapping[str, Iterable[str]]) -> str:
    """Return the first few names of each reason and how many more there are: a caption has to fit its page."""
    return "; ".join(f"{_few(of_why)} ({why})" if why else _few(of_why) for why, of_why in names.items())


def _few(names: Iterable[str]) -> str:
    told = list(dict.fromkeys(names))
    more = len(told) - MOST_NAMES
    return ", ".join(told) if more <= 1 else f"{', '.join(told[:MOST_NAMES])} and {more} more"


def missing_words(runs: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Say how many runs are not in the figure and why; a failure is missing and never a zero."""
    if len(runs) == len(judged):
        return ""
    failed = int((runs["status"] == "failed").sum())
    other = len(runs) - len(judged) - failed
    without = f"{other} {agreeing(other, 'are')} unjudged or without a number"
    parts = [f"{failed} failed"] * (failed > 0) + [without] * (other > 0)
    return f"Of {counted(len(runs), 'runs')} {' and '.join(parts)}: missing here, not zero."


def zeros_left_out(runs: pd.DataFrame) -> int:
    """Return how many true zeros the composite of the seed leaves out (DESIGN, section 8)."""
    return int(judged_runs(runs)["zeros"].fillna(0).sum()) if "zeros" in runs else 0


def composites_words(of: Analyses) -> str:
    """Say which composite is compared, and what the other one does with scores of 0, where there are any."""
    if not zeros_left_out(of.runs):
        return ""
    return f"Compared is {_COMPOSITES[of.score]}; the other one is {_COMPOSITES[of.other_score]}."


def zeros_words(judged: pd.DataFrame) -> str:
    """Say how many scores are 0, and what the mean is where they count and where they are left out."""
    zeros = zeros_left_out(judged)
    if zeros == 0:
        return "No dimension score is 0, so both composites are the same"
    lenient, strict = (judged[name].astype(float).mean() for name in ("composite", "composite_strict"))
    return (
        f"{counted(zeros, 'dimension scores')} {agreeing(zeros, 'are')} 0: the mean of the answers is {strict:.2f} by "
        f"the strict composite, which counts zeros, and {lenient:.2f} by the composite that leaves them out"
    )


def source_words(runs: pd.DataFrame, study_name: str, dataset_version: str) -> str:
    """Say which study and which version of the dataset the numbers come from."""
    names = sorted(str(name) for name in runs["study"].dropna().unique()) if "study" in runs else []
    study = study_name or ", ".join(names)
    words = f"Study {study}" if study else "Study not named"
    return f"{words}, dataset version {dataset_version}." if dataset_version else f"{words}."


def join(*sentences: str) -> str:
    """Join the sentences that say something."""
    return " ".join(sentence.strip() for sentence in sentences if sentence.strip())


def capital(sentence: str) -> str:
    """Return a sentence that begins with a capital."""
    return sentence[:1].upper() + sentence[1:]


def notes_words(notes: Iterable[str]) -> str:
    """Return the notes of a result as sentences."""
    return join(*(capital(note).rstrip(".") + "." for note in notes if note))
