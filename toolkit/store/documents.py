"""The documents of the store: Prompt, Run and OutputBlob as seed 002 section 3.1 has them, Judgement and Call.

The field names of the first three are kept to the letter; what the toolkit adds stands below a comment.
Nothing outside ``toolkit.store`` handles these objects: plain frozen objects and frames travel between rooms.
"""

from __future__ import annotations

from typing import Any, ClassVar

import mongoengine as me

from toolkit.models.base import DEFECTS
from toolkit.store.writer import utc_now
from toolkit.words import LENGTH_BINS


def _indexed(collection: str, unique: tuple[str, ...], *others: Any) -> dict[str, Any]:
    return {"collection": collection, "indexes": [{"fields": [*unique], "unique": True}, *others]}


class _Document(me.Document):
    meta: ClassVar[dict[str, Any]] = {"abstract": True, "auto_create_index": False}


class _Created(_Document):
    created_at = me.DateTimeField(required=True, default=utc_now)
    meta = {"abstract": True}


class _Changing(_Created):
    updated_at = me.DateTimeField(required=True, default=utc_now)
    meta = {"abstract": True}


class Prompt(_Changing):
    """One text of a base at one length bin; belongs to a dataset version."""

    prompt_id = me.StringField(required=True)
    text = me.StringField(required=True)
    # the next three are there for every prompt of the rubric study; other tests know no such thing
    scenario = me.StringField()
    category = me.StringField()
    length_bin = me.StringField(choices=tuple(LENGTH_BINS))
    token_count = me.IntField(required=True)
    dataset_version = me.StringField(required=True)
    metadata = me.DictField()
    meta = _indexed(
        "prompts", ("prompt_id", "dataset_version"), ["dataset_version", "scenario", "length_bin"]
    )


class OutputBlob(_Created):
    """The text of a reply, stored once under the hash of its content."""

    blob_id = me.StringField(required=True, unique=True)
    content = me.StringField(required=True)
    metadata = me.DictField()
    meta = {"collection": "output_blobs"}


class Tokens(me.EmbeddedDocument):
    """Tokens of one run."""

    input = me.IntField(required=True)
    output = me.IntField(required=True)
    total = me.IntField(required=True)
    # added: whether these are our count rather than the provider's
    estimated = me.BooleanField(required=True, default=False)


class Economics(me.EmbeddedDocument):
    """What one run cost and how long its reply took."""

    aud_cost = me.FloatField(required=True)
    latency_ms = me.FloatField(required=True)


class Run(_Changing):
    """A prompt, a model, a repeat, and the call that answered it."""

    run_id = me.StringField(required=True, unique=True)
    prompt_id = me.StringField(required=True)
    model = me.StringField(required=True)
    status = me.StringField(required=True, choices=("succeeded", "failed"))
    prompt_length_bin = me.StringField(choices=tuple(LENGTH_BINS))
    tokens = me.EmbeddedDocumentField(Tokens)
    economics = me.EmbeddedDocumentField(Economics)
    scores = me.DictField()
    ensemble_evaluation = me.DictField()
    output_blob_id = me.StringField()
    bias_controls = me.DictField()
    # added: which study and test asked, which call answered, and why it failed
    study = me.StringField(required=True)
    test = me.StringField(required=True)
    test_item = me.StringField(required=True)
    dataset_version = me.StringField(required=True)
    repeat = me.IntField(required=True)
    call_id = me.StringField(required=True)
    finish_reason = me.StringField()
    attempts = me.IntField()
    failure = me.StringField()
    # added: the effort that the model was asked with, and the part of the output that was its reasoning
    reasoning_effort = me.StringField()
    reasoning_tokens = me.IntField()
    # added: what the judges of the evaluation were, when all have answered, and whether two or more count
    ensemble_key = me.StringField()
    judged = me.BooleanField()
    # added: the text that was judged, and the calls of the judges whose word counts
    judged_blob_id = me.StringField()
    judge_calls = me.DictField()
    # added: what keeps a reply from being whole, and what the study says of such a reply
    defect = me.StringField(choices=tuple(DEFECTS))
    reply_policy = me.StringField(choices=("keep", "retry", "exclude"))
    meta = _indexed("runs", ("study", "test", "prompt_id", "model", "repeat", "call_id"), "call_id")


