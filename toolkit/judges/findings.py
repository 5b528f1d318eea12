"""What a judge finds wrong in one piece of a reply: read strictly, weighed by severity, made into scores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from toolkit.judges.ask import REASONS_LENGTH
from toolkit.judges.parse import Unreadable, one_object, quoted
from toolkit.judges.segments import Segment
from toolkit.words import SCALE

SEVERITY_WEIGHTS: Final[Mapping[str, float]] = {"minor": 1.0, "major": 5.0, "critical": 25.0}
"""What one finding weighs.

Minor 1 and major 5 are the MQM weights of Freitag et al. (2021), "Experts, Errors, and Context: A Large-Scale Study
of Human Evaluation for Machine Translation", TACL 9, 1460-1474; 25 is their weight of a passage that is no
translation at all, and GEMBA-MQM (Kocmi & Federmann 2023, WMT, 768-775) gives it to every critical error.
"""
WORST: Final = 25.0
"""Weight at which a score reaches 0: one critical finding."""
MOST_FINDINGS: Final = 8
"""Most findings a judge may report of one segment."""
FINDING_REASONS: Final = (
    "extra key",
    "missing key",
    "not a list",
    "not a finding",
    "not text",
    "too many findings",
    "unknown dimension",
    "unknown severity",
)
"""The stable words a reason starts with, beside those of `toolkit.judges.parse.REASONS`."""
_KEYS: Final = ("what", "dimension", "severity")


@dataclass(frozen=True)
class Finding:
    """One fault that a judge found."""

    dimension: str
    severity: str
    what: str
    segment: int = 0
    start: int = 0
    end: int = 0

    def found_in(self, number: int, segment: Segment) -> Finding:
        """Return the finding with the place of its segment."""
        return replace(self, segment=number, start=segment.start, end=segment.end)


@dataclass(frozen=True)
class Findings:
    """One judge reply as read: ``findings``, perhaps none at all, or the ``reason`` why it cannot be read."""

    findings: tuple[Finding, ...] = ()
    reason: str | None = None


def parse_findings(text: str, dimensions: Sequence[str], finish_reason: str = "stop") -> Findings:
    """Read one judge reply: exactly one JSON object with a list of findings, or else a reason.

    As in `toolkit.judges.parse` nothing is repaired and nothing is guessed: one finding that cannot be read makes
    the reply unreadable, because leaving it out would make the segment look better than the judge found it.

    Examples
    --------
    >>> parse_findings('{"findings": []}', ["clarity"])
    Findings(findings=(), reason=None)
    >>> parse_findings('{"findings": [{"dimension": "clarity", "severity": "bad", "what": ""}]}', ["clarity"]).reason
    "unknown severity: 'bad'"
    """
    try:
        answer = one_object(text, finish_reason)
        _check_keys(answer, ("findings",))
        listed = answer["findings"]
        if not isinstance(listed, list):
            raise Unreadable("not a list", quoted(json.dumps(listed)))
        if len(listed) > MOST_FINDINGS:
            raise Unreadable("too many findings", f"{len(listed)}, at most {MOST_FINDINGS} of one segment")
        return Findings(tuple(_finding(item, dimensions) for item in listed))
    except Unreadable as error:
        return Findings(reason=str(error))


def _finding(item: Any, dimensions: Sequence[str]) -> Finding:
    if not isinstance(item, dict):
        raise Unreadable("not a finding", quoted(json.dumps(item)))
    _check_keys(item, _KEYS)
    for key in _KEYS:
        if not isinstance(item[key], str):
            raise Unreadable("not text", f"{key} is {quoted(json.dumps(item[key]))}")
    dimension, severity = (item[key].strip().lower() for key in ("dimension", "severity"))
    if dimension not in dimensions:
        raise Unreadable("unknown dimension", quoted(item["dimension"]))
    if severity not in SEVERITY_WEIGHTS:
        raise Unreadable("unknown severity", quoted(item["severity"]))
    # A lone surrogate is legal in JSON and in no encoding, so the store could not keep it.
    return Finding(dimension, severity, item["what"].encode("utf-8", "replace").decode("utf-8"))


def _check_keys(item: Mapping[str, Any], keys: Sequence[str]) -> None:
    if extra := [key for key in item if key not in keys]:
        raise Unreadable("extra key", quoted(", ".join(extra)))
    if missing := [key for key in keys if key not in item]:
        raise Unreadable("missing key", ", ".join(missing))


def findings_schema(dimensions: Sequence[str]) -> str:
    """Return the JSON schema of a list of findings as JSON text: what is wrong first, then its name and weight."""
    properties = {
        "what": {"type": "string", "maxLength": REASONS_LENGTH},
        "dimension": {"type": "string", "enum": list(dimensions)},
        "severity": {"type": "string", "enum": list(SEVERITY_WEIGHTS)},
    }
    item = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {
            "findings": {"type": "array", "minItems": 0, "maxItems": MOST_FINDINGS, "items": item}
        },
        "required": ["findings"],
        "additionalProperties": False,
    }
    return json.dumps(schema, separators=(",", ":"))


def severity_sums(
    findings: Iterable[Finding],
    dimensions: Sequence[str],
    weights: Mapping[str, float] = SEVERITY_WEIGHTS,
) -> dict[str, float]:
    """Return the weight of all findings of each dimension, 0 where nothing was found.

    Examples
    --------
    >>> severity_sums([Finding("clarity", "major", "vague")], ["clarity", "relevance"])
    {'clarity': 5.0, 'relevance': 0.0}
    """
    sums = dict.fromkeys(dimensions, 0.0)
    for finding in findings:
        sums[finding.dimension] += weights[finding.severity]
    return sums


def bounded_score(weight: float, worst: float = WORST) -> float:
    """Return 5 * max(0, 1 - weight / worst): 5 without a finding, 0 from one critical finding on.

    Examples
    --------
    >>> bounded_score(0), bounded_score(5), bounded_score(30)
    (5.0, 4.0, 0.0)
    """
    return SCALE[1] * max(0.0, 1.0 - weight / worst)
