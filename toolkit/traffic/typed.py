"""Typed answers: claims with the rows and the subject that they rest on, compared with the sample."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.traffic.measures import Answer, Table
from toolkit.traffic.questions import AnswerKey, Question

if TYPE_CHECKING:
    import pandas as pd


def with_key(question: Question, frame: pd.DataFrame) -> Question:
    """Return a question with the key for free text that its answer gives; raise where the sample gives no answer."""
    if question.answer is None:
        return question
    table = Table(frame)
    try:
        value = question.answer.of(table, frame)
        key = question.key if question.key.kind else free_text_key(question.answer, value, table)
    except ValueError as error:
        raise InputError(f"question {question.id}, answer: {error}") from None
    return question.model_copy(update={"key": key})


def free_text_key(answer: Answer, value: Any, table: Table) -> AnswerKey:
    """Return the key that an expected value is for free text."""
    if answer.claims:
        required = (
            f"{claim.measure} {claim.column or 'of rows'} where {claim.filter or 'all'} is {readable(claim.of(table))}"
            for claim in answer.claims
        )
        return AnswerKey("judge", "The answer says that " + "; ".join(required))
    if isinstance(value, list):
        return AnswerKey("set", tuple(dict.fromkeys(map(readable, value))))
    if isinstance(value, Decimal):
        return AnswerKey("number", int(value) if value % 1 == 0 else float(value), answer.tolerance)
    return AnswerKey("exact", readable(value))


def readable(value: Any) -> str:
    """Return a value as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(readable, value)) + "]"
    return format(value.normalize(), "f") if isinstance(value, Decimal) else str(value)