class _Answered(_Changing):
    study = me.StringField(required=True)
    judge = me.StringField(required=True)
    model = me.StringField(required=True)
    rubric_hash = me.StringField(required=True)
    call_id = me.StringField(required=True)
    # all that were answered, that one first
    call_ids = me.ListField(me.StringField())
    reason = me.StringField(null=True)  # why there is no score, or no vote
    reasons = me.StringField(null=True)  # the judge's own
    answered = me.BooleanField(required=True)
    aud_cost = me.FloatField(null=True)
    latency_ms = me.FloatField(null=True)
    input_tokens = me.IntField(null=True)
    output_tokens = me.IntField(null=True)
    meta = {"abstract": True}


class _Judged(_Answered):
    run_id = me.StringField(required=True)
    rubric = me.StringField(required=True)
    scores = me.DictField(null=True)
    composite = me.FloatField(null=True)
    composite_strict = me.FloatField(null=True)
    zeros = me.IntField(null=True)
    failed = me.BooleanField(required=True)
    # how it was asked, and what came beside the scores; see toolkit.judges.judgement
    judge_repeat = me.IntField(required=True, default=0)
    focus = me.StringField(required=True, choices=("off", "listed", "per_sentence"), default="off")
    reference = me.BooleanField()  # whether the judge saw the reference answer; absent where it did not
    related = me.BooleanField(required=True, default=False)
    repaired = me.BooleanField(required=True, default=False)
    expected = me.DictField(null=True)
    expected_mass = me.DictField(null=True)
    detail = me.DictField(null=True)
    meta = {"abstract": True}


class Judgement(_Judged):
    """What one judge said of one run under one rubric; re-judging adds, it never overwrites another version."""

    meta = _indexed("judgements", ("run_id", "judge", "call_id"), ["study", "rubric_hash"])


class PairVote(_Answered):
    """The vote of one judge on two replies to one prompt, in the order in which they were shown."""

    prompt_id = me.StringField(required=True)
    repeat = me.IntField(required=True)
    first_run_id = me.StringField(required=True)
    second_run_id = me.StringField(required=True)
    # the texts that were shown: of others nothing is known
    first_blob_id = me.StringField(required=True)
    second_blob_id = me.StringField(required=True)
    # whether the model named later in the study file was shown first
    swapped = me.BooleanField(required=True)
    vote_key = me.StringField(required=True)
    vote = me.StringField(choices=("first", "second", "tie"))
    related = me.BooleanField(required=True)
    repaired = me.BooleanField(required=True)
    meta = _indexed("pair_votes", ("first_run_id", "second_run_id", "judge", "call_id"), "study")


class Anchor(_Document):
    """Judgements that are asked anew on later days, as they were drawn first; only ever added."""

    name = me.StringField(primary_key=True)
    study = me.StringField(required=True)
    at = me.DateTimeField(required=True)
    size = me.IntField(required=True)  # asked for; there may be fewer
    fingerprint = me.StringField(required=True)
    rubric_hash = me.StringField(required=True)
    # of each reply: its run, the hash of its text, and by role the call of the judgement that is asked anew
    replies = me.ListField(me.DictField(), required=True)
    meta = {"collection": "anchors", "indexes": ["study"]}


class Drift(_Judged):
    """What a judge said on a later day of a reply that it had judged; it is no judgement of the study."""

    anchor = me.StringField(required=True)
    day = me.StringField(required=True)  # UTC, as 2026-11-25
    meta = _indexed("drifts", ("run_id", "judge", "call_id", "anchor"), "study")


class Rubric(_Changing):
    """The whole content of a rubric under the hash that its judgements carry."""

    rubric_hash = me.StringField(primary_key=True)
    name = me.StringField(required=True)
    version = me.StringField(required=True)
    content = me.StringField(required=True)  # JSON, the text that is hashed
    meta = {"collection": "rubrics"}


class Call(_Changing):
    """One request to one model and its raw reply: claimed before it is sent, paid for once, kept for ever."""

    call_id = me.StringField(primary_key=True)
    state = me.StringField(required=True, choices=("claimed", "done", "failed"))
    owner = me.StringField(required=True)
    study = me.StringField(required=True)
    purpose = me.StringField(required=True)
    provider = me.StringField(required=True)
    model = me.StringField(required=True)
    request = me.DictField()
    worst_aud = me.FloatField(required=True)
    # of a claim: whether its request is being sent, and may be billed if its owner dies
    sent = me.BooleanField()
    text = me.StringField()
    finish_reason = me.StringField()
    answered_by = me.StringField()
    raw = me.StringField()
    input_tokens = me.IntField()
    output_tokens = me.IntField()
    tokens_estimated = me.BooleanField()
    cache_read_tokens = me.IntField()  # parts of the input tokens
    cache_written_tokens = me.IntField()
    reasoning_tokens = me.IntField()  # part of the output tokens
    aud_cost = me.FloatField()
    aud_per_usd = me.FloatField()  # that it was booked with; calls that cost nothing have none
    latency_ms = me.FloatField()
    attempts = me.ListField(me.DictField())
    unsure_aud = me.FloatField()  # attempts that broke after they were sent, at their worst
    inherited_aud = me.FloatField()  # the part of it from before this owner
    failure = me.DictField()
    seal = me.StringField()  # of a call that is done or failed
    meta = {"collection": "calls", "indexes": [["study", "state"]]}


