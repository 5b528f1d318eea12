"""The documents of the store: Prompt, Run and OutputBlob as seed 002 section 3.1 has them, Annotation and Call.

The field names of the first three are kept to the letter; what the toolkit adds stands below a comment.
Nothing else in the toolkit handles these objects: plain frozen objects and frames travel between rooms. A notebook
reads JSON documents of a study with the first three.
"""

from functools import partial
from importlib.resources import files
from typing import Any, ClassVar, Self

from bson import ObjectId, errors, json_util
from mongoengine import (
    BooleanField,
    DateTimeField,
    DictField,
    Document,
    EmbeddedDocument,
    EmbeddedDocumentField,
    FloatField,
    IntField,
    ListField,
    StringField,
    ValidationError,
)
from mongoengine.errors import MongoEngineException

from toolkit.errors import InputError
from toolkit.files.reading import read_toml
from toolkit.models.base import DEFECTS
from toolkit.scoring import number_or_missing
from toolkit.store.writer import utc_now
from toolkit.words import LENGTH_BINS

JUDGEMENT = "judgement"
"""Kind of the annotations that score a reply by the rubric of the study, whether a judge or a person gave them."""
TABLES = read_toml(files("toolkit.store") / "fields.toml")
"""Lists of fields, and the keys of all documents that are records of a study."""
FIELDS = TABLES["fields"]
Kind = type[Document]
"""A class of documents."""
_text = partial(StringField, required=True)
_count = partial(IntField, required=True)
_number = partial(FloatField, required=True)
_truth = partial(BooleanField, required=True)
_moment = partial(DateTimeField, required=True)


def _indexed(collection: str, unique: tuple[str, ...], *others: Any) -> dict[str, Any]:
    return {"collection": collection, "indexes": [{"fields": [*unique], "unique": True}, *others]}


