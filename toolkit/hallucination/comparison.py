"""What hallucination judges made of a labelled set, out of their verdicts: free to make again from the ledger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.judges.hallucination import HallucinationVerdict
from toolkit.judges.hallucination_read import REASONS
from toolkit.judges.labelled import LabelledItem
from toolkit.stats.detection.deciders import Decider, baselines, compare_deciders, decider, deciders_frame
from toolkit.stats.detection.prevalence import Prevalence, corrected_prevalence
from toolkit.stats.result import Estimate
from toolkit.words import Summary

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class HallucinationComparison:
    """What every judge and mode made of a labelled set, and how often it was right."""

    study: str
    note: str
    items: tuple[LabelledItem, ...]
    k: int
    verdicts: tuple[HallucinationVerdict, ...]
    deciders: tuple[Decider, ...]
    baselines: tuple[Decider, ...]
    contrasts: tuple[Estimate, ...]
    failures: Mapping[str, int]
    budget: str | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return one row per judge and mode, then one per baseline; see `deciders_frame`."""
        return deciders_frame((*self.deciders, *self.baselines))

    def contrasts_frame(self) -> pd.DataFrame:
        """Return one row per difference of two accuracies, with its interval and corrected p value."""
        from toolkit.stats.result import estimates_frame

        return estimates_frame([("accuracy", one) for one in self.contrasts], "of")

    def verdicts_frame(self) -> pd.DataFrame:
        """Return one row a verdict: what was decided of which item and whether that is right, votes and reasons."""
        import pandas as pd

        by_id = {item.item_id: item for item in self.items}
        return pd.DataFrame([_verdict_row(by_id[one.item_id], one) for one in self.verdicts])

    def decider(self, judge: str | None = None, mode: str | None = None) -> Decider:
        """Return one judge in one mode; either may be left out where there is one only."""
        fits = [one for one in self.deciders if judge in (None, one.judge) and mode in (None, one.mode)]
        if len(fits) != 1:
            known = "; ".join(f"judge={one.judge!r}, mode={one.mode!r}" for one in fits or self.deciders)
            raise InputError(f"{len(fits)} judges and modes fit {judge!r} and {mode!r}; name one of {known}")
        return fits[0]

    def prevalence(
        self, decisions: Sequence[bool | None], judge: str | None = None, mode: str | None = None
    ) -> Prevalence:
        """Return the share of hallucinations behind what a judge decided of unlabelled items."""
        return corrected_prevalence(decisions, self.decider(judge, mode).found.counts)

    def figures(self, folder: Path | str) -> list[Path]:
        """Write the figure and the table into a folder, and return the paths."""
        from toolkit.report.hallucination_table import write_hallucination_report

        return write_hallucination_report(
            self.deciders,
            self.baselines,
            self.contrasts,
            k=self.k,
            source=f"Study {self.study}.",
            note=self.note,
            folder=folder,
        )

    @property
    def unreadable(self) -> dict[str, int]:
        """How many replies gave no vote, by the reason; the same reply would be read the same way again."""
        reasons = (reason for one in self.verdicts for reason in one.reasons if reason is not None)
        return dict(Counter(reason.split(":")[0] for reason in reasons if reason.startswith(REASONS)))

    @property
    def outcome(self) -> dict[str, Any]:
        """What `toolkit.report.show.need_whole` asks for: votes planned and failed, why, and the budget."""
        planned = len(self.items) * len(self.deciders) * self.k
        failed = sum(self.failures.values())
        return {"planned": planned, "failed": failed, "failures": self.failures, "budget": self.budget}

    @property
    def exit_code(self) -> int:
        """0 done, 1 done but some votes got no reply, 3 budget reached."""
        return 3 if self.budget else int(bool(self.failures))

    def summary(self, files: Sequence[Path] = ()) -> Summary:
        """Return what the command line says at the end, and which files were written."""
        from toolkit.report.hallucination_table import hallucination_text

        hallucinated = sum(bool(item.hallucinated) for item in self.items)
        fields: dict[str, Any] = {
            "study": self.study,
            "items": len(self.items),
            "hallucinated": hallucinated,
            "prevalence": hallucinated / len(self.items),
            "k": self.k,
            "rows": [_fields(one) for one in (*self.deciders, *self.baselines)],
            "contrasts": [one.to_dict() for one in self.contrasts],
            "failures": dict(self.failures),
            "unreadable": self.unreadable,
            "budget": self.budget,
            "files": [str(path) for path in files],
        }
        lines = [
            f"labelled  {hallucinated} of {len(self.items)} items are hallucinated "
            f"(prevalence {hallucinated / len(self.items):.3f})",
            hallucination_text(self.deciders, self.baselines, self.contrasts),
            *(f"no reply  {count} x {reason}" for reason, count in self.failures.items()),
            *(f"no vote   {count} x {reason}" for reason, count in self.unreadable.items()),
            *([self.budget] if self.budget else []),
            *map(str, files),
        ]
        return Summary(fields, "\n".join(lines), self.exit_code)


