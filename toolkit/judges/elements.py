"""A second instrument beside the rubric: a judge says which required elements of a good answer a reply has."""

import json
import re
from collections.abc import Sequence

from toolkit.files.digests import sha256_hex
from toolkit.judges.parse import Parsed, Unreadable, check_keys, one_object, quote
from toolkit.judges.request import JudgeSpec, fence_code, object_schema
from toolkit.judges.rubric import shipped_words
from toolkit.models.base import ModelRequest

INSTRUMENT = "elements"
PRESENT = "present"
_VERDICTS = (PRESENT, "absent")
_WORDS = shipped_words("elements")
CONTENT = json.dumps(_WORDS, sort_keys=True)
DIGEST = sha256_hex(CONTENT)
"""Stored with judgements of this instrument in place of the hash of a rubric."""


def elements_request(judge: JudgeSpec, elements: Sequence[str], task: str, response: str) -> ModelRequest:
    """Return the request that asks one judge which elements a reply has."""
    names = _names(elements)
    values = {
        "nonce": fence_code(task, response, judge.seed),
        "task": task,
        "response": response,
        "elements": "\n".join(f"{name}: {element}" for name, element in zip(names, elements, strict=True)),
        "names": ", ".join(_keys(names)),
    }
    verdict, quotation = {"type": "string", "enum": list(_VERDICTS)}, {"type": "string", "maxLength": 300}
    schema: dict[str, object] = {key: verdict if key in names else quotation for key in _keys(names)}
    return judge.worded(_WORDS, values, object_schema(schema))


def parse_elements(text: str, finish_reason: str, elements: Sequence[str], response: str) -> Parsed:
    """Read exactly one verdict for each element, or raise `Unreadable`; say whose quotation is not in the response."""
    answer, names = one_object(text, finish_reason), _names(elements)
    check_keys(answer, _keys(names))
    for name in names:
        if answer[name] not in _VERDICTS:
            raise Unreadable("not a verdict", quote(f"{name}: {answer[name]}"))
    pairs = list(zip(elements, names, strict=True))  # an element may stand twice, and then counts twice
    absent = [element for element, name in pairs if answer[name] != PRESENT]
    unquoted = [
        element
        for element, name in pairs
        if answer[name] == PRESENT and not _is_quoted(answer[f"{name}_quote"], response)
    ]
    share = 1 - len(absent) / len(elements)
    detail = {"required": len(elements), "absent": absent, "unquoted": unquoted}
    return Parsed({"share": share}, detail=detail)


def _is_quoted(quotation: object, response: str) -> bool:
    """Say whether a quotation stands in a response, whatever its blanks, capitals and marks."""
    words, text = (" ".join(re.findall(r"\w+", str(part).casefold())) for part in (quotation, response))
    return bool(words) and words in text


def _names(elements: Sequence[str]) -> list[str]:
    return [f"e{number}" for number in range(1, len(elements) + 1)]


def _keys(names: Sequence[str]) -> list[str]:
    return [key for name in names for key in (f"{name}_quote", name)]
