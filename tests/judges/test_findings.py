"""Findings are read strictly and weighed by MQM severities; what cannot be read is missing, never "no fault"."""

from __future__ import annotations

import json

import pytest

from toolkit.judges.parse import REASONS
from toolkit.judges.per_sentence import (
    FINDING_REASONS,
    MOST_FINDINGS,
    Finding,
    bounded_score,
    findings_schema,
    parse_findings,
    severity_sums,
)

NAMES = ("technical_accuracy", "clarity")
ONE = {"what": "Port 23 is telnet.", "dimension": "technical_accuracy", "severity": "major"}


def said(*items: object) -> str:
    return json.dumps({"findings": items})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (said(), ()),
        (said(ONE), (Finding("technical_accuracy", "major", "Port 23 is telnet."),)),
        (said(ONE, ONE), (Finding("technical_accuracy", "major", "Port 23 is telnet."),) * 2),
        (f"```json\n{said(ONE)}\n```", (Finding("technical_accuracy", "major", "Port 23 is telnet."),)),
        (
            said({**ONE, "severity": " Critical", "what": ""}),
            (Finding("technical_accuracy", "critical", ""),),
        ),
        (said(*[ONE] * MOST_FINDINGS), (Finding("technical_accuracy", "major", "Port 23 is telnet."),) * 8),
    ],
    ids=["none", "one", "the same twice", "fenced", "capital", "the most"],
)
def test_a_list_of_findings_is_read(text, expected):
    read = parse_findings(text, NAMES)
    assert (read.findings, read.reason) == (expected, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("No faults.", "prose: 'No faults.'"),
        ("[]", "not an object"),
        ("{}", "missing key: findings"),
        (said() + said(), "two objects"),
        ('{"findings": [{"what": "x", ', "truncated"),
        ('{"findings": [], "findings": []}', "duplicate key: 'findings'"),
        ('{"findings": [], "score": 5}', "extra key: 'score'"),
        ('{"findings": null}', "not a list: 'null'"),
        ('{"findings": {}}', "not a list: '{}'"),
        (said("vague"), "not a finding: '\"vague\"'"),
        (said({**ONE, "weight": 3}), "extra key: 'weight'"),
        (said({"what": "x", "dimension": "clarity"}), "missing key: severity"),
        (said({**ONE, "severity": 3}), "not text: severity is '3.0'"),
        (said({**ONE, "what": None}), "not text: what is 'null'"),
        (said({**ONE, "severity": "high"}), "unknown severity: 'high'"),
        (said({**ONE, "dimension": "completeness"}), "unknown dimension: 'completeness'"),
        (said(*[ONE] * (MOST_FINDINGS + 1)), "too many findings: 9, at most 8 of one segment"),
        (said(ONE, "vague"), "not a finding"),
    ],
)
def test_what_is_no_list_of_findings_has_a_reason_and_no_finding(text, reason):
    read = parse_findings(text, NAMES)
    assert read.findings == ()
    assert read.reason.startswith(reason)
    assert read.reason.split(":")[0] in (*FINDING_REASONS, *REASONS)


@pytest.mark.parametrize(("finish", "reason"), [("refusal", "refusal"), ("filter", "filtered")])
def test_a_refused_reply_is_no_list_without_findings(finish, reason):
    assert parse_findings(said(), NAMES, finish).reason.startswith(reason)


def test_a_finding_with_a_lone_surrogate_can_be_stored():
    (finding,) = parse_findings(
        '{"findings": [' + json.dumps(ONE).replace("Port", "\\ud800") + "]}", NAMES
    ).findings
    assert finding.what == "? 23 is telnet."
    finding.what.encode("utf-8")


def test_the_schema_holds_names_severities_and_lengths():
    schema = json.loads(findings_schema(NAMES))
    listed = schema["properties"]["findings"]
    assert (listed["minItems"], listed["maxItems"]) == (0, MOST_FINDINGS)
    item = listed["items"]["properties"]
    assert item["dimension"]["enum"] == list(NAMES)
    assert item["severity"]["enum"] == ["minor", "major", "critical"]
    assert item["what"]["maxLength"] == 160
    for part in (schema, listed["items"]):
        assert part["required"] == list(part["properties"])
        assert part["additionalProperties"] is False


def test_what_follows_the_schema_is_read(spec):
    """The scripted model answers by the schema alone: every one of its answers must be readable."""
    import random

    from toolkit.models.scripted import example_of

    schema = json.loads(findings_schema(NAMES))
    sizes = set()
    for seed in range(50):
        read = parse_findings(json.dumps(example_of(schema, random.Random(seed))), NAMES)
        assert read.reason is None
        sizes.add(len(read.findings))
    assert {0, MOST_FINDINGS} <= sizes


def test_weights_are_those_of_mqm_and_a_dimension_without_finding_has_the_weight_zero():
    findings = [Finding("clarity", severity, "") for severity in ("minor", "minor", "major", "critical")]
    assert severity_sums(findings, NAMES) == {"technical_accuracy": 0, "clarity": 32}


@pytest.mark.parametrize(
    ("weight", "score"), [(0, 5), (1, 4.8), (5, 4), (12.5, 2.5), (25, 0), (26, 0), (1e9, 0)]
)
def test_the_bounded_score_falls_in_a_line_and_stays_on_the_scale(weight, score):
    assert bounded_score(weight) == pytest.approx(score)
