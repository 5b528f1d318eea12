"""What a study will cost and how long it takes, before a cent is spent; and whether it may start at all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache, partial
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError, StudyError
from toolkit.models.base import ModelRequest, Usage
from toolkit.models.catalogue import OTHER_TOKENIZER, ModelSpec
from toolkit.models.prices import Price, aud_cost, batch_price, price_of, worst_cost
from toolkit.models.registry import key_fault, read_environment
from toolkit.models.tokens import count_tokens
from toolkit.models.usage import MESSAGE_TOKENS
from toolkit.plan import Plan
from toolkit.runs.budget import spent_and_held
from toolkit.runs.execution import IN_ORDER_UP_TO
from toolkit.runs.gateway import at_once_of, named_models
from toolkit.runs.instruments import JUDGEMENTS, automatic_stages
from toolkit.runs.progress import duration
from toolkit.runs.provenance import shared_replies
from toolkit.runs.run_state import RunState, states_ahead
from toolkit.runs.stages import Pending, Stage, Task, unpaid_by_role
from toolkit.store.connection import Store
from toolkit.store.documents import Call
from toolkit.store.writer import utc_now
from toolkit.words import Summary, money, template, total_aud

if TYPE_CHECKING:
    import pandas as pd

BATCH_SECONDS = 86_400.0  # what a batch endpoint promises: an answer within a day
EXPECTED_REPLY_TOKENS = 587
"""Output tokens of the reply that the architecture document shows (seed 002, section 3.1), by o200k_base."""
EXPECTED_JUDGE_TOKENS = 120
"""Output tokens of a judgement: seven scores and short reasons."""
REASON_TOKENS = 10
"""Output tokens that the reason for one score adds, where a rubric asks for each (measured: 186 in all for seven)."""
EXPECTED_SECONDS = 2.34
"""Latency of the reply that the architecture document shows (seed 002, section 3.1); judges are taken to be as slow."""
LOW_SHARE = 0.25  # low is this share of the assumed tokens; of measured ones it is the 10th percentile
ENOUGH_CALLS = 5  # fewer done calls than this say too little of the next ones
SAMPLE = 1000
"""Done calls that are looked at: enough for a mean, and reading more takes longer than the rest."""
OLD_RATE = timedelta(days=90)  # an exchange rate that is older is mentioned
REPAIR_TOKENS = 256
"""What a repair request says of the error, rounded up: its words, the reason, and two messages more."""


Three = tuple[float, float, float]  # low, expected and worst
Expected = tuple[float, Three, Three, Three]
"""Calls expected, the tokens sent and got of all of them, and the tokens of the longest of their prompts."""


@dataclass(frozen=True)
class Experience:
    """What replies of one model for one purpose are like."""

    low: float
    mean: float
    seconds: float
    measured: bool

    def limited(self, most: int) -> tuple[float, float]:
        """Return low and expected tokens of a reply that may have ``most``."""
        return min(self.low, most), min(self.mean, most)


def estimate_frame(plan: Plan, store: Store, *, only_judge: bool = False) -> pd.DataFrame:
    """Return what is still to be asked, one row per model and judge, of all or about the replies that are there.

    Equal requests are one call, however many runs or judgements rest on it. At worst every reply is as long as
    ``max_tokens`` allows, every one that may be asked again is, judges read all of it, and a batch brings nothing, so
    that its calls are sent singly at the full price.
    """
    import pandas as pd

    ahead = [state for state in states_ahead(plan, store) if not (only_judge and state.request)]
    count = cache(count_tokens)  # 10,000 runs of 100 prompts are 100 texts
    experiences: dict[str, Experience] = {}
    rows, specs = [], [*plan.models.values(), *plan.judge_models.values()]
    needs: dict[str, tuple[int, int]] = {}
    counted: set[str] = set()
    for name, spec in plan.models.items():
        states = [state for state in ahead if state.run.model == name]
        if any(state.request for state in states):
            experiences[name] = experience_of(plan, store, spec, "run")
        # Equal requests are paid once, and two names of one model share their calls.
        by_call = {state.run.call_id: state for state in states if state.run.call_id not in counted}
        counted |= by_call.keys()
        to_ask = [state for state in by_call.values() if state.request]
        experience = experiences[name] if to_ask else None
        tokens = list(run_tokens(to_ask, spec, experience, count)) if experience else []
        most = max((state.request.max_tokens for state in to_ask if state.request), default=0)
        needs |= _too_long(name, spec, tokens, most)
        rows.append(_row(plan, "model", name, spec, tokens, len(by_call) - len(to_ask), experience))
    stages = [
        (stage, *unpaid_by_role(stage, plan, store, ahead)) for stage in (JUDGEMENTS, *automatic_stages())
    ]
    for role, judge in plan.judges.items():
        spec, experience = plan.judge_models[role], None
        tokens = []
        if any(tasks[role] for _, tasks, _ in stages):
            experience = experience_of(plan, store, spec, "judge")
            for stage, tasks, _ in stages:
                tokens += task_tokens(plan, stage, role, tasks[role], experiences, experience, count)
            needs |= _too_long(judge.name, spec, tokens, plan.judges[role].max_tokens)
            # What a judge will read is a part of the basis too.
            shown = (state for _, tasks, _ in stages for task, _ in tasks[role] for state in task.shown)
            unread = {state.run.model for state in shown if state.request is not None}
            read = all(experiences[name].measured for name in unread)
            experience = replace(experience, measured=experience.measured and read)
        paid_calls = sum(len(paid[role]) for *_, paid in stages)
        rows.append(_row(plan, role, judge.name, spec, tokens, paid_calls, experience))
    frame = pd.DataFrame(rows).drop(columns="busy").astype({"seconds": float, "worst_seconds": float})
    spent, reserved = spent_and_held(store, plan.study.name)
    by_row = list(zip(specs, rows, strict=True))
    batches = {row["who"] == "model" for row in rows if row["worst_seconds"]}
    frame.attrs.update(
        seconds=_total_seconds(by_row, plan.study.concurrency),
        worst_seconds=BATCH_SECONDS * len(batches) or None,
        runs=len(plan.runs),
        distinct_calls=len(set(plan.call_ids)),
        budget_aud=plan.study.budget.aud,
        retired={
            row["model"]: (spec.retired, spec.is_retired())
            for spec, row in by_row
            if spec.retired and row["calls"]
        },
        addresses={row["model"]: spec.endpoint for spec, row in by_row if spec.base_url and spec.endpoint},
        contexts=needs,
        rate_of=plan.exchange.day.isoformat(),
        aud_per_usd=plan.exchange.aud_per_usd,
        spent_aud=spent,
        held_aud=reserved,
    )
    if shared := shared_replies(plan, store):
        frame.attrs["shared"] = shared
    return frame


def estimate_summary(frame: pd.DataFrame) -> Summary:
    """Return the estimate as the command line shows it."""
    rows = [
        {name: None if value != value else value for name, value in row.items()}  # NaN is no JSON
        for row in frame.to_dict("records")
    ]
    total = {name: total_aud(frame[name]) for name in ("low_aud", "expected_aud", "worst_aud")}
    attributes: Any = frame.attrs
    budget = attributes["budget_aud"]
    committed = attributes["spent_aud"] + attributes["held_aud"]
    fields: dict[str, Any] = {"rows": rows, "calls": int(frame["calls"].sum())} | total | attributes
    for name in ("expected", "worst"):
        fields[f"{name}_fits"] = None if budget is None else committed + total[f"{name}_aud"] <= budget
    today = utc_now().date()
    is_old = today - date.fromisoformat(fields["rate_of"]) > OLD_RATE
    values = {"today": today, "rate_days": OLD_RATE.days if is_old else 0}
    text = template("runs", "estimate.jinja").render(fields | values, duration=duration)
    return Summary(fields, text)


def confirm_needed(frame: pd.DataFrame, threshold_aud: float) -> None:
    """Refuse to start a study that may cost more than its threshold, within its budget, unless it was confirmed."""
    worst = total_aud(frame["worst_aud"])
    if (budget := frame.attrs.get("budget_aud")) is not None:
        worst = min(worst, max(0.0, budget - frame.attrs["spent_aud"] - frame.attrs["held_aud"]))
    if worst > threshold_aud:
        raise InputError(
            f"this study may cost {money(worst)}, more than budget.confirm_above_aud = {threshold_aud:.2f}; "
            "look at `toolkit estimate` and add --yes"
        )


def _row(
    plan: Plan,
    role: str,
    name: str,
    spec: ModelSpec,
    expected_calls: Iterable[Expected],
    paid: int,
    experience: Experience | None,
) -> dict[str, Any]:
    expected_calls, today = list(expected_calls), utc_now().date()
    calls = math.ceil(sum(row[0] for row in expected_calls))
    full = price_of(spec)
    price = batch_price(full, spec.provider) if plan.study.mode == "batch" else full
    batch = price != full and calls > 0
    # What is written to the provider's cache may cost more; with Anthropic that is what a request marks.
    marked = spec.provider != "anthropic" or (role != "model" and plan.manner.focus == "per_sentence")
    by_call = [list(zip(*tokens, strict=True)) for _, *tokens in expected_calls]
    cheap, likely, dear = ([tokens[at] for tokens in by_call] for at in range(3))
    expected = Usage(math.ceil(sum(row[0] for row in likely)), math.ceil(sum(row[1] for row in likely)))
    return {
        "who": role,
        "model": name,
        "provider": spec.provider,
        "calls": calls,
        "paid_calls": paid,
        "input_tokens": expected.input,
        "low_aud": _cost(cheap, price, partial(aud_cost, day=today)),
        "expected_aud": _cost(likely, price, partial(aud_cost, day=today)),
        "worst_aud": _cost(dear, full, partial(worst_cost, day=today), marked=marked),
        "seconds": None
        if batch
        else _seconds(plan, spec, calls, expected.total, experience, role != "model"),
        "worst_seconds": BATCH_SECONDS if batch else None,
        "busy": calls * experience.seconds if experience else 0.0,
        "basis": "paid" if experience is None else "measured" if experience.measured else "assumed",
    }


def _cost(rows: Iterable[Three], price: Price, cost: Callable[..., float], *, marked: bool = False) -> float:
    """Return what requests cost, of which each row has tokens sent, tokens got and the longest prompt."""
    sums: dict[Any, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for sent, got, longest in rows:
        tier = sums[tuple(dated.rates(longest) for dated in price.dated or (price,))]
        tier[:] = tier[0] + sent, tier[1] + got, max(tier[2], longest)
    return math.fsum(
        cost(
            Usage(math.ceil(sent), math.ceil(got), cache_written=math.ceil(sent) * marked),
            price,
            prompt=longest,
        )
        for sent, got, longest in sums.values()
    )


def _seconds(
    plan: Plan, spec: ModelSpec, calls: int, tokens: int, experience: Experience | None, judge: bool
) -> float:
    """Return the expected time of a row that has its provider to itself: the slowest of latency and both rates."""
    if experience is None:
        return 0.0
    limit = plan.study.limit(spec.provider)
    sharing = ((entry, served) for entry, served in named_models(plan) if served.room == spec.room)
    at_once = min(at_once_of(plan, entry, served) for entry, served in sharing)
    if len(plan.runs) <= IN_ORDER_UP_TO:  # one run after the other, but its judges together
        together = sum(served.room == spec.room for served in plan.judge_models.values())
        at_once = min(at_once, together if judge else 1)
    times = [experience.seconds * max(calls / at_once, 1.0)]
    times += [60 * calls / limit.requests_per_minute] if limit.requests_per_minute else []
    times += [60 * tokens / limit.tokens_per_minute] if limit.tokens_per_minute else []
    return max(times)


def _total_seconds(rows: Sequence[tuple[ModelSpec, Mapping[str, Any]]], concurrency: int) -> float | None:
    """Return the expected time of everything: one provider's rows add up, providers go side by side, judges last.

    No less than what all calls take together that share the places of the study.
    """
    if any(row["seconds"] is None for _, row in rows):
        return None
    sums: dict[bool, dict[Any, float]] = defaultdict(lambda: defaultdict(float))
    for spec, row in rows:
        stage = sums[row["who"] == "model"]
        stage[spec.room] += row["seconds"]
        stage["all"] += row["busy"] / concurrency
    return sum(max(rooms.values()) for rooms in sums.values())


def _too_long(
    name: str, spec: ModelSpec, expected_calls: Sequence[Expected], most: int
) -> dict[str, tuple[int, int]]:
    """Return what a model's longest request needs with its reply, and its context, where that is less."""
    need = math.ceil(max((prompts[1] for *_, prompts in expected_calls), default=0)) + most
    return {name: (need, spec.context_tokens)} if spec.context_tokens and need > spec.context_tokens else {}


