"""Pieces of HTML that the notebook and the page share. Every text passes `shown`, `marked_text` or `markdown_html`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from toolkit.judges.judgement import Judgement
from toolkit.viewer.look import IGNORED_BY_MATHJAX
from toolkit.viewer.markdown import markdown_html
from toolkit.viewer.model import JudgeSaid, KeptCall, OpenRun
from toolkit.viewer.visible import marked_text, shown
from toolkit.words import DIMENSIONS

MISSING: Final = "–"
COLUMNS: Final = ("prompt", "model", "rep.", "bin", "status", "composite", "judges' SD", "AUD", "tokens", "s")
"""Of the table of runs; AUD without the judges, tokens of the reply, seconds until it was there."""
_NUMBERS: Final = frozenset(("rep.", "composite", "judges' SD", "AUD", "tokens", "s"))


def number(value: Any, digits: int = 2, unit: str = "") -> str:
    """Return a number for people, and a dash where it is missing.

    Examples
    --------
    >>> number(2.345), number(None), number(0.5, 4, "AUD")
    ('2.35', '–', 'AUD 0.5000')
    """
    return MISSING if value is None else f"{unit} {value:,.{digits}f}".strip()


def cells(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the row of a run in the table of runs, as text.

    Parameters
    ----------
    facts
        Its row of the runs frame, with ``None`` for what is missing.
    """
    state = facts["status"] if not facts["excluded"] else f"{facts['defect']}"
    if state == "succeeded":
        state = "judged" if facts["judged"] else "not judged"
    latency = facts["latency_ms"]
    return (
        str(facts["prompt_id"]),
        str(facts["model"]),
        str(facts["repeat"]),
        str(facts["length_bin"] or MISSING),
        str(state),
        number(facts["composite"]),
        number(facts["composite_std"]),
        number(facts["aud_cost"], 4),
        number(facts["output_tokens"], 0),
        number(None if latency is None else latency / 1000, 1),
    )


def row(values: Iterable[str], tag: str = "td") -> str:
    """Return the cells of a row of the table of runs; ``values`` are HTML."""
    kinds = (" class='tv-number'" if name in _NUMBERS else "" for name in COLUMNS)
    return "".join(f"<{tag}{kind}>{value}</{tag}>" for value, kind in zip(values, kinds, strict=True))


def title(run: OpenRun) -> str:
    """Return the name of a run for people, as text."""
    return f"{run.facts['prompt_id']} · {run.facts['model']} · repeat {run.facts['repeat']}"


def run_html(run: OpenRun) -> str:
    """Return everything that is known of a run: facts, prompt, reply, judges, calls.

    Parameters
    ----------
    run
        The run.
    """
    return "".join(
        (
            f"<h2>{shown(title(run))}</h2>",
            _facts(run),
            _box(
                "Prompt", f"<pre class='tv-text {IGNORED_BY_MATHJAX}'>{shown(run.prompt)}</pre>", opened=True
            ),
            _reply(run),
            _judges(run),
            _box("Calls to the model", _calls([run.call] if run.call else [], texts=False)),
        )
    )


def _facts(run: OpenRun) -> str:
    facts = run.facts
    composite = number(facts["composite"])
    if facts["composite_low"] is not None:
        composite += f" [{number(facts['composite_low'])}, {number(facts['composite_high'])}]"
    if facts["judge_count"] is not None:
        composite += f", {facts['judge_count']} judges"
    tokens = f"{number(facts['input_tokens'], 0)} in, {number(facts['output_tokens'], 0)} out"
    told = {
        "Composite": composite,
        "Scenario": facts["scenario"] or MISSING,
        "Length bin": facts["length_bin"] or MISSING,
        "Tokens": tokens + (" (estimated)" if facts["tokens_estimated"] else ""),
        "Cost": f"{number(facts['aud_cost'], 6, 'AUD')}, judges {number(facts['judge_aud_cost'], 6, 'AUD')}",
        "Latency": f"{number(facts['latency_ms'], 0)} ms",
        "Attempts": facts["attempts"] if facts["attempts"] is not None else MISSING,
        "Ended by": facts["finish_reason"] or MISSING,
        "Run": run.run_id,
    }
    spans = "".join(f"<span><b>{name}</b> {shown(value)}</span>" for name, value in told.items())
    return f"<div class='tv-facts'>{spans}</div>{_trouble(facts)}"


def _trouble(facts: Mapping[str, Any]) -> str:
    said = ""
    if facts["status"] == "failed":
        said = f"No reply: {facts['failure'] or 'reason unknown'}"
    elif facts["excluded"]:
        said = f"The reply is not whole ({facts['defect']}) and is left out: no judge's word on it counts."
    elif facts["defect"] is not None:
        said = f"The reply is not whole ({facts['defect']}); the study counts it all the same."
    return f"<p class='tv-bad'>{shown(said)}</p>" if said else ""


