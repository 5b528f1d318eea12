"""The documents of the store: Prompt, Run and OutputBlob as seed 002 section 3.1 has them, Annotation and Call.

The field names of the first three are kept to the letter; what the toolkit adds stands below a comment.
Nothing else in the toolkit handles these objects: plain frozen objects and frames travel between rooms. A notebook
reads JSON documents of a study with the first three.
"""

from collections.abc import Callable
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
_text = partial(StringField, required=True)
_count = partial(IntField, required=True)
_number = partial(FloatField, required=True)
_moment = partial(DateTimeField, required=True, default=utc_now)
TABLES = read_toml(files("toolkit.store") / "documents.toml")
"""The documents that only the toolkit writes, by name, lists of fields, and the keys of all records of a study."""
FIELDS = TABLES["fields"]
Kind = type[Document]
"""A class of documents."""


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
    created_at = _moment()
    meta = {"abstract": True}


class _Changing(_Created):
    updated_at = _moment()
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
    token_count = _count()
    dataset_version = _text()
    metadata = DictField()
    meta = _indexed(
        "prompts", ("prompt_id", "dataset_version"), ["dataset_version", "scenario", "length_bin"]
    )

    def __init__(self, text: str | None = None, **values: Any) -> None:
        super().__init__(text=text, **values)


class OutputBlob(_Created):
    """The text of a reply, stored once under the hash of its content."""

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
    estimated = BooleanField(required=True, default=False)


class Economics(EmbeddedDocument):
    """What one run cost and how long its reply took."""

    aud_cost = _number()
    latency_ms = _number()


class Run(_Changing):
    """A prompt, a model, a repeat, and the call that answered it."""

    run_id = _text(unique=True)
    prompt_id = _text()
    model = _text()
    status = _text(choices=("succeeded", "failed"))
    prompt_length_bin = StringField(choices=tuple(LENGTH_BINS))
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


_KINDS: dict[str, Callable[..., Any]] = {
    "text": StringField,
    "count": IntField,
    "number": FloatField,
    "truth": BooleanField,
    "moment": DateTimeField,
    "now": partial(DateTimeField, default=utc_now),
    "table": DictField,
    "texts": lambda **options: ListField(StringField(), **options),
    "tables": lambda **options: ListField(DictField(), **options),
}
_NEEDS = {
    "key": {"primary_key": True},
    "required": {"required": True},
    "nullable": {"null": True},
    "optional": {},
}


def _class_of(name: str) -> Any:
    """Return the class of a document that only the toolkit writes, as ``documents.toml`` describes it."""
    table = TABLES[name]
    meta = {"collection": table["collection"], "indexes": table.get("indexes", [])}
    content = {"__doc__": table["doc"], "__module__": __name__, "meta": meta}
    for need, options in _NEEDS.items():
        for field, kind in table.get(need, {}).items():
            is_choice = isinstance(kind, list)
            content[field] = StringField(choices=kind, **options) if is_choice else _KINDS[kind](**options)
    return type(name, (_Document,), content)


Annotation, Anchor, Rubric, Call = map(_class_of, ("Annotation", "Anchor", "Rubric", "Call"))
Owner, Batch, Settlement, Decision = map(_class_of, ("Owner", "Batch", "Settlement", "Decision"))
HumanRating, RatingRound = map(_class_of, ("HumanRating", "RatingRound"))
DOCUMENTS = (
    Prompt, OutputBlob, Run, Annotation, Rubric, Call, Owner, Batch, Settlement, Decision, HumanRating,
    RatingRound, Anchor,
)  # fmt: skip
