"""Models that their providers no longer serve: the estimate says so, and nothing is sent before the study names others.

Without this a study pays for the answers of one model, and finds afterwards that none of its judges can be reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolkit.errors import StudyError
from toolkit.models.catalogue import ModelSpec
from toolkit.runs.estimate import estimate_frame

if TYPE_CHECKING:
    from toolkit.plan import Plan
    from toolkit.store.connection import Store


def refuse_retired(plan: Plan, store: Store, *, only_judge: bool = False) -> None:
    """Refuse to ask models that are retired; what they answered before stays as good as it was.

    Parameters
    ----------
    plan, store
        The planned study and its open store.
    only_judge
        Whether only judges are to be asked.

    Raises
    ------
    StudyError
        Naming each retired model that has a call still to be asked, and since when.
    """
    named: Mapping[tuple[str, str], ModelSpec] = {
        **({} if only_judge else {("model", name): spec for name, spec in plan.models.items()}),
        **{(role, plan.judges[role].name): spec for role, spec in plan.judge_models.items()},
    }
    gone = {key: spec for key, spec in named.items() if spec.is_retired()}
    if not gone:
        return
    frame = estimate_frame(plan, store)
    ahead = {(row.who, row.model) for row in frame[frame["calls"] > 0].itertuples()}
    told = [
        f"{who} {name} ({spec.provider} {spec.model}) since {spec.retired}"
        for (who, name), spec in gone.items()
        if (who, name) in ahead
    ]
    if told:
        raise StudyError(
            f"study {plan.study.name}: retired by their providers: {'; '.join(told)}. Nothing was sent: name models "
            'that are served, or give the id of one, as in { name = "NAME", model = "ID" }'
        )
