"""What stands under a figure or table: three sentences (what is seen, n and intervals, what to note), and its notes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import pandas as pd

from toolkit.models.base import DEFECTS
from toolkit.report.escape import data_file
from toolkit.stats import WORDS
from toolkit.stats.inference.clusters import unit_counts
from toolkit.stats.inference.run_table import levels_of
from toolkit.stats.result import Estimate
from toolkit.words import agreeing, counted, joined, level_words

TEXTS: Mapping[str, Mapping[str, str]] = data_file("captions") | {
    figure: text for words in WORDS.values() for figure, text in words.get("figures", {}).items()
}
"""The sentences that explain each figure and table, by its name; what stands in braces is filled in."""
Key = TypeVar("Key")
Part = TypeVar("Part")
MOST_NAMES = 4
"""Results without an estimate that a caption names for each reason; the data of the table name all."""
UNCORRECTED = "The intervals are not corrected for their number"
NO_INTERVALS = "no intervals"


def text_of(name: str, variant: str = "") -> dict[str, str]:
    """Return the sentences of a figure, or of an analysis of one's own; those of a variant replace its own."""
    own = TEXTS["own"] if name in WORDS else {}
    return {**TEXTS.get(name, own), **TEXTS.get(variant, {})}


@dataclass(frozen=True)
class Context:
    """What the captions of one study share: what they say first, source, what is missing, lengths, and their ends."""

    source: str = ""
    warning: str = ""
    missing: str = ""
    notes: str = ""
    note: str = ""
    lengths: str = joined(list(TEXTS["lengths"].values()))
    factor: str = "prompt length"

    def about(self) -> list[str]:
        """Return warning, source and note, each a line."""
        return list(filter(None, (self.warning, self.source and f"{self.source}.", self.note)))

    def compose(
        self,
        lead: str,
        basis: Iterable[object],
        note: Iterable[object] = (),
        notes: Iterable[object] = (),
        estimates: Iterable[Estimate] = (),
    ) -> tuple[str, str]:
        """Return caption and notes: lead, clauses on n and intervals, those to note, and why and how in the notes."""
        results = list(estimates)
        absent = dict.fromkeys(e.name for e in results if not e.estimable)
        uneven = uneven_words(results)
        rests_on = clauses(
            *basis, absent and f"not estimable: {_few(absent)}", uneven and TEXTS["differences"]["uneven"]
        )
        caption = join(
            self.warning,
            lead,
            f"{self.source}{': ' * bool(self.source)}{rests_on}.",
            sentence(*note),
            self.note,
        )
        reasons = (ways_words(results), no_interval_words(results), not_estimable_words(results))
        return caption, join(*notes, *reasons, sentence(uneven), self.notes)


ALONE = Context()
"""Of a figure or table that is of no study."""