def _reply(run: OpenRun) -> str:
    if run.reply is None:
        return ""
    legend = f" <span class='tv-soft'>marked: {shown(run.marked_as)}</span>" if run.marked else ""
    drawn = markdown_html(run.reply, run.marked)
    raw = f"<pre class='tv-text {IGNORED_BY_MATHJAX}'>{marked_text(run.reply, run.marked)}</pre>"
    return _box(
        f"Reply{legend}", f"<div class='tv-text {IGNORED_BY_MATHJAX}'>{drawn}</div>", opened=True
    ) + _box("Reply as received, no Markdown", raw)


def _judges(run: OpenRun) -> str:
    if not run.judges:
        return "<h3>Judges</h3><p class='tv-soft'>No judgement of this reply counts in this study.</p>"
    judgements = [one.judgement for one in run.judges]
    head = "".join(
        f"<th class='tv-number'>{shown(one.label)}<br><span class='tv-soft'>{shown(one.model)}</span></th>"
        for one in judgements
    )
    rows = "".join(
        f"<tr><td>{name.replace('_', ' ')}</td>{_scores(judgements, name)}"
        f"<td class='tv-number'><b>{number(run.facts[name])}</b></td></tr>"
        for name in (*DIMENSIONS, "composite", "composite_strict")
    )
    table = (
        f"<table><thead><tr><th>Dimension (0-5)</th>{head}<th class='tv-number'>mean</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
    return f"<h3>Judges</h3>{table}{''.join(_said(one) for one in run.judges)}"


def _scores(judgements: Sequence[Judgement], name: str) -> str:
    values = [
        getattr(one, name) if name.startswith("composite") else (one.scores or {}).get(name)
        for one in judgements
    ]
    return "".join(f"<td class='tv-number'>{number(value)}</td>" for value in values)


def _said(said: JudgeSaid) -> str:
    one = said.judgement
    about = f"{one.label}, {one.model}"
    about += ", of the same family as the model" if one.related else ""
    about += ", was shown an error of its own first" if one.repaired else ""
    parts = [f"<b>{shown(about)}</b>"]
    if one.reason is not None:
        parts.append(f"<p class='tv-bad'>No score: {shown(one.reason)}</p>")
    if one.reasons:
        parts.append(f"<pre class='{IGNORED_BY_MATHJAX}'>{shown(one.reasons)}</pre>")
    parts.append(_findings(one))
    more = "" if said.complete else (
        "<p class='tv-soft'>The judges of this study are asked in another way by now: this is the call that the "
        "judgement names, and perhaps not its only one.</p>"
    )  # fmt: skip
    parts.append(_box(f"Raw reply of {shown(one.label)}", more + _calls(said.calls, texts=True)))
    return f"<div class='tv-said'>{''.join(parts)}</div>"


def _findings(one: Judgement) -> str:
    found = (one.detail or {}).get("findings") or ()
    items = "".join(
        f"<li>{shown(f['severity'])}, {shown(f['dimension'])}, segment {shown(f['segment'])}: {shown(f['what'])}</li>"
        for f in found
    )
    return f"<ul class='{IGNORED_BY_MATHJAX}'>{items}</ul>" if items else ""


def _calls(calls: Sequence[KeptCall], *, texts: bool) -> str:
    if not calls:
        return "<p class='tv-soft'>The ledger of this store has no call of it.</p>"
    return "".join(_call(call, texts) for call in calls)


def _call(call: KeptCall, texts: bool) -> str:
    attempts = ", ".join(f"{outcome} ({number(ms, 0)} ms)" for outcome, ms in call.attempts) or MISSING
    told = {
        "Call": call.call_id[:16],
        "State": call.state,
        "Answered by": call.answered_by or MISSING,
        "Tokens": f"{number(call.input_tokens, 0)} in, {number(call.output_tokens, 0)} out",
        "Cost": number(call.aud_cost, 6, "AUD"),
        "Latency": f"{number(call.latency_ms, 0)} ms",
        "Attempts": attempts,
        "Ended by": call.finish_reason or MISSING,
    }
    spans = "".join(f"<span><b>{name}</b> {shown(value)}</span>" for name, value in told.items())
    failure = f"<p class='tv-bad'>{shown(call.failure)}</p>" if call.failure else ""
    text = (
        f"<pre class='tv-text {IGNORED_BY_MATHJAX}'>{shown(call.text)}</pre>"
        if texts and call.text is not None
        else ""
    )
    return f"<div class='tv-facts'>{spans}</div>{failure}{text}"


def _box(summary: str, content: str, *, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{summary}</summary>{content}</details>"
