"""The sentences under figures and tables: n, intervals, what is missing, where the numbers come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from toolkit.stats.inference.clusters import unit_counts
from toolkit.stats.result import Estimate
from toolkit.words import SCALE, agreeing, counted, coverage

MOST_NAMES = 4
"""Results without an estimate that a caption names for each reason; the data of the table name all."""
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
        said += [
            f"{count} of {counted(len(runs), 'answers')} {words} {kind}." for kind, count in kinds.items()
        ]
    return " ".join(said)


def related_note(judgements: pd.DataFrame) -> str:
    """Say how many judgements that count are of a judge that shares a family with the model it judged."""
    counting = judgements[~judgements["failed"].astype(bool)]
    own = int(counting["related"].fillna(False).sum())
    words = f"{own} of {counted(len(counting), 'judgements')} {agreeing(own, 'are')} by a judge of the judged model's"
    return f"{words} own family." if own else ""


def n_words(n: Mapping[str, int]) -> str:
    """Say the counts, singular where there is one."""
    return "n = " + ", ".join(counted(count, what) for what, count in n.items())


def interval_words(estimates: Iterable[Estimate]) -> str:
    """Say what the drawn intervals are and how they were made, or that there are none."""
    drawn = [e for e in estimates if e.estimate is not None and e.low is not None and e.high is not None]
    kinds = list(dict.fromkeys((e.confidence, e.method) for e in drawn))
    if not kinds:
        return "No interval could be estimated."
    return "; ".join(f"{coverage(level)} intervals: {method}" for level, method in kinds) + "."


def icc_interval_words(forms: Iterable[Estimate]) -> str:
    """Say how the intervals of intraclass correlations were made, of absolute agreement apart where it differs."""
    held = list(forms)
    first = interval_words(one for one in held if one.name.startswith("ICC(A"))
    others = interval_words(one for one in held if not one.name.startswith("ICC(A"))
    return first if first == others else f"ICC(A,.): {first} Other forms: {others}"


def level_words(estimates: Iterable[Estimate]) -> str:
    """Return the heading of a column of intervals."""
    levels = sorted({e.confidence for e in estimates})
    return f"{coverage(levels[0])} interval" if len(levels) == 1 else "interval"


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
            names.setdefault(one.note.removeprefix("not estimable: "), []).append(one.name)
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
            why = one.note.removeprefix("no interval or p value: ").removeprefix("no interval: ")
            names.setdefault(why.partition(";")[0], []).append(name)
    return f"Without an interval: {_by_reason(names)}." if names else ""


def role_words(one: Estimate) -> str:
    """Say whether a test was named beforehand, and what of its row is adjusted for several tests."""
    told = [part for part in one.note.split("; ") if part in ("confirmatory", "exploratory")]
    if one.correction != "none" and one.p_value is not None:
        beside = ", interval: unadjusted" if one.low is not None else ""
        told.append(f"p: {one.correction.split(' over ')[0]}{beside}")
    return "; ".join(told)


def cut_words(low: pd.Series, high: pd.Series) -> str:
    """Say that intervals leave the scale, where some do: what is drawn of them ends with the scale."""
    beyond = bool((low.astype(float) < SCALE[0]).any() or (high.astype(float) > SCALE[1]).any())
    return "Intervals that leave the scale are cut at its ends; the data have their ends." if beyond else ""


def unpaired_words(differences: Iterable[Estimate]) -> str:
    """Say how many bases differences within bases lack; what is missing there is bases and not answers."""
    most = max((one.missing for one in differences), default=0)
    bases = f"Up to {counted(most, 'bases')} {agreeing(most, 'have')}"
    return f"{bases} no score at one of the two lengths and cannot be paired." if most else ""


def _by_reason(names: Mapping[str, Iterable[str]]) -> str:
    """Return the first few names of each reason and how many more there are: a caption has to fit its page."""
    said = []
    for why, of_why in names.items():
        told = list(dict.fromkeys(of_why))
        more = len(told) - MOST_NAMES
        few = ", ".join(told) if more <= 1 else f"{', '.join(told[:MOST_NAMES])} and {more} more"
        said.append(f"{few} ({why})" if why else few)
    return "; ".join(said)


def missing_words(runs: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Say how many runs are not in the figure and why; a failure is missing and never a zero."""
    if len(runs) == len(judged):
        return ""
    failed = int((runs["status"] == "failed").sum())
    other = len(runs) - len(judged) - failed
    without = f"{other} {agreeing(other, 'are')} unjudged or without a number"
    parts = [f"{failed} failed"] * (failed > 0) + [without] * (other > 0)
    return f"Of {counted(len(runs), 'runs')} {' and '.join(parts)}: missing here, not zero."


def zeros_words(judged: pd.DataFrame) -> str:
    """Say how many true zeros the composite of the seed left out (DESIGN, section 8)."""
    left_out = int(judged["zeros"].fillna(0).sum()) if "zeros" in judged and not judged.empty else 0
    if left_out == 0:
        return "No dimension score of 0 had to be left out of the composite."
    scores = counted(left_out, "dimension scores")
    return f"The composite leaves out {scores} of 0; composite_strict counts {'it' if left_out == 1 else 'them'}."


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
