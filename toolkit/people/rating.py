"""Rounds of blind ratings: one person scores one reply after another without seeing model, judges or cost.

The task is shown, so that its length can be seen, and a reply may name its model.
"""

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

from toolkit.errors import InputError
from toolkit.plan import Plan, PlannedRun
from toolkit.scoring import on_scale
from toolkit.store.connection import Store
from toolkit.store.ratings import (
    Rating,
    end_order,
    keep_judgements,
    keep_order,
    keep_ratings,
    known_raters,
    newest_ratings,
    stored_order,
)
from toolkit.store.records import StoredRun, reply_texts, stored_runs
from toolkit.words import choices, visible_name

_RATER = re.compile(r"\w[\w.@ -]{0,62}\w|\w")


@dataclass(frozen=True)
class Reply:
    """A reply that can be rated: its run, the task, and the text with its id."""

    run_id: str
    task: str
    text: str
    blob_id: str


@dataclass(frozen=True)
class Round:
    """The round of one rater: its replies and their ratings."""

    rater: str
    seed: int
    replies: tuple[Reply, ...]
    ratings: Mapping[str, Rating]
    unkept: tuple[int | None, tuple[str, ...]] | None = None
    """Size and order of a round without a rating: it is saved with the first one."""

    @property
    def rated(self) -> int:
        """Number of replies with all their scores."""
        return sum(rating.finished for rating in self.ratings.values())

    @property
    def unfinished(self) -> int:
        """Number of replies with a part of their scores."""
        return len(self.ratings) - self.rated


def rateable_replies(plan: Plan, store: Store) -> list[tuple[PlannedRun, Reply]]:
    """Return every reply of a study that can be rated, in the order of prompts, models and repeats."""
    if not plan.test.judged:
        raise InputError(
            f"study {plan.study.name}: test {plan.test.name} is not scored by a rubric, so there is nothing to rate; "
            "study.view() shows its replies and study.results() what they came to"
        )
    rubric = plan.rubric
    store.add_rubric(rubric.digest, rubric.name, rubric.version, rubric.content)  # by which ratings are read
    stored = stored_runs(store, plan.study.name, plan.call_ids)
    usable = {key: run for key, run in stored.items() if why_not(run) is None}
    texts = reply_texts(store, usable.values())
    replies = []
    for run in sorted(plan.runs, key=lambda run: run.key):
        if run.key in usable and not run.of_arm:
            run_id, blob_id = usable[run.key].run_id, usable[run.key].blob_id or ""
            replies.append((run, Reply(run_id, run.prompt.text, texts[blob_id], blob_id)))
    if not replies:
        raise InputError(f"study {plan.study.name}: has no reply to rate yet; run it first (toolkit run)")
    return replies


def why_not(run: StoredRun) -> str | None:
    """Return why a stored run cannot be rated, ``None`` when it can."""
    if run.failure or run.blob_id is None:
        return f"has no reply ({run.failure})"
    return f"is excluded from judging ({run.excluded} reply)" if run.excluded else None


def checked_rater(known: Iterable[str], rater: str) -> str:
    """Return the name of a rater as it is seen, with single spaces, so that equal looks are one rater."""
    name = " ".join(visible_name(rater).split())
    if not _RATER.fullmatch(name):
        raise InputError(
            f"rater {rater!r}: give up to 64 letters, digits, spaces and . _ @ -, with a letter or digit at both ends"
        )
    if alike := [other for other in known if other != name and other.casefold() == name.casefold()]:
        raise InputError(
            f"rater {name!r}: {alike[0]!r} has rated here; write it the same way, or take another name"
        )
    return name


def open_round(
    plan: Plan, store: Store, rater: str, *, seed: int | None = None, size: int | None = None
) -> Round:
    """Open the round of a rater, or continue it.

    The order is shuffled by seed and rater and balanced over length bins and models. It is saved with the first rating;
    replies that came later go to its end.
    """
    study, rubric_hash = plan.study.name, plan.rubric.digest
    rater = checked_rater(known_raters(store, study), rater)
    seed = plan.study.seed if seed is None else seed
    if size is not None and size < 1:
        raise InputError(f"size: {size} replies are no round; give 1 or more, or leave it out for all")
    rateable = rateable_replies(plan, store)
    stored = stored_order(store, study, rater, rubric_hash, seed)
    order, stored_size = stored or ((), None)
    limit = stored_size if size is None else size
    order_now = _extended(order, rateable, f"{seed}:{rater}:{len(order)}", limit)
    if stored is not None and (order_now != order or limit != stored_size):
        keep_order(store, study, rater, rubric_hash, seed, limit, order_now)
    replies = {reply.run_id: reply for _, reply in rateable}
    ordered = tuple(replies[run_id] for run_id in order_now if run_id in replies)
    blobs = {reply.run_id: reply.blob_id for reply in ordered}
    ratings = {run: rating for (_, run), rating in newest_ratings(store, blobs, rubric_hash, rater).items()}
    # A killed process may have missed this last step.
    keep_judgements(store, tuple(ratings.values()))
    return Round(rater, seed, ordered, ratings, (limit, order_now) if stored is None else None)