def comparison_of(
    items: Sequence[LabelledItem],
    asked: Sequence[tuple[str, str, str]],
    verdicts: Iterable[HallucinationVerdict],
    *,
    k: int,
    study: str = "",
    note: str = "",
    budget: str | None = None,
) -> HallucinationComparison:
    """Compare verdicts with the labels."""
    found = {(one.item_id, one.judge, str(one.mode)): one for one in verdicts}
    labels = [bool(item.hallucinated) for item in items]
    bases = _bases(items)
    deciders = []
    for judge, model, mode in asked:
        said = [found.get((item.item_id, judge, mode)) for item in items]
        deciders.append(
            decider(
                judge,
                model,
                mode,
                labels=labels,
                decisions=[one.decision if one else None for one in said],
                asked=[one is not None for one in said],
                bases=bases,
                scores=[one.score if one else None for one in said],
                votes=[one.votes if one else () for one in said],
                aud=math.fsum(one.aud_cost for one in said if one),
                unreadable=sum(one.unreadable for one in said if one),
            )
        )
    simple = baselines(labels, [len(item.answer) for item in items], bases)
    keys = ((item.item_id, judge, mode) for item in items for judge, _, mode in asked)
    ordered = tuple(found[key] for key in keys if key in found)
    reasons = (reason for one in ordered for reason in one.reasons if reason is not None)
    return HallucinationComparison(
        study,
        note,
        tuple(items),
        k,
        ordered,
        tuple(deciders),
        simple,
        (
            *compare_deciders(labels, deciders, bases=bases),
            *compare_deciders(labels, deciders, simple, bases),
        ),
        dict(Counter(reason for reason in reasons if not reason.startswith(REASONS))),
        budget,
    )


def _bases(items: Sequence[LabelledItem]) -> list[str] | None:
    """Return the document of each item, or its question where it has none, where items share one."""
    questions = [item.documents or item.question for item in items]
    return questions if len(set(questions)) < len(questions) else None


def _verdict_row(item: LabelledItem, verdict: HallucinationVerdict) -> dict[str, Any]:
    decided = verdict.decision
    return {
        "item_id": item.item_id,
        "domain": item.domain,
        "topic": item.topic,
        "judge": verdict.judge,
        "model": verdict.model,
        "mode": verdict.mode,
        "hallucinated": item.hallucinated,
        "decision": decided,
        "correct": None if decided is None else decided == item.hallucinated,
        "reason": verdict.reason,
        "score": verdict.score,
        "explanation": verdict.explanation,
        "k": verdict.k,
        "unreadable": verdict.unreadable,
        "votes": verdict.votes,
        "reasons": verdict.reasons,
        "aud_cost": verdict.aud_cost,
        "call_ids": verdict.call_ids,
    }


def _fields(one: Decider) -> dict[str, Any]:
    return {
        "judge": one.judge,
        "model": one.model,
        "mode": one.mode,
        "counts": vars(one.found.counts),
        "unasked": one.unasked,
        "aud": one.aud,
        "aud_per_correct": one.aud_per_correct,
        "replies": one.replies,
        "unreadable": one.unreadable,
        "unreadable_share": one.unreadable_share,
        "estimates": [estimate.to_dict() for estimate in one.estimates()],
    }
