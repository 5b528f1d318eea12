"""Which pairs of replies judges have still to compare, and how far they are."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.judges.judgement import Judgement
from toolkit.judges.pairs import pair_request
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import ModelRequest
from toolkit.plan import Plan
from toolkit.runs.ledger import Ledger
from toolkit.runs.run_state import RunState
from toolkit.store.connection import Store
from toolkit.store.records import Stored, reply_texts, stored_runs, vote_record
from toolkit.store.votes import Ballot, ballots, is_usable, stored_votes
from toolkit.store.writer import Record
from toolkit.words import reason_key


@dataclass(frozen=True)
class Comparison:
    """One comparison ahead: the two replies as they are shown, and the request to the judge."""

    ballot: Ballot
    shown: tuple[Stored, Stored]
    judge: JudgeSpec
    request: ModelRequest
    earlier: Any = None  # the vote that is stored, where it is asked for again

    @property
    def related(self) -> bool:
        """Whether the judge shares a family with one of the models."""
        return any(name in self.judge.related for name in self.ballot.shown)

    def record(self, plan: Plan, judgement: Judgement) -> Record:
        """Return the record of its vote."""
        pair, (first, second) = self.ballot.pair, self.shown
        key = {"first_run_id": first.run_id, "second_run_id": second.run_id, "judge": self.ballot.role}
        content = {
            "study": plan.study.name,
            "prompt_id": pair.prompt_id,
            "repeat": pair.repeat,
            "first_blob_id": first.blob_id,
            "second_blob_id": second.blob_id,
            "rubric_hash": plan.rubric.digest,
            "swapped": self.ballot.swapped,
            "vote_key": plan.vote_keys[self.ballot.role],
        }
        return vote_record(key, content, judgement)


def comparisons(
    plan: Plan, store: Store, call_ids: Collection[str], *, again: bool = False
) -> list[Comparison]:
    """Return what judges have still to be asked of replies that are there; with ``again`` all of it."""
    if not plan.pairs:
        return []
    stored = stored_runs(store, plan.study.name, call_ids)
    votes = stored_votes(plan, store, stored)
    texts = reply_texts(store, filter(is_usable, stored.values()))
    tasks = {prompt.prompt_id: prompt.text for _, prompt in plan.runs.prompts}
    ahead = []
    for ballot in ballots(plan):
        first, second = ballot.replies(stored)
        vote = votes.get(ballot)
        if not (first and second and is_usable(first) and is_usable(second)):
            continue
        if vote and vote["answered"] and not again:
            continue
        # Two orders of equal replies are one text: the index makes two calls of them.
        judge = plan.judges[ballot.role].of_run(ballot.pair.repeat, int(ballot.swapped))
        shown = texts.get(first.blob_id or "", ""), texts.get(second.blob_id or "", "")
        request = pair_request(judge, plan.rubric, tasks[ballot.pair.prompt_id], *shown)
        ahead.append(Comparison(ballot, (first, second), judge, request, vote))
    return ahead


def pairs_ahead(
    plan: Plan, store: Store, states: Iterable[RunState]
) -> tuple[dict[str, list[tuple[RunState, RunState]]], Counter[str]]:
    """Return the replies of each comparison that is still to be paid, and how many are paid, both by judge."""
    by_key = {state.run.key: state for state in states}
    stored = {key: state.stored for key, state in by_key.items() if state.stored and state.request is None}
    votes = stored_votes(plan, store, stored)
    asked_next = {task.ballot: task.request.identity() for task in comparisons(plan, store, plan.call_ids)}
    # A process that was killed may have left replies without votes.
    answers = Ledger(store, plan.study.name).prefetch(asked_next.values())
    ahead: dict[str, list[tuple[RunState, RunState]]] = defaultdict(list)
    paid: Counter[str] = Counter()
    for ballot in ballots(plan):
        first, second = (by_key[key] for key in ballot.keys)
        if first.to_judge and second.to_judge:
            is_answered = ballot in votes and votes[ballot]["answered"]
            if is_answered or asked_next.get(ballot) in answers:
                paid[ballot.role] += 1
            else:
                ahead[ballot.role].append((first, second))
    return ahead, paid


def vote_counts(plan: Plan, store: Store) -> dict[str, Any]:
    """Return how many votes are planned, left out with a reply that does not count, answered, cast and missing."""
    stored = stored_runs(store, plan.study.name, plan.call_ids)
    votes = stored_votes(plan, store, stored)
    planned = Counter(
        "left_out"
        if any(reply is not None and reply.excluded for reply in ballot.replies(stored))
        else "answered"
        if ballot in votes and votes[ballot]["answered"]
        else "missing"
        for ballot in ballots(plan)
    )
    unread = (vote["reason"] for vote in votes.values() if vote["reason"] and vote["answered"])
    return {
        "planned": planned.total(),
        "left_out": planned["left_out"],
        "answered": planned["answered"],
        "cast": sum(vote["vote"] is not None for vote in votes.values()),
        "missing": planned["missing"],
        "unread": dict(Counter(map(reason_key, unread))),
    }


def votes_line(counts: Mapping[str, Any]) -> str:
    """Return the counts of votes as the command line shows them."""
    line = f"{counts['answered']} of {counts['planned']} answered, {counts['cast']} with a vote"
    if counts["left_out"]:
        line += f", {counts['left_out']} left out"
    return line + "".join(f", {number} x {reason}" for reason, number in counts["unread"].items())