def judged_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs that have a composite score."""
    if runs.empty:
        return runs
    scored = (runs["status"] == "succeeded") & runs["judged"].astype(bool) & runs["composite"].notna()
    return runs[scored]


def counts(judged: pd.DataFrame, repeats: int | None = None) -> dict[str, int]:
    """Count what a figure rests on."""
    if judged.empty:
        return {"bases": 0, "answers": 0, "models": 0, "judges": 0, "repeats": repeats or 0}
    return {
        **unit_counts(judged),
        "answers": len(judged),
        "models": int(judged["model"].nunique()),
        **({"judges": judges} if (judges := int(judged["judge_count"].max())) else {}),
        "repeats": repeats if repeats is not None else int(judged["repeat"].nunique()),
    }


def defects_note(runs: pd.DataFrame) -> str:
    """Say in one sentence how many answers are not whole, those that count all the same and those that do not."""
    total = counted(len(runs), "answers")
    parts = []
    scored = runs if runs["composite"].isna().all() else judged_runs(runs)
    by_verdict = {"counted though": scored[~scored["excluded"]], "left out because": runs[runs["excluded"]]}
    for verdict, rows in by_verdict.items():
        defects = rows["defect"].dropna().value_counts()
        parts += [f"{count} of {total} {verdict} {DEFECTS[str(defect)]}" for defect, count in defects.items()]
    return sentence(*parts)


def counts_words(n: Mapping[str, int]) -> str:
    """Say the counts, singular where there is one."""
    return ", ".join(counted(count, unit) for unit, count in n.items())


def n_words(n: Mapping[str, int]) -> str:
    """Say the counts after "n ="."""
    return f"n = {counts_words(n)}"


def ranges_words(estimates: Iterable[Estimate]) -> str:
    """Say each count once where all estimates agree, and its range where they differ."""
    ranges = by_key(size for estimate in estimates for size in estimate.n.items())
    parts = [
        counted(sizes[0], unit) if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)} {unit}"
        for unit, sizes in ranges.items()
    ]
    return ", ".join(parts) or "0"


def estimates_n_words(estimates: Iterable[Estimate]) -> str:
    """Say the counts of several estimates after "n ="."""
    return f"n = {ranges_words(estimates)}"


def by_key(parts: Iterable[tuple[Key, Part]]) -> dict[Key, list[Part]]:
    """Return what stands under each key, in its order."""
    groups: dict[Key, list[Part]] = {}
    for key, part in parts:
        groups.setdefault(key, []).append(part)
    return groups


def _ways(estimates: Iterable[Estimate]) -> dict[tuple[str, str], list[str]]:
    """Return level and method of intervals, and the results whose intervals were made so."""
    intervals = [e for e in estimates if e.estimable and e.low is not None and e.high is not None]
    ways = Counter(name for name, *_ in {(e.statistic, e.confidence, e.procedure) for e in intervals})
    return by_key(
        (
            (level_words(e.confidence), e.procedure),
            e.statistic if e.statistic and ways[e.statistic] == 1 else e.name,
        )
        for e in intervals
    )


def interval_words(estimates: Iterable[Estimate]) -> str:
    """Say how the intervals were made, or that there are none; several ways are told apart in the notes."""
    ways = _ways(estimates)
    if len(ways) > 1:
        return f"{' and '.join(dict.fromkeys(level for level, _ in ways))} intervals, made as the notes say"
    return next((f"{level} intervals: {method}" for level, method in ways), "no interval could be estimated")


def ways_words(estimates: Iterable[Estimate]) -> str:
    """Say of which results the intervals were made in which way, where there are several ways."""
    ways = _ways(estimates).items()
    parts = (f"{level} intervals of {_few(names)}: {method}" for (level, method), names in ways)
    return sentence(*parts) if len(ways) > 1 else ""


def not_estimable_words(estimates: Iterable[Estimate]) -> str:
    """Say which estimates there are none of, and why."""
    return _by_reason("Not estimable", (e for e in estimates if not e.estimable))


def missing_before(estimates: Iterable[Estimate]) -> str:
    """Say how much was missing before the estimates."""
    most = max((estimate.missing for estimate in estimates), default=0)
    return f"up to {most} more {agreeing(most, 'are')} missing and not in n" if most else ""


def no_interval_words(estimates: Iterable[Estimate]) -> str:
    """Say which estimates have no interval and why, each reason once."""
    bare = (e for e in estimates if e.estimable and (e.low is None or e.high is None))
    return _by_reason("Without an interval", bare)


def tests_words(estimates: Iterable[Estimate]) -> str:
    """Say how P values were made that have no interval beside them."""
    methods = by_key((e.procedure, e.name) for e in estimates if e.p_value is not None and e.low is None)
    return sentence(*(f"test of {_few(names)}: {method}" for method, names in methods.items()))


def roles_words(estimates: Iterable[Estimate]) -> str:
    """Say which tests were named beforehand, and which were not."""
    roles = by_key((e.role, e.name) for e in estimates if e.p_value is not None and e.role)
    if list(roles) == ["exploratory"]:
        return "all of these tests are exploratory" if len(set(roles["exploratory"])) > 1 else "exploratory"
    return clauses(*(f"{role}: {_few(names)}" for role, names in roles.items()))


def corrections_words(results: Iterable[Estimate]) -> str:
    """Say how P values were corrected for multiplicity, and that the intervals beside them were not."""
    tests = [e for e in results if e.correction != "none" and e.p_value is not None]
    corrections = "; ".join(dict.fromkeys(e.correction for e in tests))
    unadjusted = ", intervals unadjusted" if any(e.low is not None for e in tests) else ""
    return f"P values corrected for multiplicity: {corrections}{unadjusted}" if tests else ""


def cut_words(data: pd.DataFrame, scale: tuple[float, float]) -> str:
    """Say that intervals leave the scale, where some do; their lines are drawn to the ends of the scale."""
    first, last = scale
    if (data["low"] < first).any() or (data["high"] > last).any():
        return "Intervals that leave the scale are cut at its ends; the data have their ends."
    return ""


def lengths_words(runs: pd.DataFrame) -> str:
    """Name the levels of runs in their order, prompt lengths in words."""
    levels = [level for level in levels_of(runs) if (runs["level"] == level).any()]
    return joined([TEXTS["lengths"].get(level, level) for level in levels])


def differences_words(differences: Iterable[Estimate]) -> str:
    """Say that differences are exploratory, and where their P values stand."""
    return TEXTS["differences"]["none" if all(e.correction == "none" for e in differences) else "corrected"]


def uneven_words(numbers: Iterable[Estimate]) -> str:
    """Say which models each of several numbers rests on, where these are not the same for all."""
    parts = dict.fromkeys(
        f"{number.name} {number.note}" for number in numbers if "models" in number.n and number.note
    )
    return f"{TEXTS['differences']['uneven']}: {'; '.join(parts)}" if parts else ""


def unpaired_words(differences: Iterable[Estimate]) -> str:
    """Say how many bases differences within bases lack; what is missing there is bases and not answers."""
    most = max((difference.missing for difference in differences if difference.estimable), default=0)
    bases = f"up to {counted(most, 'bases')} {agreeing(most, 'have')}"
    return f"{bases} no score at one of two levels and cannot be paired" if most else ""


def _by_reason(lead: str, estimates: Iterable[Estimate]) -> str:
    """Return the first few names of each reason and how many more there are: a caption has to fit its page."""
    reasons = by_key((e.reason, e.name) for e in estimates).items()
    parts = (_few(names) + (reason and f" ({reason})") for reason, names in reasons)
    return f"{lead}: {'; '.join(parts)}." if reasons else ""


def _few(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - MOST_NAMES
    return ", ".join(distinct) if more <= 1 else f"{', '.join(distinct[:MOST_NAMES])} and {more} more"


def missing_words(runs: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Say how many runs are not in the figure and why; a failure is missing and never a zero."""
    if len(runs) == len(judged):
        return ""
    failed = int((runs["status"] == "failed").sum())
    unscored = len(runs) - len(judged) - failed
    parts = [f"{failed} failed"] if failed else []
    parts += [f"{unscored} {agreeing(unscored, 'are')} unjudged or without a number"] if unscored else []
    return f"of {counted(len(runs), 'runs')} {' and '.join(parts)}: missing here, not zero"


def zeros_left_out(runs: pd.DataFrame) -> int:
    """Return how many true zeros the composite of the seed leaves out (DESIGN, section 8)."""
    return int(judged_runs(runs)["zeros"].fillna(0).sum()) if "zeros" in runs else 0


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
    source = f"Study {study}" if study else "Study not named"
    return f"{source}, dataset version {dataset_version}" if dataset_version else source


def join(*sentences: object) -> str:
    """Join the sentences that say something; ``applies and "Sentence."`` is none where it does not apply."""
    return " ".join(s.strip() for s in sentences if isinstance(s, str) and s.strip())


def clauses(*parts: object) -> str:
    """Join the clauses that say something."""
    return "; ".join(part for part in parts if isinstance(part, str) and part)


def sentence(*parts: object) -> str:
    """Return clauses as one sentence; nothing where none says anything."""
    text = capital(clauses(*parts))
    return f"{text}." if text else ""


def capital(text: str) -> str:
    """Return a text that begins with a capital."""
    return text[:1].upper() + text[1:]


def notes_words(notes: Iterable[str]) -> str:
    """Return the notes of a result as sentences."""
    return join(*(capital(note).rstrip(".") + "." for note in notes if note))