def experience_of(plan: Plan, store: Store, spec: ModelSpec, purpose: str) -> Experience:
    """Return what the study's own done calls of a model were like, or what is assumed of it."""
    levels = plan.study.levels.values() if purpose == "run" else ()
    models = [level.model(spec) for level in levels] or [spec]
    done_calls = {
        "study": plan.study.name,
        "state": "done",
        "purpose": purpose,
        "provider": spec.provider,
        "model": spec.model,
        "request.endpoint": spec.endpoint,
        "request.options": {
            "$in": [model.options for model in models]
        },  # at another effort replies are of another length
    }
    documents = store.each_where(Call, done_calls, only=("output_tokens", "latency_ms"), limit=SAMPLE)
    replies = [(call["output_tokens"], call["latency_ms"]) for call in documents]
    if len(replies) < ENOUGH_CALLS:
        expected = EXPECTED_REPLY_TOKENS
        if purpose == "judge":
            each = plan.rubric.asks_reasons == "each"
            expected = EXPECTED_JUDGE_TOKENS + each * REASON_TOKENS * len(plan.rubric.names)
        mean = spec.counted_by[1] * expected
        return Experience(LOW_SHARE * mean, mean, EXPECTED_SECONDS, measured=False)
    lengths, latencies = zip(*replies, strict=True)
    low = sorted(lengths)[len(replies) // 10]
    return Experience(low, sum(lengths) / len(replies), sum(latencies) / len(replies) / 1000, measured=True)


def run_tokens(
    ahead: Iterable[RunState], spec: ModelSpec, experience: Experience, count: Callable[[str, str], int]
) -> Iterator[Expected]:
    """Yield for every run that is still to be asked its calls and tokens: sent and got, low, expected and worst."""
    encoding, times = spec.counted_by
    for state in ahead:
        if state.request is None:
            continue
        text = times * sum(count(message.content, encoding) for message in state.request.messages)
        most = (text + MESSAGE_TOKENS * len(state.request.messages)) * spec.doubt
        # Asked again n times, each time with twice the tokens: 1 + 2 + ... + 2 ** n.
        longest = state.request.max_tokens * (2 ** (state.retries + 1) - 1)
        likely = experience.limited(state.request.max_tokens)
        yield 1.0, (text, text, most * (state.retries + 1)), (*likely, longest), (text, text, most)


def task_tokens(
    plan: Plan,
    stage: Stage,
    role: str,
    tasks: Iterable[tuple[Pending, float]],
    replies: Mapping[str, Experience],
    experience: Experience,
    count: Callable[[str, str], int],
) -> Iterator[Expected]:
    """Yield the same of what a stage asks one judge about replies.

    At worst each question is asked once more, with all that the judge said before.
    """
    spec, repair = plan.judge_models[role], int(plan.manner.repair)
    encoding, times = spec.counted_by

    @cache
    def without_replies(prompt_ids: tuple[str, ...]) -> tuple[ModelRequest, float, float]:
        task, prompt = Task(plan.judges[role], tuple((prompt_id, "", 0) for prompt_id in prompt_ids)), ""
        if stage.blank:
            request, prompt = stage.blank(plan, task)
        else:
            request = stage.requests(plan, task, [""] * len(prompt_ids))[0]
        words = times * sum(count(message.content, encoding) for message in request.messages)
        # A provider may bill the schema, and not all do.
        schema = times * count(request.response_schema or "", encoding)
        extra = MESSAGE_TOKENS * len(request.messages) + schema
        return request, words + times * count(prompt, encoding), extra

    for item, share in tasks:
        request, text, extra = without_replies(tuple(prompt_id for prompt_id, _, _ in item.task.runs))
        shown = [_reply_tokens(plan, state, replies, spec) for state in item.shown]
        # How many pieces a reply has is a matter of its words, whoever counts them.
        reply = [tokens / times for tokens in shown[0]]
        pieces = (reply[0], reply[1], max(_longest(item.shown[0]), reply[2]))
        calls = [share * stage.parts(plan, tokens) for tokens in pieces]
        got = (*experience.limited(request.max_tokens), request.max_tokens * (1.0 + repair))
        again = repair * (request.max_tokens + REPAIR_TOKENS)
        low, likely, longest = (text + sum(tokens[at] for tokens in shown) for at in range(3))
        once = longest + extra
        sent = (low, likely, (once * (1 + repair) + again) * spec.doubt)
        prompts = (low, likely, (once + again) * spec.doubt)
        yield calls[1], _times(calls, sent), _times(calls, got), prompts


def _times(calls: Iterable[float], tokens: Three) -> Three:
    low, expected, worst = map(mul, calls, tokens)
    return low, expected, worst


def _reply_tokens(plan: Plan, state: RunState, replies: Mapping[str, Experience], judge: ModelSpec) -> Three:
    """Return the tokens, as a judge counts them, of a reply that is there, or those expected of one to come."""
    low = expected = float(state.tokens or 0)
    if state.request is not None:
        low, expected = replies[state.run.model].limited(state.request.max_tokens)
    answerer = state.run.spec
    share = judge.counted_by[1] / answerer.counted_by[1]
    doubt = OTHER_TOKENIZER if judge.encoding and judge.encoding != answerer.encoding else 1.0
    # At worst no fewer than of the model's own.
    return low * share, expected * share, _longest(state) * max(share, 1.0) * doubt


def _longest(state: RunState) -> float:
    """Return the most tokens that a reply may have, of the model that gives it."""
    return state.request.max_tokens * 2.0**state.retries if state.request else float(state.tokens or 0)


def refuse_unreachable(plan: Plan, store: Store, *, only_judge: bool = False) -> None:
    """Refuse to ask models that are retired or lack their key; what they answered before stays as good as it was."""
    specs = {(role, plan.judges[role].name): spec for role, spec in plan.judge_models.items()}
    specs |= {} if only_judge else {("model", name): spec for name, spec in plan.models.items()}
    env = read_environment(plan.folder)
    if not any(spec.is_retired() or key_fault(spec, env) for spec in specs.values()):
        return
    frame = estimate_frame(plan, store)
    callers = frame[frame["calls"] > 0][["who", "model"]].itertuples(index=False, name=None)
    ahead = [(key, specs[key]) for key in callers if key in specs]
    retired = [
        f"{role} {name} ({spec.provider} {spec.model}) since {spec.retired}"
        for (role, name), spec in ahead
        if spec.is_retired()
    ]
    if retired:
        raise StudyError(
            f"study {plan.study.name}: retired by their providers: {'; '.join(retired)}. Nothing was sent: name models "
            'that are served, or give the id of one, as in { name = "NAME", model = "ID" }'
        )
    # What another test than that of a rubric has still to ask its judges only its annotators know.
    if plan.test.judged or any(role == "model" for (role, _), _ in ahead):
        refuse_keyless((spec for _, spec in ahead), plan.folder)


def refuse_keyless(specs: Iterable[ModelSpec], folder: Path) -> None:
    """Refuse to ask models without their keys, all of them in one line."""
    env = read_environment(folder)
    faults = dict.fromkeys(f"{spec.provider} {fault}" for spec in specs if (fault := key_fault(spec, env)))
    if faults:
        raise InputError(
            f"{', '.join(faults)}. Nothing was sent: install or export what is missing, or write NAME=... into a .env "
            "file in the working folder or beside the study"
        )
