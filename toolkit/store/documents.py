"""The documents of the store: Prompt, Run and OutputBlob as seed 002 section 3.1 has them, Judgement and Call.

The field names of the first three are kept to the letter; what the toolkit adds stands below a comment.
Nothing outside ``toolkit.store`` handles these objects: plain frozen objects and frames travel between rooms.
`fault_of` checks a document from elsewhere before it is written. mongoengine's own check makes an object of each, which
takes several times as long, and lets pass what no store takes, such as a number of more than 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, ValuesView
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Final

import bson
import mongoengine as me

from toolkit.judges.rubric import LARGEST
from toolkit.models.base import DEFECTS
from toolkit.store.parts import PARTS
from toolkit.store.writer import utc_now
from toolkit.words import LENGTH_BINS

_COUNT: Final = {"min_value": 0, "max_value": 10**12}
"""Of tokens, repeats, attempts and milliseconds: sums of what is larger leave the 64 bits of a frame."""
_AUD: Final = {"min_value": 0, "max_value": 10**9}
_SCORE: Final = {"min_value": -LARGEST, "max_value": LARGEST}
_LARGEST: Final = 1 << 28  # bytes of a document; one of more than 16 MB is stored in parts
_Check = Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _number(low: float, high: float) -> _Check:
    return lambda value: value is None or (_is_number(value) and low <= value <= high)


def _kind(*kinds: type) -> _Check:
    return lambda value: isinstance(value, kinds)


def _each(check: _Check) -> _Check:
    def check_each(values: Any) -> bool:
        if isinstance(values, Mapping):
            values = values.values()
        return values is None or (isinstance(values, ValuesView | list) and all(map(check, values)))

    return check_each


def _fields(required: tuple[str, ...] = (), /, **checks: _Check) -> _Check:
    return lambda value: (
        isinstance(value, Mapping)
        and value.keys() >= {*required}
        and all(check(value[name]) for name, check in checks.items() if name in value)
    )


def _table(check: _Check, **options: Any) -> me.DictField:
    def validate(value: Any) -> None:
        if not check(value):
            raise me.ValidationError("is not what it must be")

    return me.DictField(validation=validate, check=check, **options)


_text, _score = _kind(str), _number(-LARGEST, LARGEST)
_scores = _each(_score)
_count, _aud = _number(0, _COUNT["max_value"]), _number(0, _AUD["max_value"])
_attempt = _fields(at=_kind(str, datetime), ms=_count, outcome=_text)
_judge_result = _fields(
    scores=_scores, expected=_scores, composite=_score, composite_strict=_score, zeros=_count,
    model=_text, call_id=_text, rubric=_text, rubric_hash=_text, reason=_kind(str, type(None)),
)  # fmt: skip
_evaluation = _fields(
    judge_results=_each(_judge_result),
    aggregated=_fields(
        mean_scores=_scores, median_scores=_scores, leave_one_out=_scores, judge_count=_count, judged=_kind(bool, int),
        confidence_intervals=_each(_scores),
    ),
)  # fmt: skip
_messages = _each(_fields(role=_text, content=_text))
_request = _fields(("messages",), messages=_messages, provider=_text, model=_text)


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
    token_count = me.IntField(required=True, **_COUNT)
    dataset_version = me.StringField(required=True)
    metadata = _table(_fields(base_scenario=_text))
    meta = _indexed(
        "prompts", ("prompt_id", "dataset_version"), ["dataset_version", "scenario", "length_bin"]
    )


class OutputBlob(_Created):
    """The text of a reply, stored once under the hash of its content."""

    blob_id = me.StringField(required=True, unique=True)
    content = me.StringField(required=True)
    metadata = _table(_fields(content_length=_count, fsp_sentences=_each(_text)))
    meta = {"collection": "output_blobs"}


class Tokens(me.EmbeddedDocument):
    """Tokens of one run."""

    input = me.IntField(required=True, **_COUNT)
    output = me.IntField(required=True, **_COUNT)
    total = me.IntField(required=True, **_COUNT)
    # added: whether these are our count rather than the provider's
    estimated = me.BooleanField(required=True, default=False)


class Economics(me.EmbeddedDocument):
    """What one run cost and how long its reply took."""

    aud_cost = me.FloatField(required=True, **_AUD)
    latency_ms = me.FloatField(required=True, **_COUNT)


class Run(_Changing):
    """A prompt, a model, a repeat, and the call that answered it."""

    run_id = me.StringField(required=True, unique=True, min_length=26, max_length=26)
    prompt_id = me.StringField(required=True)
    model = me.StringField(required=True)
    status = me.StringField(required=True, choices=("succeeded", "failed"))
    prompt_length_bin = me.StringField(choices=tuple(LENGTH_BINS))
    tokens = me.EmbeddedDocumentField(Tokens)
    economics = me.EmbeddedDocumentField(Economics)
    scores = _table(_scores)
    ensemble_evaluation = _table(_evaluation)
    output_blob_id = me.StringField()
    bias_controls = me.DictField()
    # added: which study and test asked, which call answered, and why it failed
    study = me.StringField(required=True)
    test = me.StringField(required=True)
    test_item = me.StringField(required=True)
    dataset_version = me.StringField(required=True)
    repeat = me.IntField(required=True, **_COUNT)
    call_id = me.StringField(required=True)
    finish_reason = me.StringField()
    attempts = me.IntField(**_COUNT)
    failure = me.StringField()
    # added: the effort that the model was asked with, and the part of the output that was its reasoning
    reasoning_effort = me.StringField()
    reasoning_tokens = me.IntField(**_COUNT)
    # added: what the judges of the evaluation were, when all have answered, and whether two or more count
    ensemble_key = me.StringField()
    judged = me.BooleanField()
    # added: the text that was judged, and the calls of the judges whose word counts
    judged_blob_id = me.StringField()
    judge_calls = _table(_each(_text))
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
    # all that were answered, that one first; not kept of judgements before
    call_ids = me.ListField(me.StringField())
    reason = me.StringField(null=True)  # why there is no score, or no vote
    reasons = me.StringField(null=True)  # the judge's own
    answered = me.BooleanField(required=True)
    aud_cost = me.FloatField(null=True, **_AUD)
    latency_ms = me.FloatField(null=True, **_COUNT)
    input_tokens = me.IntField(null=True, **_COUNT)
    output_tokens = me.IntField(null=True, **_COUNT)
    meta = {"abstract": True}


class _Judged(_Answered):
    run_id = me.StringField(required=True)
    rubric = me.StringField(required=True)
    scores = _table(_scores, null=True)
    composite = me.FloatField(null=True, **_SCORE)
    composite_strict = me.FloatField(null=True, **_SCORE)
    zeros = me.IntField(null=True, **_COUNT)
    failed = me.BooleanField(required=True)
    # how it was asked, and what came beside the scores; see toolkit.judges.judgement
    judge_repeat = me.IntField(required=True, default=0, **_COUNT)
    focus = me.StringField(required=True, choices=("off", "listed", "per_sentence"), default="off")
    reference = me.BooleanField()  # whether the judge saw the reference answer; absent where it did not
    related = me.BooleanField(required=True, default=False)
    repaired = me.BooleanField(required=True, default=False)
    expected = _table(_scores, null=True)
    expected_mass = _table(_each(_number(0, 1 + 1e-6)), null=True)
    detail = me.DictField(null=True)
    meta = {"abstract": True}


class Judgement(_Judged):
    """What one judge said of one run under one rubric; re-judging adds, it never overwrites another version."""

    meta = _indexed("judgements", ("run_id", "judge", "call_id"), ["study", "rubric_hash"])


class PairVote(_Answered):
    """The vote of one judge on two replies to one prompt, in the order in which they were shown."""

    prompt_id = me.StringField(required=True)
    repeat = me.IntField(required=True, **_COUNT)
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

    name = me.StringField(primary_key=True, min_length=64, max_length=64)
    study = me.StringField(required=True)
    at = me.DateTimeField(required=True)
    size = me.IntField(required=True, min_value=1, max_value=10**9)  # asked for; there may be fewer
    fingerprint = me.StringField(required=True, min_length=64, max_length=64)
    rubric_hash = me.StringField(required=True)
    # of each reply: its run, the hash of its text, and by role the call of the judgement that is asked anew
    replies = me.ListField(
        _table(_fields(("run_id", "blob_id", "calls"), run_id=_text, blob_id=_text, calls=_each(_text))),
        required=True,
    )
    meta = {"collection": "anchors", "indexes": ["study"]}


class Drift(_Judged):
    """What a judge said on a later day of a reply that it had judged; it is no judgement of the study."""

    anchor = me.StringField(required=True)
    day = me.StringField(required=True, min_length=10, max_length=10)  # UTC, as 2026-11-25
    meta = _indexed("drifts", ("run_id", "judge", "call_id", "anchor"), "study")


class Rubric(_Changing):
    """The whole content of a rubric under the hash that its judgements carry."""

    rubric_hash = me.StringField(primary_key=True, min_length=64, max_length=64)
    name = me.StringField(required=True)
    version = me.StringField(required=True)
    content = me.StringField(required=True)  # JSON, the text that is hashed
    meta = {"collection": "rubrics"}


class Call(_Changing):
    """One request to one model and its raw reply: claimed before it is sent, paid for once, kept for ever."""

    call_id = me.StringField(primary_key=True, min_length=64, max_length=64)
    state = me.StringField(required=True, choices=("claimed", "done", "failed"))
    owner = me.StringField(required=True)
    study = me.StringField(required=True)
    purpose = me.StringField(required=True)
    provider = me.StringField(required=True)
    model = me.StringField(required=True)
    request = _table(_request)
    worst_aud = me.FloatField(required=True, **_AUD)
    # of a claim: whether its request is being sent, and may be billed if its owner dies
    sent = me.BooleanField()
    text = me.StringField()
    finish_reason = me.StringField()
    answered_by = me.StringField()
    raw = me.StringField()
    input_tokens = me.IntField(**_COUNT)
    output_tokens = me.IntField(**_COUNT)
    tokens_estimated = me.BooleanField()
    cache_read_tokens = me.IntField(**_COUNT)  # parts of the input tokens
    cache_written_tokens = me.IntField(**_COUNT)
    reasoning_tokens = me.IntField(**_COUNT)  # part of the output tokens
    aud_cost = me.FloatField(**_AUD)
    aud_per_usd = me.FloatField(**_AUD)  # that it was booked with; calls that cost nothing have none
    latency_ms = me.FloatField(**_COUNT)
    attempts = me.ListField(_table(_attempt))
    unsure_aud = me.FloatField(**_AUD)  # attempts that broke after they were sent, at their worst
    inherited_aud = me.FloatField(**_AUD)  # the part of it from before this owner
    failure = _table(_fields(reason=_text, message=_text))
    seal = me.StringField()  # of a call that is done or failed; those from before have none
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
    since = me.FloatField(required=True, **_COUNT)
    lease_until = me.FloatField(required=True, **_COUNT)
    units = me.IntField()  # of 1e-9 AUD, spent or set aside
    meta = {"collection": "owners"}


class Batch(_Document):
    """Calls submitted together to a batch endpoint: written before they are sent, ended once all are kept."""

    name = me.StringField(primary_key=True, min_length=26, max_length=26)
    state = me.StringField(required=True, choices=("submitting", "submitted", "ended", "lost"))
    study = me.StringField(required=True)
    provider = me.StringField(required=True)
    model = me.StringField(required=True)
    endpoint = me.StringField(null=True)
    batch_id = me.StringField(null=True)  # the provider's, once it is known
    call_ids = me.ListField(me.StringField(), required=True)
    worst_aud = me.FloatField(**_AUD)  # of those of its calls that are not in the ledger yet
    created = me.FloatField(required=True, **_COUNT)  # seconds since 1970, UTC; see toolkit.store.writer
    updated_at = me.DateTimeField(required=True, default=utc_now)
    meta = {"collection": "batches", "indexes": [["study", "state"]]}


class Settlement(_Document):
    """Calls that may have been billed, accepted as billed or cleared by a person; only ever added."""

    name = me.StringField(primary_key=True, min_length=64, max_length=64)
    study = me.StringField(required=True)
    at = me.DateTimeField(required=True)
    billed = me.BooleanField(required=True)
    note = me.StringField(required=True)
    aud = me.FloatField(required=True, **_AUD)
    calls = me.ListField(_table(_fields(("call_id", "aud"), call_id=_text, aud=_aud)), required=True)
    meta = {"collection": "settlements"}


class Decision(_Document):
    """What a study decided, as it was at one time; only ever added."""

    name = me.StringField(primary_key=True, min_length=64, max_length=64)
    study = me.StringField(required=True)
    at = me.DateTimeField(required=True)
    replied = me.BooleanField(required=True)  # whether the study had a reply by then
    content = me.StringField(required=True)  # JSON, names to text: names have dots, which no key may have
    meta = {"collection": "decisions"}


class HumanRating(_Created):
    """One version of what one rater said of one reply under one rubric."""

    rating_id = me.StringField(primary_key=True, min_length=64, max_length=64)
    study = me.StringField(required=True)
    rater = me.StringField(required=True)
    run_id = me.StringField(required=True)
    blob_id = me.StringField(required=True)  # the text that was rated: of another text nothing is known
    rubric = me.StringField(required=True)
    rubric_hash = me.StringField(required=True)
    version = me.IntField(required=True, min_value=1, max_value=10**9)
    scores = _table(_scores)
    reasons = me.StringField(null=True)
    source = me.StringField(required=True, choices=("desk", "file"))
    seal = me.StringField()
    meta = {"collection": "human_ratings", "indexes": ["run_id"]}


class RatingRound(_Created):
    """The order in which one rater sees the replies of a study; it only ever grows at its end."""

    round_id = me.StringField(primary_key=True, min_length=64, max_length=64)
    study = me.StringField(required=True)
    rater = me.StringField(required=True)
    rubric_hash = me.StringField(required=True)
    seed = me.IntField(required=True, min_value=-(2**63), max_value=2**63 - 1)
    size = me.IntField(null=True, min_value=1, max_value=10**9)
    run_ids = me.ListField(me.StringField())
    meta = {"collection": "rating_rounds"}


DOCUMENTS = (
    *(Prompt, OutputBlob, Run, Judgement, Rubric, Call),
    *(Owner, Batch, Settlement, Decision, HumanRating, RatingRound),
    *(Anchor, Drift, PairVote),
)


def fault_of(kind: Any, document: Mapping[str, Any]) -> str | None:
    """Return why a document is none of its class, ``None`` where it is one; a field of a later version is kept."""
    if name := _wrong_field(kind, document):
        return f"{name} is missing, or not what it must be"
    if PARTS in document or not _is_plain(document) or len(bson.encode(document)) > _LARGEST:
        return "it holds what no store keeps"
    return None


def _wrong_field(kind: Any, document: Mapping[str, Any]) -> str | None:
    for name, (needed, nullable, check) in _checks(kind).items():
        value = document.get(name)
        if (needed or (name in document and not nullable)) if value is None else not check(value):
            return name
    return None


@cache
def _checks(kind: Any) -> dict[str, tuple[bool, bool, _Check]]:
    """Return for each field, by its name in the store, whether it must be there, may be null, and what it must pass."""
    return {
        kind._db_field_map[name]: (
            bool(field.required and field.default is None),
            # Records write null for a text that there is not.
            bool(field.null or (isinstance(field, me.StringField) and not field.required)),
            _check_of(field),
        )
        for name, field in kind._fields.items()
        if not isinstance(field, me.ObjectIdField)  # the store's own key is not of an archive
    }


def _check_of(field: Any) -> _Check:
    match field:
        case me.EmbeddedDocumentField():
            return lambda value: isinstance(value, dict) and _wrong_field(field.document_type, value) is None
        case me.DictField():
            check = getattr(field, "check", _kind(dict))
            return lambda value: isinstance(value, dict) and check(value)
        case me.ListField():
            inner = _check_of(field.field)
            return lambda value: isinstance(value, list) and all(map(inner, value))
        case me.StringField():
            low, high = field.min_length or 0, field.max_length or _LARGEST
            allowed = field.choices
            return lambda value: (
                isinstance(value, str) and low <= len(value) <= high and (not allowed or value in allowed)
            )
        case me.BooleanField():
            # Older stores have 0 and 1 where an update set a truth value.
            return lambda value: value in (0, 1) and isinstance(value, int | float)
        case me.DateTimeField():
            return _kind(datetime)
    least = -math.inf if field.min_value is None else field.min_value
    most = math.inf if field.max_value is None else field.max_value
    kinds = int if isinstance(field, me.IntField) else int | float
    return lambda value: _is_number(value) and least <= value <= most and isinstance(value, kinds)


def _is_plain(value: Any) -> bool:
    """Return whether a value is of JSON's kinds or a moment, and no name in it one that means something to a store."""
    if isinstance(value, Mapping):
        names = all(name and "\0" not in name and name[0] != "$" for name in value)
        return names and all(map(_is_plain, value.values()))
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | str | datetime) or _is_number(value)
