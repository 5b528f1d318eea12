"""The rubric study from prompts to results, with judges that answer from a script."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest
from logit_jackknife import logit_jackknife

from toolkit.errors import InputError, ModelError
from toolkit.judges.request import JudgeSpec
from toolkit.judges.rubric import load_rubric
from toolkit.judges.rubric_study import RubricStudy
from toolkit.models.base import Answer, ModelReply, Usage
from toolkit.prompt_test import MeasuredTestItem, PromptReply, annotate
from toolkit.words import DIMENSIONS, JUDGE_ROLES

BY_BIN = {"S": 2.0, "M": 3.0, "L": 4.0}


@dataclass(frozen=True)
class FakePrompt:
    prompt_id: str
    text: str
    base: str
    level: str
    metadata = MappingProxyType[str, str]({})


PROMPTS = [
    FakePrompt(f"b{n}_{size.lower()}", f"Task {n} in size {size}.", f"b{n}", size)
    for n in range(4)
    for size in "SML"
]
JUDGES = [JudgeSpec(role, "demo", "scripted", "m", repeat=n) for n, role in enumerate(JUDGE_ROLES)]


class Script:
    """An `ask` that scores by the length bin in the task, plus a little for the base and the judge."""

    def __init__(self, broken=(), down=()):
        self.broken, self.down = broken, down
        self.seen: list[str] = []

    async def __call__(self, request):
        self.seen.append(request.identity())
        place = request.repeat % 1000
        if place in self.down:
            raise ModelError("no answer in 60 s", reason="timeout")
        text = request.messages[1].content  # behind it a repair may follow
        size = next(size for size in BY_BIN if f"in size {size}." in text)
        base = next(n for n in range(4) if f"Task {n} in" in text)
        score = BY_BIN[size] + base / 10 + (place - 1) / 4
        reply = "I like it." if place in self.broken else json.dumps(dict.fromkeys(DIMENSIONS, score))
        return Answer(request.identity(), ModelReply(reply, "stop", Usage(1, 1), "m"), 0.001, 1.0, 1, False)


def study(prompts=PROMPTS, judges=JUDGES):
    return RubricStudy(prompts, judges, load_rubric("default"))


def measured(test, ask, *, repeats=1, failed=()):
    async def main():
        found = []
        for repeat in range(repeats):
            for item in test.make_test_items():
                bad = item.item_id in failed
                text, failure = (None, "timeout") if bad else ("The reply.", None)
                reply = PromptReply(item.prompts[0], text, "run", "gpt", repeat, failure)
                annotated = await annotate(test, item, [reply], ask)
                found.append(MeasuredTestItem(item, tuple(test.measure_quality(annotated)), "gpt", repeat))
        return found

    return asyncio.run(main())


def results_of(test, ask=None, **how):
    return test.aggregate_measurements(measured(test, ask or Script(), **how))


@pytest.mark.parametrize(("script", "failed", "composite", "count", "reason"), [
    (Script(), (), 2.0, 3, None), (Script(broken=(0,)), (), 2.125, 2, None),
    (Script(broken=(0,), down=(2,)), (), None, 1,
     "unjudged: 1 of 3 judges count; primary: prose: 'I like it.'; first: prose: 'I like it.'; "
     "tertiary: timeout: no answer in 60 s"),
    (Script(), ("b0_s",), None, 0, "run failed: timeout"),
])  # fmt: skip
def test_the_mean_is_over_the_judges_that_count_and_fewer_than_two_are_missing_with_why(
    script, failed, composite, count, reason
):
    """A failed run is judged by nobody."""
    found = measured(study(PROMPTS[:1]), script, failed=failed)[0]
    values = [found.value(name) for name in ("composite", "composite_strict", "clarity")]
    assert values == ([None] * 3 if composite is None else [pytest.approx(composite)] * 3)
    assert (found.value("judge_count"), found.measurements[0].reason) == (count, reason)
    points = [m.name for m in found.measurements if m.unit == "score points (0-5)"]
    assert points == [*DIMENSIONS, "composite", "composite_strict"]
    assert bool(script.seen) == (not failed)


def test_results_are_what_was_announced_with_intervals_over_bases():
    test = study()
    results = results_of(test, repeats=2)
    assert [(r.name, r.unit) for r in results] == [(t.name, t.unit) for t in test.result_types()]
    short = results[0]
    assert short.name == "mean composite, S"
    assert (short.low, short.high) == pytest.approx(logit_jackknife([[2.0], [2.1], [2.2], [2.3]]))
    assert short.n["bases"] == 4
    assert [round(r.estimate, 2) for r in results] == [2.15, 3.15, 4.15, 2.15, 3.15, 4.15, 0]


def test_the_unjudged_share_has_an_interval_even_when_it_is_zero_and_never_becomes_a_score():
    """Clopper and Pearson for 0 and for 1 of 4: 0 to .6024 and .0063 to .8059 (any table of exact limits)."""
    for how, limits in (
        ({}, (0, 0, 0.6024)),
        ({"failed": ("b0_s", "b0_m", "b0_l")}, (0.25, 0.0063, 0.8059)),
        ({"ask": Script(broken=(0, 1, 2))}, (1, 0.3976, 1)),
    ):
        share = results_of(study(), **how)[-1]
        assert (share.estimate, share.low, share.high) == pytest.approx(limits, abs=1e-4)
    short = results_of(study(), failed=("b3_s",))[0]
    assert short.estimate == pytest.approx(2.1)
    assert (short.missing, short.n["bases"]) == (1, 3)


def test_the_seed_s_composite_says_how_many_zeros_it_left_out_and_models_are_not_pooled():
    test = study()
    items = measured(test, Script())
    # As if two judges had given a true zero to the first reply.
    zeros = [replace(m, value=2) if m.name == "zeros" else m for m in items[0].measurements]
    results = test.aggregate_measurements([replace(items[0], measurements=tuple(zeros)), *items[1:]])
    assert [results[n].note for n in (0, 1)] == ["2 scores of 0 left out", "0 scores of 0 left out"]
    assert "left out" not in results[3].note
    with pytest.raises(InputError, match="claude, gpt are not pooled"):
        test.aggregate_measurements([replace(items[0], model="claude"), items[1]])
