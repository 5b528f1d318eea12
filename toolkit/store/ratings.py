"""Store the ratings of replies by people: every version is kept, and none is overwritten.

A rating cannot be made again from the ledger, so it is flushed to the disk like a paid reply. The judgement of the
human judge (an annotation of the kind ``judgement``) follows from the newest version.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

from pymongo import InsertOne, UpdateOne

from toolkit.files.digests import digest
from toolkit.judges.judgement import Judgement, with_scores
from toolkit.plan import Plan
from toolkit.scoring import SEED_SCHEME, Scheme
from toolkit.store.connection import Store
from toolkit.store.documents import HumanRating, RatingRound, Run
from toolkit.store.records import annotation_record, judgements_of, stored_runs
from toolkit.store.writer import Duplicate, Operation, sealed, utc_now

HUMAN = "human"  # model of a human judge; its judge is this word, a colon and the rater
UNFINISHED = "unfinished"


@dataclass(frozen=True)
class Rating:
    """The scores that one rater gave one reply."""

    study: str
    rater: str
    run_id: str
    blob_id: str
    rubric: str
    rubric_hash: str
    scores: Mapping[str, float]
    reasons: str | None = None
    source: Literal["desk", "file"] = "desk"
    version: int = 0
    created_at: datetime | None = None
    scheme: Scheme = field(default=SEED_SCHEME, repr=False, compare=False)

    @property
    def judge(self) -> str:
        """Name of the human judge."""
        return f"{HUMAN}:{self.rater}"

    @property
    def finished(self) -> bool:
        """Whether every dimension that needs one has a score; of an unfinished rating none counts."""
        return self.scores.keys() >= self.scheme.needed

    def equals(self, rating: Rating) -> bool:
        """Return whether another rating gives the same scores and reasons to the same text."""
        content = (self.blob_id, dict(self.scores), self.reasons)
        return content == (rating.blob_id, dict(rating.scores), rating.reasons)

    def judgement(self) -> Judgement:
        """Return the rating as the judgement of a human judge; an unfinished one failed, with its reason."""
        judgement = Judgement(
            judge=self.judge,
            model=HUMAN,
            rubric=self.rubric,
            rubric_digest=self.rubric_hash,
            reasons=self.reasons,
            call_id=f"{HUMAN}:{digest(self.rater, self.run_id, self.rubric_hash)}",
        )
        if self.finished:
            return with_scores(judgement, self.scores, self.scheme)
        scored = f"{len(self.scores)} of {len(self.scheme.names)} dimensions scored"
        return replace(judgement, reason=f"{UNFINISHED}: {scored}")


_STORED = tuple(field.name for field in fields(Rating) if field.name != "scheme")


def all_ratings(store: Store, run_ids: Iterable[str], rubric_hash: str) -> list[Rating]:
    """Return every version of every rating of some runs under one rubric, the oldest of each first."""
    scheme = store.scheme_of(rubric_hash)
    ratings = []
    for document in store.find_by(HumanRating, "run_id", run_ids):
        if document["rubric_hash"] == rubric_hash:
            content = {"scores": {}} | {name: document[name] for name in _STORED if name in document}
            ratings.append(Rating(**content, scheme=scheme))
    return sorted(ratings, key=lambda rating: (rating.rater, rating.run_id, rating.version))


def newest_ratings(
    store: Store, blobs: Mapping[str, str], rubric_hash: str, rater: str | None = None
) -> dict[tuple[str, str], Rating]:
    """Return the newest rating of each rater and run, of those that are about the text the run has now."""
    newest = {
        (rating.rater, rating.run_id): rating
        for rating in all_ratings(store, blobs, rubric_hash)
        if rating.blob_id == blobs[rating.run_id] and rater in (None, rating.rater)
    }
    # One that was thrown away, with its round, has neither scores nor reasons.
    return {key: rating for key, rating in newest.items() if rating.scores or rating.reasons}


def keep_ratings(store: Store, ratings: Sequence[Rating]) -> None:
    """Save a new version of each rating on the disk, and then the judgements that follow from them."""
    unsaved = list(ratings)
    while unsaved:
        versions: Counter[tuple[str, str, str]] = Counter()
        for stored in store.find_by(HumanRating, "run_id", (rating.run_id for rating in unsaved)):
            key = (stored["rater"], stored["run_id"], stored["rubric_hash"])
            versions[key] = max(versions[key], stored["version"])
        numbered = [
            _document(rating, versions[rating.rater, rating.run_id, rating.rubric_hash] + 1)
            for rating in unsaved
        ]
        writes = [store.writer.submit("human_ratings", InsertOne(entry), flush=True) for entry in numbered]
        ended = [write.exception() for write in writes]
        for failure in ended:
            if failure and not isinstance(failure, Duplicate):
                raise failure
        # The same rater saved this version in another notebook meanwhile: this one gets the next number.
        unsaved = [rating for rating, failure in zip(unsaved, ended, strict=True) if failure]
    keep_judgements(store, ratings)


def keep_judgements(store: Store, ratings: Iterable[Rating]) -> None:
    """Make the judgements of human judges from their newest ratings, where the store has others."""
    records = [annotation_record(rating.run_id, rating.study, rating.judgement()) for rating in ratings]
    ids = (record.key["run_id"] for record in records)
    key = itemgetter("run_id", "judge", "call_id")
    stored = {key(judgement): judgement for judgement in judgements_of(store, ids)}
    for record in records:
        judgement = stored.get(key(record.key))
        if judgement is None or record.changes(judgement):
            store.writer.post(record, judgement)
    store.writer.settle()


def _document(rating: Rating, version: int) -> dict[str, Any]:
    rating_id = digest(rating.rater, rating.run_id, rating.rubric_hash, str(version))
    content = {name: getattr(rating, name) for name in _STORED}
    content |= {"scores": dict(rating.scores), "version": version, "created_at": utc_now()}
    document = HumanRating(rating_id=rating_id, **content)
    document.validate()
    return sealed(document.to_mongo().to_dict())


def known_raters(store: Store, study: str) -> tuple[str, ...]:
    """Return the names of all who rated in a study or opened a round of it, sorted."""
    names = (store.objects(kind).filter(study=study).distinct("rater") for kind in (HumanRating, RatingRound))
    return tuple(sorted({*chain.from_iterable(names)}))


def running_rounds(plan: Plan, store: Store) -> dict[str, tuple[str, ...]]:
    """Return the raters whose rounds hold a reply, by run id; a round runs until all its replies have all scores."""
    study, rubric_hash = plan.study.name, plan.rubric.digest
    rounds = list(store.objects(RatingRound).filter(study=study, rubric_hash=rubric_hash))
    if not rounds:
        return {}
    # Read the runs of the rounds alone: a round is small, and a study may be large.
    run_ids = (run_id for entry in rounds for run_id in entry.run_ids)
    named = {run["call_id"] for run in store.find_by(Run, "run_id", run_ids, only=("call_id",))}
    stored = stored_runs(store, study, [call_id for call_id in plan.call_ids if call_id in named]).values()
    blobs = {run.run_id: run.blob_id for run in stored if run.blob_id and not (run.failure or run.excluded)}
    ratings = newest_ratings(store, blobs, rubric_hash).values()
    finished = {(rating.rater, rating.run_id) for rating in ratings if rating.finished}
    raters: dict[str, set[str]] = defaultdict(set)
    for round_ in rounds:
        ids = [run_id for run_id in round_.run_ids if run_id in blobs]
        if any((round_.rater, run_id) not in finished for run_id in ids):
            for run_id in ids:
                raters[run_id].add(round_.rater)
    return {run_id: tuple(sorted(names)) for run_id, names in raters.items()}


def stored_order(
    store: Store, study: str, rater: str, rubric_hash: str, seed: int
) -> tuple[tuple[str, ...], int | None] | None:
    """Return the order of a round and its size, ``None`` when the rater began none or threw it away."""
    stored = store.objects(RatingRound).filter(round_id=digest(study, rater, rubric_hash, str(seed))).first()
    return (tuple(dict.fromkeys(stored.run_ids)), stored.size) if stored and stored.run_ids else None


def keep_order(
    store: Store,
    study: str,
    rater: str,
    rubric_hash: str,
    seed: int,
    size: int | None,
    run_ids: Sequence[str],
) -> None:
    """Keep the order of a new round, or put what is new at the end of one that is there."""
    round_id = digest(study, rater, rubric_hash, str(seed))
    fields = {"study": study, "rater": rater, "rubric_hash": rubric_hash, "seed": seed, "size": size}
    document = RatingRound(round_id=round_id, run_ids=list(run_ids), **fields)
    document.validate()
    try:
        _write_round(store, InsertOne(document.to_mongo().to_dict()))
    except Duplicate:
        # Not $addToSet, which promises no order. What two notebooks add at once is stored twice and read once.
        order = stored_order(store, study, rater, rubric_hash, seed) or ((), None)
        further = [run_id for run_id in run_ids if run_id not in order[0]]
        change = {"$push": {"run_ids": {"$each": further}}, "$set": {"size": size}}
        _write_round(store, UpdateOne({"_id": round_id}, change))


def end_order(
    store: Store, study: str, rater: str, rubric_hash: str, seed: int, run_ids: Sequence[str]
) -> None:
    """Have a round hold these runs and no more."""
    round_id = digest(study, rater, rubric_hash, str(seed))
    change = {"$set": {"run_ids": list(run_ids), "size": len(run_ids)}}
    _write_round(store, UpdateOne({"_id": round_id}, change))


def _write_round(store: Store, operation: Operation) -> None:
    store.writer.submit("rating_rounds", operation, flush=True).result()
