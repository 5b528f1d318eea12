"""A second instrument beside the rubric: a judge says which required elements of a good answer a reply has."""

import json
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
        "names": ", ".join(names),
    }
    verdict = {"type": "string", "enum": list(_VERDICTS)}
    return judge.worded(_WORDS, values, object_schema(dict.fromkeys(names, verdict)))


def parse_elements(text: str, finish_reason: str, elements: Sequence[str]) -> Parsed:
    """Read exactly one verdict for each element, or raise `Unreadable`."""
    answer, names = one_object(text, finish_reason), _names(elements)
    check_keys(answer, names)
    for name in names:
        if answer[name] not in _VERDICTS:
            raise Unreadable("not a verdict", quote(f"{name}: {answer[name]}"))
    absent = [element for name, element in zip(names, elements, strict=True) if answer[name] != PRESENT]
    share = 1 - len(absent) / len(elements)
    return Parsed({"share": share}, detail={"required": len(elements), "absent": absent})


def _names(elements: Sequence[str]) -> list[str]:
    return [f"e{number}" for number in range(1, len(elements) + 1)]