def end_round(plan: Plan, store: Store, round_: Round) -> Round:
    """End a round with the replies that have all scores; partly scored ones stay in the history and do not count."""
    scored = {run_id for run_id, rating in round_.ratings.items() if rating.finished}
    finished = tuple(reply for reply in round_.replies if reply.run_id in scored)
    if round_.unkept is None:
        key = (plan.study.name, round_.rater, plan.rubric.digest, round_.seed)
        end_order(store, *key, [reply.run_id for reply in finished])
    ratings = {reply.run_id: round_.ratings[reply.run_id] for reply in finished}
    return replace(round_, replies=finished, ratings=ratings)


def throw_round_away(plan: Plan, store: Store, round_: Round) -> Round:
    """Discard a round: its ratings no longer count, and their history ends with a version without scores."""
    # Ratings from a file belong to no round.
    ratings = [rating for rating in round_.ratings.values() if rating.source == "desk"]
    keep_ratings(store, [replace(rating, scores={}, reasons=None) for rating in ratings])
    return end_round(plan, store, replace(round_, ratings={}))


def next_reply(round_: Round, after: Reply | None = None) -> Reply | None:
    """Return the next reply without a rating, then the next unfinished one; ``None`` when none is left."""
    at = round_.replies.index(after) + 1 if after in round_.replies else 0
    turned = round_.replies[at:] + round_.replies[:at]
    unrated = [reply for reply in turned if reply.run_id not in round_.ratings]
    partly = (reply for reply in turned if not round_.ratings[reply.run_id].finished)
    return next(iter(unrated or partly), None)


def rate(
    plan: Plan,
    store: Store,
    round_: Round,
    reply: Reply,
    scores: Mapping[str, float | None],
    reasons: str = "",
) -> Round:
    """Save a rating, and return the round with it."""
    scheme = plan.rubric.scheme
    for name in scores:
        if name not in scheme.names:
            raise InputError(
                f"dimension {name!r} is unknown; {choices(name, scheme.names, 'the rubric has')}"
            )
    values = {name: on_scale(scores.get(name), name, scheme.scale) for name in scheme.names}
    checked = {name: score for name, score in values.items() if score is not None}
    if not checked and not reasons.strip():
        raise InputError("rating: nothing is scored yet; give at least one score, or skip the reply")
    rating = rating_of(plan, round_.rater, reply.run_id, reply.blob_id, checked, reasons.strip() or None)
    if round_.unkept is not None:
        order_key = (rating.study, rating.rater, rating.rubric_hash, round_.seed)
        keep_order(store, *order_key, *round_.unkept)
    # Not that of the round: the rater may have a second desk.
    stored = newest_ratings(store, {reply.run_id: reply.blob_id}, rating.rubric_hash, rating.rater)
    if not any(before.equals(rating) for before in stored.values()):
        keep_ratings(store, [rating])
    return replace(round_, ratings=dict(round_.ratings) | {reply.run_id: rating}, unkept=None)


def rating_of(
    plan: Plan,
    rater: str,
    run_id: str,
    blob_id: str,
    scores: Mapping[str, float],
    reasons: str | None,
    source: Literal["desk", "file"] = "desk",
) -> Rating:
    """Return a rating by the rubric of the study."""
    rubric = plan.rubric
    key = (plan.study.name, rater, run_id, blob_id, rubric.name, rubric.digest)
    return Rating(*key, scores, reasons, source, scheme=rubric.scheme)


def _extended(
    order: Sequence[str], rateable: Iterable[tuple[PlannedRun, Reply]], seed: str, size: int | None
) -> tuple[str, ...]:
    """Return an order with missing replies at its end, shuffled and balanced, up to the size."""
    present, extended = set(order), list(order)
    cells: dict[tuple[Any, str], list[str]] = defaultdict(list)
    for run, reply in rateable:
        if reply.run_id not in present:
            cells[getattr(run.item.context, "level", None), run.model].append(reply.run_id)
    rng = random.Random(seed)
    for cell in cells.values():
        rng.shuffle(cell)
    for turn in zip_longest(*cells.values()):  # one of each cell
        members = [member for member in turn if member is not None]
        rng.shuffle(members)
        extended += members
    return tuple(extended[: None if size is None else max(size, len(order))])
