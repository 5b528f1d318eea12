"""The documents of the store: Prompt, Run and OutputBlob as seed 002 section 3.1 has them, Annotation and Call.

Their fields are rows of ``documents.toml``, those of the first three to the letter as the seed has them.
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
TABLES = read_toml(files("toolkit.store") / "documents.toml")
"""The documents of the store by name, lists of fields, and the keys of all that are records of a study."""
FIELDS = TABLES["fields"]
Kind = type[Document]
"""A class of documents."""


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


_KINDS: dict[str, Callable[..., Any]] = {
    "text": StringField,
    "count": IntField,
    "number": FloatField,
    "truth": BooleanField,
    "moment": DateTimeField,
    "bin": partial(StringField, choices=tuple(LENGTH_BINS)),
    "defect": partial(StringField, choices=tuple(DEFECTS)),
    "false": partial(BooleanField, default=False),
    "now": partial(DateTimeField, default=utc_now),
    "table": DictField,
    "texts": lambda **options: ListField(StringField(), **options),
    "tables": lambda **options: ListField(DictField(), **options),
}


def _class_of(name: str, base: Any = _Document, **content: Any) -> Any:
    """Return the class of a document as ``documents.toml`` describes it."""
    table = TABLES[name]
    content |= {"__doc__": table["doc"], "__module__": __name__}
    if base is _Document:
        content["meta"] = {"collection": table["collection"], "indexes": table.get("indexes", [])}
    for need, options in TABLES["needs"].items():
        for field, kind in table.get(need, {}).items():
            is_choice = isinstance(kind, list)
            content[field] = (
                StringField(choices=tuple(kind), **options) if is_choice else _KINDS[kind](**options)
            )
    return type(name, (base,), content)


def _of_text(prompt: Any, text: str | None = None, **values: Any) -> None:
    super(Prompt, prompt).__init__(text=text, **values)


def _check_scores(run: Any) -> None:
    """Check that scores are numbers; null is a missing one."""
    for name, score in run.scores.items():
        number_or_missing(score, f"Run, scores, {name}")


_KINDS["tokens"] = partial(EmbeddedDocumentField, _class_of("Tokens", EmbeddedDocument))
_KINDS["economics"] = partial(EmbeddedDocumentField, _class_of("Economics", EmbeddedDocument))
Prompt, Run = _class_of("Prompt", __init__=_of_text), _class_of("Run", clean=_check_scores)
OutputBlob, Annotation, Rubric, Call = map(_class_of, ("OutputBlob", "Annotation", "Rubric", "Call"))
Owner, Batch, Settlement, Decision = map(_class_of, ("Owner", "Batch", "Settlement", "Decision"))
HumanRating, RatingRound, Anchor = map(_class_of, ("HumanRating", "RatingRound", "Anchor"))
DOCUMENTS = (
    Prompt, OutputBlob, Run, Annotation, Rubric, Call, Owner, Batch, Settlement, Decision, HumanRating,
    RatingRound, Anchor,
)  # fmt: skip
