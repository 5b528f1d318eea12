"""Votes of judges on pairs of replies as they are in the store: which are planned, which are there, and their frame."""

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import pandas as pd

from toolkit.judges.pairs import Pair
from toolkit.plan import Plan, RunKey
from toolkit.store.connection import Store
from toolkit.store.documents import PairVote
from toolkit.store.frame_files import typed, types_of
from toolkit.store.records import Stored, stored_runs

Replies = Mapping[RunKey, Stored]
"""How runs stand in the store, by prompt, model and repeat."""


class Ballot(NamedTuple):
    """What one judge is asked once: a pair of replies, in the order of the study or ``swapped``."""

    pair: Pair
    role: str
    swapped: bool

    @property
    def shown(self) -> tuple[str, str]:
        """The models in the order in which their replies are shown."""
        first, second = self.pair.models
        return (second, first) if self.swapped else (first, second)

    @property
    def keys(self) -> tuple[RunKey, RunKey]:
        """The keys of the two runs, in the order in which their replies are shown."""
        first, second = ((self.pair.prompt_id, name, self.pair.repeat) for name in self.shown)
        return first, second

    def replies(self, stored: Replies) -> tuple[Stored | None, Stored | None]:
        """Return the two replies as they stand, in the order in which they are shown."""
        first, second = map(stored.get, self.keys)
        return first, second


def ballots(plan: Plan) -> Iterator[Ballot]:
    """Yield all that judges are asked of pairs; a judge compares none with its own family where that is excluded."""
    judges = {name: plan.judges_of(name).keys() for name in plan.models}
    for pair in plan.pairs:
        for role in plan.judges:
            if all(role in judges[name] for name in pair.models):
                yield from (Ballot(pair, role, swapped) for swapped in (False, True))


def is_usable(run: Stored | None) -> bool:
    """Return whether a reply can be compared: it is there, and the study does not leave it out."""
    return run is not None and not (run.failure or run.excluded)


def stored_votes(plan: Plan, store: Store, stored: Replies) -> dict[Ballot, Mapping[str, Any]]:
    """Return the votes that were cast on the replies of now, by judges as they are set now."""
    if not plan.pairs:
        return {}
    keys = plan.vote_keys
    name_of = itemgetter("first_run_id", "first_blob_id", "second_run_id", "second_blob_id", "judge")
    votes = {
        name_of(vote): vote
        for vote in store.each_where(PairVote, {"study": plan.study.name})
        if keys.get(vote["judge"]) == vote["vote_key"]
    }
    present: dict[Ballot, Mapping[str, Any]] = {}
    for ballot in ballots(plan):
        first, second = ballot.replies(stored)
        if first and second and is_usable(first) and is_usable(second):
            name = (first.run_id, first.blob_id, second.run_id, second.blob_id, ballot.role)
            if name in votes:
                present[ballot] = votes[name]
    return present


def pairs_frame(plan: Plan, store: Store) -> pd.DataFrame:
    """Return one row a vote, in the order in which the pairs were drawn."""
    stored = stored_runs(store, plan.study.name, plan.call_ids) if plan.pairs else {}
    votes = stored_votes(plan, store, stored)
    prompts = {prompt.prompt_id: prompt for prompt in plan.dataset.prompts}
    rows = []
    for ballot, vote in votes.items():
        (first, second), prompt = ballot.shown, prompts[ballot.pair.prompt_id]
        winner = {"first": first, "second": second, "tie": "tie"}.get(vote.get("vote") or "")
        cluster = plan.clusters.get(prompt.base, prompt.base)
        row = {name: getattr(prompt, name) for name in ("base", "scenario", "length_bin")}
        row |= {"cluster": cluster, "judge_model": vote["model"], "first": first, "second": second}
        rows.append({**vote, **row, "winner": winner})
    return typed(rows, types_of("pairs"))
