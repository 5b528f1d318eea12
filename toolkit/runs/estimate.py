"""What a study will cost, before a cent is spent: per model and judge, expected and at worst, in AUD."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from toolkit.errors import InputError
from toolkit.judges.ask import judge_request
from toolkit.models.base import ModelRequest, Usage
from toolkit.models.catalogue import ModelSpec
from toolkit.models.prices import aud_cost, price_of
from toolkit.models.tokens import count_tokens
from toolkit.store.documents import Call, Run
from toolkit.summary import Summary

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

EXPECTED_REPLY_TOKENS: Final = 587
"""Output tokens of the reply that the architecture document shows (seed 002, section 3.1)."""
EXPECTED_JUDGE_TOKENS: Final = 120
"""Output tokens of a judgement: seven scores and short reasons, as the default rubric asks for them."""
COLUMNS: Final = ("who", "model", "calls", "paid_calls", "input_tokens", "expected_aud", "worst_aud")


def estimate_frame(plan: Plan, store: Store) -> pd.DataFrame:
    """Return what is still to be asked, one row per model and judge.

    Expected costs assume replies of 587 tokens and judgements of 120, never more than ``max_tokens``; at worst every
    reply is as long as ``max_tokens`` allows.

    Parameters
    ----------
    plan
        The planned study.
    store
        Its open store: calls that are paid for cost nothing again.

    Returns
    -------
    pandas.DataFrame
        ``who`` (model or judge role), ``model``, ``calls`` (to be asked), ``paid_calls``, ``input_tokens`` (of the
        calls still to be asked), ``expected_aud``, ``worst_aud``.

    Raises
    ------
    PriceError
        When a model has no price.
    """
    import pandas as pd

    paid = {
        call["_id"]
        for call in store.find_by(Call, "_id", plan.call_ids, ("raw", "request", "text"))
        if call["state"] == "done"
    }
    rows = []
    for name, spec in plan.models.items():
        requests = [run.request for run in plan.runs if run.model == name]
        open_requests = [run.request for run in plan.runs if run.model == name and run.call_id not in paid]
        expected = min(EXPECTED_REPLY_TOKENS, plan.study.sampling.max_tokens)
        rows.append(_row("model", name, spec, open_requests, len(requests), expected))
    judged = sum(
        bool(run.get("ensemble_evaluation", {}).get("key") == plan.ensemble_key)
        for run in store.find_by(Run, "call_id", plan.call_ids, ("scores",))
        if run["study"] == plan.study.name
    )
    for role, judge in plan.judges.items():
        # The reply is not there yet; a text of the expected length stands in for it.
        length = min(EXPECTED_REPLY_TOKENS, plan.study.sampling.max_tokens)
        worst_extra = plan.study.sampling.max_tokens - length
        requests = [
            judge_request(judge, plan.rubric, task=run.prompt.text, response="word " * length)
            for run in plan.runs
        ][judged:]
        expected = min(EXPECTED_JUDGE_TOKENS, judge.max_tokens)
        rows.append(
            _row(role, judge.name, plan.judge_models[role], requests, len(plan.runs), expected, worst_extra)
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(
    who: str,
    name: str,
    spec: ModelSpec,
    requests: Sequence[ModelRequest],
    planned: int,
    expected: int,
    worst_extra: int = 0,
) -> dict[str, object]:
    price = price_of(spec)
    counts = [
        sum(count_tokens(m.content, spec.encoding or "o200k_base") for m in r.messages) for r in requests
    ]
    return {
        "who": who,
        "model": name,
        "calls": len(requests),
        "paid_calls": planned - len(requests),
        "input_tokens": sum(counts),
        "expected_aud": sum(aud_cost(Usage(count, expected), price) for count in counts),
        "worst_aud": sum(
            aud_cost(Usage(count + worst_extra, r.max_tokens), price)
            for count, r in zip(counts, requests, strict=True)
        ),
    }


def estimate_summary(frame: pd.DataFrame) -> Summary:
    """Return the estimate as the command line shows it."""
    total = frame[["calls", "expected_aud", "worst_aud"]].sum()
    fields = {
        "rows": frame.to_dict("records"),
        "calls": int(total["calls"]),
        "expected_aud": float(total["expected_aud"]),
        "worst_aud": float(total["worst_aud"]),
    }
    table = frame.to_string(
        index=False, formatters=dict.fromkeys(("expected_aud", "worst_aud"), "{:.4f}".format)
    )
    text = (
        f"{table}\n\n{fields['calls']} calls still to be asked: about {fields['expected_aud']:.2f} AUD, "
        f"at worst {fields['worst_aud']:.2f} AUD"
    )
    return Summary(fields, text)


def confirm_needed(frame: pd.DataFrame, threshold_aud: float) -> None:
    """Refuse to start a study that may cost more than its threshold unless it was confirmed.

    Raises
    ------
    InputError
        Naming both amounts and how to confirm.
    """
    worst = float(frame["worst_aud"].sum())
    if worst > threshold_aud:
        raise InputError(
            f"this study may cost {worst:.2f} AUD, more than budget.confirm_above_aud = {threshold_aud:.2f}; "
            "look at `toolkit estimate` and add --yes"
        )