class _Document(Document):
    meta: ClassVar[dict[str, Any]] = {"abstract": True, "auto_create_index": False}

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the document that stands in a JSON text, with the types of its fields checked.

        Parameters
        ----------
        text
            One JSON object as seed 002, section 3.1, prints it, or as MongoDB exports it: times are texts such as
            ``"2025-01-07T10:30:00Z"`` or ``{"$date": ...}``. An ``_id`` that is no ObjectId, such as the ``"..."`` of a
            printed document, is left out: ``prompt_id``, ``run_id`` and ``blob_id`` name a document.

        Returns
        -------
        Prompt, Run or OutputBlob
            With the fields of the text by the same names; it is in no store.

        Raises
        ------
        InputError
            When the text is no JSON object, or fields are unknown, missing, or of another type: one line names them.

        Notes
        -----
        ``to_mongo()`` of the document is what pymongo inserts, and ``study.store.objects(Run)`` gives those of a study.
        Within tables such as ``scores`` no types are checked. Fields that the toolkit adds, such as ``study`` and
        ``repeat``, may be absent.

        Examples
        --------
        >>> OutputBlob.from_json('{"blob_id": "a1b2c3", "content": "Isolate the host.", "metadata": {}}').content
        'Isolate the host.'
        """
        try:
            fields = {**json_util.loads(text, json_options=json_util.JSONOptions(tz_aware=True))}
            if not ObjectId.is_valid(fields.get("_id")):
                fields.pop("_id", None)
            document = cls._from_son(fields)
            document.validate()
        except (ValueError, TypeError, errors.BSONError, MongoEngineException, ValidationError) as error:
            message = error.to_dict() if isinstance(error, ValidationError) else error
            raise InputError(f"{cls.__name__}: {' '.join(str(message).split())}; correct it") from None
        return cls._from_son(document.to_mongo())  # where a time that was a text is one


class _Created(_Document):
    created_at = _moment(default=utc_now)
    meta = {"abstract": True}


class _Changing(_Created):
    updated_at = _moment(default=utc_now)
    meta = {"abstract": True}


class Prompt(_Changing):
    """One text of a base at one length bin; belongs to a dataset version.

    ``Prompt("...")`` is enough for a test of your own; `from_json` reads the document of a study.

    Examples
    --------
    >>> Prompt("Alice works in a hospital. She is a ").text
    'Alice works in a hospital. She is a '
    """

    prompt_id = _text()
    text = _text()
    # the next three are there for every prompt of the rubric study; other tests know no such thing
    scenario = StringField()
    category = StringField()
    length_bin = StringField(choices=tuple(LENGTH_BINS))
    level = StringField()  # added: of another factor than prompt length
    token_count = _count()
    dataset_version = _text()
    metadata = DictField()
    meta = _indexed(
        "prompts", ("prompt_id", "dataset_version"), ["dataset_version", "scenario", "length_bin"]
    )

    def __init__(self, text: str | None = None, **values: Any) -> None:
        super().__init__(text=text, **values)


class OutputBlob(_Created):
    """The text of a reply, stored once under the hash of its content.

    Examples
    --------
    >>> OutputBlob(blob_id="a1b2c3", content="Isolate the host.").content
    'Isolate the host.'
    """

    blob_id = _text(unique=True)
    content = _text()
    metadata = DictField()
    meta = {"collection": "output_blobs"}


class Tokens(EmbeddedDocument):
    """Tokens of one run."""

    input = _count()
    output = _count()
    total = _count()
    # added: whether these are our count rather than the provider's
    estimated = _truth(default=False)


class Economics(EmbeddedDocument):
    """What one run cost and how long its reply took."""

    aud_cost = _number()
    latency_ms = _number()


class Run(_Changing):
    """A prompt, a model, a repeat, and the call that answered it.

    Examples
    --------
    >>> run = Run.from_json('{"run_id": "01HZ", "prompt_id": "soc_001_s", "model": "gpt-4o", "status": "succeeded"}')
    >>> run.model, run.status
    ('gpt-4o', 'succeeded')
    """

    run_id = _text(unique=True)
    prompt_id = _text()
    model = _text()
    status = _text(choices=("succeeded", "failed"))
    prompt_length_bin = StringField(choices=tuple(LENGTH_BINS))
    level = StringField()  # added: of another factor than prompt length
    tokens = EmbeddedDocumentField(Tokens)
    economics = EmbeddedDocumentField(Economics)
    scores = DictField()
    ensemble_evaluation = DictField()
    output_blob_id = StringField()
    bias_controls = DictField()
    # added: which study and test asked, which call answered, and why it failed; a document of the seed has none of them
    study = StringField()
    test = StringField()
    test_item = StringField()
    dataset_version = StringField()
    repeat = IntField()
    call_id = StringField()
    finish_reason = StringField()
    attempts = IntField()
    failure = StringField()
    # added: the effort that the model was asked with, and the part of the output that was its reasoning
    reasoning_effort = StringField()
    reasoning_tokens = IntField()
    # added: what the judges of the evaluation were, when all have answered, and whether two or more count
    ensemble_key = StringField()
    judged = BooleanField()
    # added: the text that was judged, and the calls of the judges whose word counts
    judged_blob_id = StringField()
    judge_calls = DictField()
    # added: what keeps a reply from being whole, and what the study says of such a reply
    defect = StringField(choices=tuple(DEFECTS))
    reply_policy = StringField(choices=("keep", "retry", "exclude"))
    meta = _indexed("runs", ("study", "test", "prompt_id", "model", "repeat", "call_id"), "call_id")

    def clean(self) -> None:
        """Check that scores are numbers; null is a missing one."""
        for name, score in self.scores.items():
            number_or_missing(score, f"Run, scores, {name}")


class Annotation(_Changing):
    """What an annotator said of the reply to a run, or of several, with the calls it rests on, or why there is nothing.

    Judging anew under another version adds one and overwrites none.
    """

    kind = _text(default=JUDGEMENT)  # the stage that asked for it
    study = _text()
    run_id = _text()
    # what names it besides: the second run of a pair, or the anchor set of a judgement that is asked anew
    context = _text()
    day = StringField()  # UTC, as 2026-11-25, of a judgement that is asked anew
    # the runs and texts that were shown, in their order: of other texts nothing is known
    shown = ListField(DictField())
    # what it depends on besides the texts: another judge, wording or setting is another question
    question = StringField()
    judge = _text()
    model = _text()
    rubric = _text()
    rubric_hash = _text()
    call_id = _text()
    # all that were answered, that one first
    call_ids = ListField(StringField())
    reason = StringField(null=True)  # why nothing was said that can be read
    reasons = StringField(null=True)  # the judge's own
    answered = _truth()
    failed = _truth()
    related = _truth(default=False)
    repaired = _truth(default=False)
    aud_cost = FloatField(null=True)
    latency_ms = FloatField(null=True)
    input_tokens = IntField(null=True)
    output_tokens = IntField(null=True)
    scores = DictField(null=True)
    composite = FloatField(null=True)
    composite_strict = FloatField(null=True)
    zeros = IntField(null=True)
    # how it was asked, and what came beside the scores; see toolkit.judges.judgement
    judge_repeat = _count(default=0)
    focus = _text(choices=("off", "listed", "per_sentence"), default="off")
    reference = BooleanField()  # whether the judge saw the reference answer; absent where it did not
    expected = DictField(null=True)
    expected_mass = DictField(null=True)
    detail = DictField(null=True)
    meta = _indexed("annotations", ("run_id", "judge", "call_id", "context"), ["study", "kind"])


class Anchor(_Document):
    """Judgements that are asked anew on later days, as they were drawn first; only ever added."""

    name = StringField(primary_key=True)
    study = _text()
    at = _moment()
    size = _count()  # asked for; there may be fewer
    fingerprint = _text()
    rubric_hash = _text()
    # of each reply: its run, the hash of its text, and by role the call of the judgement that is asked anew
    replies = ListField(DictField(), required=True)
    meta = {"collection": "anchors", "indexes": ["study"]}


class Rubric(_Changing):
    """The whole content of a rubric under the hash that its judgements carry."""

    rubric_hash = StringField(primary_key=True)
    name = _text()
    version = _text()
    content = _text()  # JSON, the text that is hashed
    meta = {"collection": "rubrics"}


class Call(_Changing):
    """One request to one model and its raw reply: claimed before it is sent, paid for once, kept for ever."""

    call_id = StringField(primary_key=True)
    state = _text(choices=("claimed", "done", "failed"))
    owner = _text()
    study = _text()
    purpose = _text()
    provider = _text()
    model = _text()
    request = DictField()
    worst_aud = _number()
    # of a claim: whether its request is being sent, and may be billed if its owner dies
    sent = BooleanField()
    text = StringField()
    finish_reason = StringField()
    answered_by = StringField()
    raw = StringField()
    input_tokens = IntField()
    output_tokens = IntField()
    tokens_estimated = BooleanField()
    cache_read_tokens = IntField()  # parts of the input tokens
    cache_written_tokens = IntField()
    reasoning_tokens = IntField()  # part of the output tokens
    aud_cost = FloatField()
    aud_per_usd = FloatField()  # that it was booked with; calls that cost nothing have none
    latency_ms = FloatField()
    attempts = ListField(DictField())
    unsure_aud = FloatField()  # attempts that broke after they were sent, at their worst
    inherited_aud = FloatField()  # the part of it from before this owner
    failure = DictField()
    seal = StringField()  # of a call that is done or failed
    meta = {"collection": "calls", "indexes": [["study", "state"]]}


class Owner(_Document):
    """The process that runs a study, alive as long as its lease is; and what the study has spent of its budget."""

    study = StringField(primary_key=True)
    name = _text()  # that its claims carry
    host = _text()
    boot = _text()
    pid = _count()
    birth = _text()
    # seconds since 1970, UTC; see toolkit.store.writer
    since = _number()
    lease_until = _number()
    units = IntField()  # of 1e-9 AUD, spent or set aside
    meta = {"collection": "owners"}


class Batch(_Document):
    """Calls submitted together to a batch endpoint: written before they are sent, ended once all are kept."""

    name = StringField(primary_key=True)
    state = _text(choices=("submitting", "submitted", "ended", "lost"))
    study = _text()
    provider = _text()
    model = _text()
    endpoint = StringField(null=True)
    batch_id = StringField(null=True)  # the provider's, once it is known
    call_ids = ListField(StringField(), required=True)
    worst_aud = FloatField()  # of those of its calls that are not in the ledger yet
    created = _number()  # seconds since 1970, UTC; see toolkit.store.writer
    updated_at = _moment(default=utc_now)
    meta = {"collection": "batches", "indexes": [["study", "state"]]}


class Settlement(_Document):
    """Calls that may have been billed, accepted as billed or cleared by a person; only ever added."""

    name = StringField(primary_key=True)
    study = _text()
    at = _moment()
    billed = _truth()
    note = _text()
    aud = _number()
    calls = ListField(DictField(), required=True)
    meta = {"collection": "settlements"}


class Decision(_Document):
    """What a study decided, as it was at one time; only ever added."""

    name = StringField(primary_key=True)
    study = _text()
    at = _moment()
    replied = _truth()  # whether the study had a reply by then
    content = _text()  # JSON, names to text: names have dots, which no key may have
    meta = {"collection": "decisions"}


class HumanRating(_Created):
    """One version of what one rater said of one reply under one rubric."""

    rating_id = StringField(primary_key=True)
    study = _text()
    rater = _text()
    run_id = _text()
    blob_id = _text()  # the text that was rated: of another text nothing is known
    rubric = _text()
    rubric_hash = _text()
    version = _count()
    scores = DictField()
    reasons = StringField(null=True)
    source = _text(choices=("desk", "file"))
    seal = StringField()
    meta = {"collection": "human_ratings", "indexes": ["run_id"]}


class RatingRound(_Created):
    """The order in which one rater sees the replies of a study; it only ever grows at its end."""

    round_id = StringField(primary_key=True)
    study = _text()
    rater = _text()
    rubric_hash = _text()
    seed = _count()
    size = IntField(null=True)
    run_ids = ListField(StringField())
    meta = {"collection": "rating_rounds"}


DOCUMENTS = (
    Prompt, OutputBlob, Run, Annotation, Rubric, Call, Owner, Batch, Settlement, Decision, HumanRating,
    RatingRound, Anchor,
)  # fmt: skip
