"""Rounds of ratings: the order in which one rater sees the replies of a study, which only ever grows at its end."""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import InsertOne, UpdateOne

from toolkit.store.connection import Store
from toolkit.store.rating_documents import RATING_DOCUMENTS, RatingRound
from toolkit.store.ratings import digest
from toolkit.store.writer import Duplicate


def known_raters(store: Store, study: str) -> tuple[str, ...]:
    """Return the names of all who rated in a study or opened a round of it, sorted."""
    names = {
        name
        for kind in RATING_DOCUMENTS
        for name in store.objects(kind).filter(study=study).distinct("rater")
    }
    return tuple(sorted(names))


def stored_order(
    store: Store, study: str, rater: str, rubric_hash: str, seed: int
) -> tuple[tuple[str, ...], int | None] | None:
    """Return the order of a round and its size, ``None`` when the rater never opened it."""
    found = store.objects(RatingRound).filter(round_id=digest(study, rater, rubric_hash, str(seed))).first()
    return None if found is None else (tuple(dict.fromkeys(found.run_ids)), found.size)


async def keep_order(
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
        await store.writer.write("rating_rounds", InsertOne(document.to_mongo().to_dict()), flush=True)
    except Duplicate:
        change = {"$addToSet": {"run_ids": {"$each": list(run_ids)}}, "$set": {"size": size}}
        await store.writer.write("rating_rounds", UpdateOne({"_id": round_id}, change), flush=True)