class Owner(_Document):
    """The process that runs a study, alive as long as its lease is; and what the study has spent of its budget."""

    study = me.StringField(primary_key=True)
    name = me.StringField(required=True)  # that its claims carry
    host = me.StringField(required=True)
    boot = me.StringField(required=True)
    pid = me.IntField(required=True)
    birth = me.StringField(required=True)
    # seconds since 1970, UTC; see toolkit.store.writer
    since = me.FloatField(required=True)
    lease_until = me.FloatField(required=True)
    units = me.IntField()  # of 1e-9 AUD, spent or set aside
    meta = {"collection": "owners"}


class Batch(_Document):
    """Calls submitted together to a batch endpoint: written before they are sent, ended once all are kept."""

    name = me.StringField(primary_key=True)
    state = me.StringField(required=True, choices=("submitting", "submitted", "ended", "lost"))
    study = me.StringField(required=True)
    provider = me.StringField(required=True)
    model = me.StringField(required=True)
    endpoint = me.StringField(null=True)
    batch_id = me.StringField(null=True)  # the provider's, once it is known
    call_ids = me.ListField(me.StringField(), required=True)
    worst_aud = me.FloatField()  # of those of its calls that are not in the ledger yet
    created = me.FloatField(required=True)  # seconds since 1970, UTC; see toolkit.store.writer
    updated_at = me.DateTimeField(required=True, default=utc_now)
    meta = {"collection": "batches", "indexes": [["study", "state"]]}


class Settlement(_Document):
    """Calls that may have been billed, accepted as billed or cleared by a person; only ever added."""

    name = me.StringField(primary_key=True)
    study = me.StringField(required=True)
    at = me.DateTimeField(required=True)
    billed = me.BooleanField(required=True)
    note = me.StringField(required=True)
    aud = me.FloatField(required=True)
    calls = me.ListField(me.DictField(), required=True)
    meta = {"collection": "settlements"}


class Decision(_Document):
    """What a study decided, as it was at one time; only ever added."""

    name = me.StringField(primary_key=True)
    study = me.StringField(required=True)
    at = me.DateTimeField(required=True)
    replied = me.BooleanField(required=True)  # whether the study had a reply by then
    content = me.StringField(required=True)  # JSON, names to text: names have dots, which no key may have
    meta = {"collection": "decisions"}


class HumanRating(_Created):
    """One version of what one rater said of one reply under one rubric."""

    rating_id = me.StringField(primary_key=True)
    study = me.StringField(required=True)
    rater = me.StringField(required=True)
    run_id = me.StringField(required=True)
    blob_id = me.StringField(required=True)  # the text that was rated: of another text nothing is known
    rubric = me.StringField(required=True)
    rubric_hash = me.StringField(required=True)
    version = me.IntField(required=True)
    scores = me.DictField()
    reasons = me.StringField(null=True)
    source = me.StringField(required=True, choices=("desk", "file"))
    seal = me.StringField()
    meta = {"collection": "human_ratings", "indexes": ["run_id"]}


class RatingRound(_Created):
    """The order in which one rater sees the replies of a study; it only ever grows at its end."""

    round_id = me.StringField(primary_key=True)
    study = me.StringField(required=True)
    rater = me.StringField(required=True)
    rubric_hash = me.StringField(required=True)
    seed = me.IntField(required=True)
    size = me.IntField(null=True)
    run_ids = me.ListField(me.StringField())
    meta = {"collection": "rating_rounds"}


DOCUMENTS = (
    Prompt, OutputBlob, Run, Judgement, Rubric, Call, Owner, Batch, Settlement, Decision, HumanRating,
    RatingRound, Anchor, Drift, PairVote,
)  # fmt: skip
