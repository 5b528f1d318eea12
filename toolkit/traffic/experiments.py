"""Single experiments of the one-shot test: the verdict on each, cells that an answer cites, and a row for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from toolkit.prompt_test import TestItem, TestItemAnnotations
from toolkit.traffic.columns import CUT
from toolkit.traffic.evidence import Claim
from toolkit.traffic.named_values import Match, json_objects
from toolkit.traffic.questions import AnswerKey, Question
from toolkit.traffic.sample_facts import Facts, cell_text, decoded_path

_KEYS = "method variant question sample model repeat"
_COLUMNS = f"{_KEYS} verdict matched found why invented run_id".split()


@dataclass(frozen=True)
class Verdict:
    """What one answer came to, and why."""

    verdict: str | None
    matched: bool | None
    found: str | None
    why: str
    claims: tuple[Claim, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def invented(self) -> tuple[Claim, ...]:
        """Return the claims that the sample does not hold."""
        return tuple(claim for claim in self.claims if not claim.held)


def decide(match: Match, claims: Sequence[Claim]) -> Verdict:
    """Return the verdict that the key and the evidence give, before any judge is asked."""
    # An answer that invents is a hallucination even where it holds the expected value: the protocol scores how far a
    # model can be trusted to read a sample, and a reader cannot tell the true half from the invented one.
    invented = [claim for claim in claims if not claim.held]
    verdict: str | None = None
    reason = match.why
    if invented:
        verdict = "hallucinated"
        claim_list = ", ".join(
            f"{claim.kind} {claim.text} (character {claim.position})" for claim in invented
        )
        reason = f"the sample does not hold {claim_list}; {match.why}"
    elif match.matched is not None:
        verdict = "expected" if match.matched else "unexpected"
    return Verdict(verdict, match.matched, match.found, reason, tuple(claims))


@dataclass(frozen=True)
class OneShotContext:
    """What the model never sees of a method, and what it sees of the sample."""

    variant: str
    question: Question
    csv: str
    facts: Facts


def experiments_frame(annotated: Iterable[TestItemAnnotations]) -> pd.DataFrame:
    """Return one row an experiment, with its verdict and the evidence."""
    rows = []
    for item in annotated:
        (reply,) = item.replies
        verdict_annotation = item.annotations.get("verdict", (None,))[0]
        verdict, reason = stored_verdict(item)
        rows.append(
            {
                **experiment_row(item.item, reply.model, reply.repeat),
                "verdict": verdict,
                "matched": verdict_annotation.matched if verdict_annotation else None,
                "found": verdict_annotation.found if verdict_annotation else None,
                "why": reason or verdict_annotation.why,
                "invented": "; ".join(f"{c.kind} {c.text}" for c in verdict_annotation.invented)
                if verdict_annotation
                else None,
                "run_id": reply.run_id,
            }
        )
    types = dict.fromkeys(_COLUMNS, "string") | {"repeat": "Int64", "matched": "boolean"}
    return pd.DataFrame(rows, columns=_COLUMNS).astype(types)


def experiment_row(item: TestItem, model: str, repeat: int) -> dict[str, object]:
    """Return which experiment of which method it is."""
    context: OneShotContext = item.context
    cells = (item.item_id, context.variant, context.question.id, context.facts.sample, model, repeat)
    return dict(zip(_KEYS.split(), cells, strict=True))


def stored_verdict(item: TestItemAnnotations) -> tuple[str | None, str | None]:
    """Return the verdict of an experiment, or why there is none."""
    (reply,) = item.replies
    verdict: Verdict | None = item.annotations.get("verdict", (None,))[0]
    if reply.text is None:
        return None, f"incomplete: run failed: {reply.failure}"
    if verdict is None:
        return None, "incomplete: no verdict yet"
    return verdict.verdict, None if verdict.verdict else f"incomplete: {verdict.why}"


FORMATS: Final = ("text", "evidence")
INSTRUCTION: Final = """

Whatever form of answer is asked for above, reply with one JSON object only:
{"answer": the answer, "evidence": [{"packet": its number, "field": name of the column, "value": value of the cell}]}
Cite every cell that the answer rests on, each value as it stands in the sample; at most 20 cells. Cite nothing that the
sample does not hold."""
"""What is put behind the question."""


def read_citations(reply: str, key: AnswerKey, facts: Facts) -> tuple[str, str, tuple[Claim, ...]]:
    """Return the answer of such a reply as its key reads it, the prose around it, and its citations as claims."""
    objects = [
        value
        for value in json_objects(reply)
        if "answer" in value and isinstance(value.get("evidence"), list)
    ]
    if len(objects) != 1:
        return "", "", ()
    answer = objects[0]["answer"]
    if key.kind == "json" and not isinstance(answer, dict):
        answer = {key.field: answer}
    text = answer if isinstance(answer, str) else json.dumps(_plain(answer), ensure_ascii=False)
    prose = f"{reply[: reply.find('{')]} {reply[reply.rfind('}') + 1 :]}"
    prose = prose.replace("```json", " ").replace("```", " ")
    return text, prose.strip(), tuple(_looked_up(value, reply, facts) for value in objects[0]["evidence"])


def _looked_up(citation: Any, reply: str, facts: Facts) -> Claim:
    if not isinstance(citation, dict) or not {"packet", "field", "value"} <= set(citation):
        return Claim("citation", json.dumps(_plain(citation))[:80], 0, False)
    packet, field, value = (cell_text(_plain(citation[name])) or "" for name in ("packet", "field", "value"))
    cell = facts.cell(packet, field)
    if cell is None:  # an empty cell may be cited as empty
        supported = not value and field in facts.frame and facts.cell(packet, "number") is not None
    else:
        supported = (
            value in (cell, cell.removesuffix(CUT))
            or decoded_path(cell) == decoded_path(value)
            or _equal(cell, value)
        )
    return Claim(
        "citation",
        f"packet {packet} {field} {value}"[:200],
        max(0, reply.find(str(citation["value"]))),
        supported,
    )


def _equal(cell: str, value: str) -> bool:
    try:
        decimals = len(value.partition(".")[2])
        return abs(float(cell) - float(value)) <= (0.5 * 10**-decimals if decimals else 0.0) + 1e-9
    except ValueError:
        return False


def _plain(value: Any) -> Any:
    """Return whole floats, as our JSON is read, as integers again."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return {name: _plain(item) for name, item in value.items()} if isinstance(value, dict) else value
