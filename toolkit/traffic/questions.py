"""Questions about samples, the prompts and documents that they are asked with, and the JSON objects of replies."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from toolkit.errors import InputError
from toolkit.files.reading import read_text, read_toml
from toolkit.files.strict import Strict, Text, checked
from toolkit.judges.rubric import fill
from toolkit.stats.one_shot.methods import NO_DOCUMENT
from toolkit.traffic.measures import Answer
from toolkit.words import choices, one_line

MAX_TEXT = 20_000  # characters of a reply that is read: ten times what a model is asked for
PLACES = ("question", "csv", "document")  # placeholders of a prompt
_SHIPPED = resources.files("toolkit.traffic")
SHIPPED_PROMPTS = read_toml(_SHIPPED / "prompts.toml")
_PLACE = re.compile(r"\{([A-Za-z_]\w*)\}")


def _name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}", text):
        raise ValueError(f"{text!r} must be letters, digits, '_', '.' and '-' only")
    return text


def _with_placeholders(text: str) -> str:
    counts = Counter(_PLACE.findall(text))
    faults = [f"must hold {{{name}}} once" for name in ("question", "csv") if counts[name] != 1]
    faults += [f"has {{{name}}}, but {choices(name, PLACES)}" for name in counts if name not in PLACES]
    if faults:
        raise ValueError("; ".join(faults))
    return text


_Name = Annotated[str, AfterValidator(_name)]


class Question(Strict):
    """One question about one sample: the answer that is expected, or what judges require of a reply in free text."""

    id: _Name
    sample: Text
    text: Annotated[Text, AfterValidator(str.strip)]
    answer: Answer | None = None
    requirement: Text | None = None

    @model_validator(mode="after")
    def _has_answer(self) -> Self:
        if (self.answer is None) == (self.requirement is None):
            raise ValueError("needs an answer, or for free text a requirement in its place")
        return self


class _Entry(Strict):
    """A text under an id, which may be in a file beside the study."""

    id: _Name
    text: str

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, entry: Any, info: ValidationInfo) -> Any:
        if not isinstance(entry, dict) or "file" not in entry:
            return entry
        if "text" in entry:
            raise ValueError("has a text and a file; leave one of them out")
        entry = dict(entry)
        name = str(entry.pop("file"))
        if not Path(name).suffix:  # an export and a batch take it for a mere word
            raise ValueError(f"{name!r} is no name of a text file; give it an ending such as .txt")
        try:
            return entry | {"text": read_text(Path(info.context or "") / name, name)}
        except InputError as error:
            raise ValueError(str(error)) from None


class PromptVariant(_Entry):
    """A prompt text with the placeholders ``{question}``, ``{csv}`` and perhaps ``{document}``."""

    text: Annotated[Text, AfterValidator(_with_placeholders)]

    @model_validator(mode="before")
    @classmethod
    def _shipped(cls, entry: Any) -> Any:
        """Return the shipped prompt for its name."""
        if not isinstance(entry, str):
            return entry
        if entry not in SHIPPED_PROMPTS:
            raise ValueError(f"prompt {entry!r} is unknown; {choices(entry, SHIPPED_PROMPTS)}")
        return {"id": entry, "text": SHIPPED_PROMPTS[entry]}

    def prompt(self, question: str, csv: str, document: str) -> str:
        """Return the prompt; placeholders inside the inserted texts are not filled."""
        return fill(self.text, {"question": question, "csv": csv, "document": document}).strip()


class Document(_Entry):
    """A text that is put where a prompt has ``{document}``; the empty one is called none."""

    @model_validator(mode="after")
    def _empty_is_none(self) -> Self:
        if (self.id == NO_DOCUMENT) == bool(self.text.strip()):
            raise ValueError('id = "none" has text = "", for no document, and every other id a text')
        return self


def _distinct(entries: Sequence[_Entry]) -> Sequence[_Entry]:
    for name in ("id", "text"):  # the same text would be the same calls
        if doubled := _twice(getattr(entry, name) for entry in entries):
            raise ValueError(f"the {name} {one_line(doubled, 60)!r} is used twice; give each its own")
    return entries


_Distinct = (Field(min_length=1), AfterValidator(_distinct))


class Texts(Strict):
    """The prompts and documents of a one-shot test, which are crossed."""

    prompts: Annotated[Sequence[PromptVariant], *_Distinct]
    documents: Annotated[Sequence[Document], *_Distinct]

    @model_validator(mode="after")
    def _can_be_crossed(self) -> Self:
        takes = {"{document}" in prompt.text: prompt.id for prompt in self.prompts}
        ids = [document.id for document in self.documents]
        if (True in takes) == (ids == [NO_DOCUMENT]):
            raise ValueError("documents, and a prompt with {document}, need each other; give both or neither")
        if False in takes and NO_DOCUMENT not in ids:
            raise ValueError(
                f"prompt {takes[False]!r} has no {{document}}; to compare it with the others, add the document "
                'id = "none" with text = ""'
            )
        return self

    @property
    def conditions(self) -> dict[str, tuple[PromptVariant, Document]]:
        """Each prompt with each document, by name; one without ``{document}`` with none."""
        return {
            f"{prompt.id}/{document.id}" if "{document}" in prompt.text else prompt.id: (prompt, document)
            for prompt, document in product(self.prompts, self.documents)
            if "{document}" in prompt.text or document.id == NO_DOCUMENT
        }


def load_questions(path: str | Path | None = None) -> tuple[Question, ...]:
    """Read questions."""
    location = str(path or "questions.toml")
    data = read_toml(Path(path) if path else _SHIPPED / location, location)
    rows = data.get("question")
    if set(data) != {"question"} or not isinstance(rows, list) or not rows:
        raise InputError(f"{location}: must hold one or more [[question]] and nothing else")
    questions = [checked(Question, row, f"{location}, question {n}") for n, row in enumerate(rows, 1)]
    if doubled := _twice(question.id for question in questions):
        raise InputError(f"{location}: question id {doubled!r} is used twice; give each its own")
    return tuple(questions)


def _twice(values: Iterator[str]) -> str | None:
    return next((value for value, count in Counter(values).items() if count > 1), None)
