"""HTML of runs for the notebook, and one self-contained page of runs that needs neither notebook nor store.

Every text passes `escaped`, `marked_text` or `markdown_html`. The page loads nothing, and its policy forbids
loading and every script but its own. Its data are packed in parts, so that 10,000 runs open as fast as ten.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.files import sha256_hex
from toolkit.judges.judgement import Judgement
from toolkit.report.visible import escaped, marked_text, visible
from toolkit.store.filters import planned_runs
from toolkit.store.ratings import UNFINISHED, Rating
from toolkit.viewer.markdown import markdown_html
from toolkit.viewer.model import HIDDEN, LedgerCall, OpenRun, open_runs, rows_of, with_people
from toolkit.words import DIMENSIONS, scale_words

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

PART = 40  # runs that are packed and opened together
COLUMNS = {
    "run": "run_id", "prompt": "prompt_id", "base": "base", "scenario": "scenario", "model": "model",
    "repeat": "repeat", "bin": "length_bin", "composite": "composite", "strict": "composite_strict",
    "sd": "composite_std", "judges": "judge_count", "people": "people_composite", "raters": "people_count",
    "aud": "aud_cost", "tokens": "output_tokens", "ms": "latency_ms",
}  # fmt: skip
"""Fields of a run in the table of the app, with their columns of the runs frame."""
_FOLDER = Path(__file__).parent
STYLE = (_FOLDER / "app.css").read_text("utf-8")
MISSING = "–"
IGNORED_BY_MATHJAX = "tex2jax_ignore mathjax_ignore"
"""Classes of elements with text of models, in which a dollar sign begins no formula."""
_NO_SHORTCUTS = "data-lm-suppress-shortcuts='true'"
"""Attribute of elements with focus: JupyterLab would use arrow keys and letters as its shortcuts."""


def number(value: Any, digits: int = 2, unit: str = "") -> str:
    """Return a number as text: a dash where it is missing, and never a zero for a small one."""
    if value is None:
        return MISSING
    least = 10.0**-digits
    small = 0 < value < least / 2
    return f"{unit} {'<' if small else ''}{least if small else value:,.{digits}f}".strip()


def state(facts: Mapping[Any, Any]) -> str:
    """Return the state of a run: failed, the defect of its reply, or whether it is judged or hidden."""
    if facts["status"] != "succeeded":
        return str(facts["status"])
    verdict = str(facts["defect"]) if facts["excluded"] else "judged" if facts["judged"] else "not judged"
    return f"hidden, {verdict}" if facts.get(HIDDEN) else verdict


def scrolled(name: str, content: str, tag: str = "pre", find: str = "") -> str:
    """Return a text in a named box that a keyboard can scroll; ``find`` names a text as received, for searches."""
    attribute = f" data-find='{find}'" if find else ""
    return (
        f"<{tag} dir='auto' class='tv-text {IGNORED_BY_MATHJAX}' tabindex='0' {_NO_SHORTCUTS} role='region'{attribute} "
        f"aria-label='{escaped(name)}'>{content}</{tag}>"
    )


def run_html(run: OpenRun) -> str:
    """Return a run as HTML: facts, prompt, reply, judges, calls."""
    prompt = box("Prompt", scrolled("Prompt", escaped(run.prompt), find="prompt"), opened=True)
    thoughts = box("Thoughts, which are not judged", scrolled("Thoughts", escaped(run.thoughts)))
    thoughts = thoughts if run.thoughts else ""
    title = f"{run.facts['prompt_id']} · {run.facts['model']} · repeat {run.facts['repeat']}"
    calls = box("Calls to the model", _calls([run.call] if run.call else [], texts=False))
    return (
        f"<h2>{escaped(title)}</h2>{_facts(run)}<div class='tv-sides'>"
        f"<div>{prompt}{_reply(run)}{thoughts}</div><div>{_judges(run)}{calls}</div></div>"
    )


def _facts(run: OpenRun) -> str:
    facts = run.facts
    composite = number(facts["composite"])
    if facts["composite_low"] is not None:
        composite += f" [{number(facts['composite_low'])}, {number(facts['composite_high'])}]"
    if facts["judge_count"] is not None:
        composite += f", {facts['judge_count']} judges"
    people = number(facts.get("people_composite"))
    people += "" if people == MISSING else f" ({facts['people_count']})"
    tokens = f"{number(facts['input_tokens'], 0)} in, {number(facts['output_tokens'], 0)} out"
    fields = {
        "Composite": composite,
        "People": people,
        "Scenario": facts["scenario"] or MISSING,
        "Length bin": facts["length_bin"] or MISSING,
        "Tokens": tokens + (" (estimated)" if facts["tokens_estimated"] else ""),
        "Cost": f"{number(facts['aud_cost'], 6, 'AUD')}, judges {number(facts['judge_aud_cost'], 6, 'AUD')}",
        "Run": run.run_id,
    }
    return _spans(fields) + _trouble(facts)


def _spans(fields: Mapping[str, Any]) -> str:
    spans = "".join(f"<span><b>{name}</b> {escaped(value)}</span>" for name, value in fields.items())
    return f"<div class='tv-facts'>{spans}</div>"


def _trouble(facts: Mapping[str, Any]) -> str:
    text = ""
    if facts["status"] == "failed":
        text = f"No reply: {facts['failure'] or 'reason unknown'}"
    elif facts["excluded"]:
        text = f"The reply is not whole ({facts['defect']}) and is left out: no judge's word on it counts."
    elif facts["defect"] is not None:
        text = f"The reply is not whole ({facts['defect']}); the study counts it all the same."
    return f"<p class='tv-bad'>{escaped(text)}</p>" if text else ""


def _reply(run: OpenRun) -> str:
    if run.reply is None:
        return ""
    if not run.reply.strip():
        nothing = "<p class='tv-soft'>The model answered with nothing but white space.</p>"
        return box("Reply", nothing, opened=True)
    legend = f" <span class='tv-soft'>marked: {escaped(run.marked_as)}</span>" if run.marked else ""
    rendered = markdown_html(run.reply, run.marked)
    raw = "Reply as received, no Markdown"
    received = box(raw, scrolled(raw, marked_text(run.reply, run.marked), find="reply"))
    return box(f"Reply{legend}", scrolled("Reply", rendered, "div"), opened=True) + received


def _judges(run: OpenRun) -> str:
    name = "Judges and people" if run.people else "Judges"
    if run.hidden_for:
        notice = f"{run.hidden_for}: no score of it is shown until that round is finished."
        return f"<h3>{name}</h3><p class='tv-bad'>Being rated blind by {escaped(notice)}</p>"
    none = "<p class='tv-soft'>No judgement of this reply counts in this study.</p>" * (not run.judges)
    table = _score_table(run) if run.judges or run.people else ""
    comments = [_judge_comment(judgement, calls) for judgement, calls in run.judges]
    comments += map(_remark, run.people)
    return f"<h3>{name}</h3>{none}{table}{''.join(comments)}"


def _score_table(run: OpenRun) -> str:
    judgements = [judgement for judgement, _ in run.judges]
    heads = [(judgement.label, judgement.model) for judgement in judgements]
    heads += [("mean", "of the judges")] if judgements else []
    heads += [
        (rating.judge, "" if rating.finished else f"{UNFINISHED}, does not count") for rating in run.people
    ]
    head = "".join(
        f"<th class='tv-number' scope='col'>{escaped(name)}<br><span class='tv-soft'>{escaped(more)}</span></th>"
        for name, more in heads
    )
    rows = "".join(
        f"<tr><th scope='row'>{name.replace('_', ' ')}</th>{_scores(run, judgements, name)}</tr>"
        for name in run.scheme.columns
    )
    first = f"<th scope='col'>Dimension ({scale_words(run.scheme.scale, '-')})</th>"
    return f"<table aria-label='Scores'><thead><tr>{first}{head}</tr></thead><tbody>{rows}</tbody></table>"


def _scores(run: OpenRun, judgements: Sequence[Judgement], name: str) -> str:
    if name.startswith("composite"):
        values = [getattr(judgement, name) for judgement in judgements]
        people = [getattr(rating.judgement(), name) for rating in run.people]
    else:
        values = [(judgement.scores or {}).get(name) for judgement in judgements]
        people = [rating.scores.get(name) for rating in run.people]
    mean = [f"<b>{number(run.facts[name])}</b>"] if judgements else []
    cells = (*map(number, values), *mean, *map(number, people))
    return "".join(f"<td class='tv-number'>{cell}</td>" for cell in cells)


def _remark(rating: Rating) -> str:
    day = "" if rating.created_at is None else f", {rating.created_at:%Y-%m-%d}"
    origin = "at the desk" if rating.source == "desk" else "from a file"
    label = f"{rating.judge}, version {rating.version}, {origin}{day}"
    unfinished = "" if rating.finished else f"<p class='tv-bad'>{escaped(rating.judgement().reason)}</p>"
    return f"<div class='tv-comment'><b>{escaped(label)}</b>{unfinished}{_reasons(rating.reasons)}</div>"


def _judge_comment(judgement: Judgement, calls: Sequence[LedgerCall]) -> str:
    label = f"{judgement.label}, {judgement.model}"
    label += ", of the same family as the model" if judgement.related else ""
    label += ", was shown an error of its own first" if judgement.repaired else ""
    parts = [f"<b>{escaped(label)}</b>"]
    if judgement.reason is not None:
        parts.append(f"<p class='tv-bad'>No score: {escaped(judgement.reason)}</p>")
    parts += [
        _reasons(judgement.reasons),
        _findings(judgement),
        box(f"Raw reply of {escaped(judgement.label)}", _calls(calls, texts=True)),
    ]
    return f"<div class='tv-comment'>{''.join(parts)}</div>"


def _reasons(reasons: str | None) -> str:
    return f"<pre class='{IGNORED_BY_MATHJAX}'>{escaped(reasons)}</pre>" if reasons else ""


def _findings(judgement: Judgement) -> str:
    findings = (judgement.detail or {}).get("findings") or ()
    items = "".join(
        f"<li>{escaped(f['severity'])}, {escaped(f['dimension'])}, segment {escaped(f['segment'])}: "
        f"{escaped(f['what'])}</li>"
        for f in findings
    )
    return f"<ul class='{IGNORED_BY_MATHJAX}'>{items}</ul>" if items else ""


def _calls(calls: Sequence[LedgerCall], *, texts: bool) -> str:
    if not calls:
        return "<p class='tv-soft'>The ledger of this store has no call of it.</p>"
    return "".join(_call(call, texts) for call in calls)


def _call(call: LedgerCall, texts: bool) -> str:
    attempts = call.get("attempts") or ()
    tried = (f"{row.get('outcome')} ({number(row.get('ms'), 0)} ms)" for row in attempts)
    fields = {
        "Call": call["_id"][:16],
        "State": call["state"],
        "Answered by": call.get("answered_by") or MISSING,
        "Tokens": f"{number(call.get('input_tokens'), 0)} in, {number(call.get('output_tokens'), 0)} out",
        "Cost": number(call.get("aud_cost"), 6, "AUD"),
        "Latency": f"{number(call.get('latency_ms'), 0)} ms",
        "Attempts": ", ".join(tried) or MISSING,
        "Ended by": call.get("finish_reason") or MISSING,
    }
    reason = ": ".join(map(str, (call.get("failure") or {}).values()))
    failure = f"<p class='tv-bad'>{escaped(reason)}</p>" if reason else ""
    text = scrolled("Raw reply", escaped(call["text"])) if texts and call.get("text") is not None else ""
    return f"{_spans(fields)}{failure}{text}"


def box(summary: str, content: str, *, opened: bool = False) -> str:
    """Return a box that opens and closes; ``summary`` and ``content`` are HTML."""
    head = f"<summary {_NO_SHORTCUTS}>{summary}</summary>"
    return f"<details{' open' if opened else ''}>{head}{content}</details>"


def rows(runs: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the table of runs by column, with ``None`` for missing values and text made visible."""
    present = runs.astype(object).where(runs.notna(), None)
    columns = {}
    dimensions = runs.attrs.get("dimensions", DIMENSIONS)
    for name, column in {**COLUMNS, **dict(zip(dimensions, dimensions, strict=True))}.items():
        columns[name] = [visible(value) if isinstance(value, str) else value for value in present[column]]
    states = present[["status", "excluded", "defect", "judged", HIDDEN]].to_dict("records")
    columns["state"] = [visible(state(row)) for row in states]
    return columns


def heading(plan: Plan) -> dict[str, Any]:
    """Return the heading of the table."""
    words = {"name": plan.study.name, "note": plan.note, "dataset": plan.dataset.version}
    return {name: visible(text) for name, text in words.items()} | {
        "dimensions": list(plan.rubric.names),
        "scale": scale_words(plan.rubric.scale),
        "ends": list(plan.rubric.scale),
    }


def write_page(
    plan: Plan,
    store: Store,
    runs: pd.DataFrame,
    *,
    path: Path | str | None = None,
    pair: tuple[str, str] | None = None,
    chosen: str = "",
    blind: bool = True,
) -> Path:
    """Write runs, as many as there are, as one HTML page and return its path.

    Parameters
    ----------
    plan, store
        The study's: `Study.plan` and `Study.store`.
    runs
        Rows of its runs frame, in the order of the page.
    path
        The file; by default one in the output folder of the study, named by a hash of the runs.
    pair
        Ids of two runs that the page opens side by side.
    chosen
        The selection of runs, in words.
    blind
        Whether the scores of replies in running rounds of ratings are hidden.

    Raises
    ------
    InputError
        When there is no run, or the file is there and is no such page.
    """
    from toolkit.report.manifest import write_own

    content, ids = page_of(plan, store, runs, pair, chosen, blind)
    named = (*ids, "beside", *(pair or ()), *(() if blind else ("with scores of running rounds",)))
    digest = sha256_hex("\n".join(named))[:8]
    target = Path(path) if path is not None else plan.output / f"answers-{digest}.html"
    return write_own(target, content, b"class='tv-part'")


def page_of(
    plan: Plan,
    store: Store,
    runs: pd.DataFrame,
    pair: tuple[str, str] | None = None,
    chosen: str = "",
    blind: bool = True,
) -> tuple[bytes, list[str]]:
    """Return the page of `write_page` in bytes, and the ids of its runs."""
    if runs.empty:
        raise InputError("page of 0 runs: give rows of study.runs()")
    ids = [str(run_id) for run_id in runs["run_id"]]
    if extra := [run_id for run_id in pair or () if run_id not in set(ids)]:
        ids += extra
        runs = rows_of(plan, planned_runs(plan, store), ids)
    frame = with_people(plan, store, runs, blind=blind)
    data = heading(plan) | {"rows": rows(frame), "chosen": visible(chosen), "pair": pair, "part": PART}
    starts = range(0, len(ids), PART)  # those of a large study do not fit into memory at once
    opened = (open_runs(plan, store, frame, ids[start : start + PART]) for start in starts)
    return page_html(data, opened).encode(), ids


def page_html(data: Mapping[str, Any], parts: Iterator[Sequence[OpenRun]]) -> str:
    """Return the page."""
    script, policy = script_and_policy()
    packed = "".join(
        f"<script type='text/plain' class='tv-part'>{_packed([run_html(run) for run in part])}</script>\n"
        for part in parts
    )
    name = escaped(data["name"])
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        "<meta name='referrer' content='no-referrer'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Answers of {name}</title><style>{STYLE}</style></head>\n"
        f"<body class='tv-page'><main><noscript>Answers of {name}: this page needs scripts, its own ones "
        "only, to open its data.</noscript></main>\n"
        f"<script type='text/plain' id='tv-data'>{_packed(data)}</script>\n{packed}"
        f"<script type='module'>{script}</script></body></html>\n"
    )


@cache
def script_and_policy() -> tuple[str, str]:
    """Return the script of a page, and the policy that allows it alone, by its hash: a nonce would change the bytes."""
    script = (_FOLDER / "app.js").read_text("utf-8") + "\nstartPage();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return script, policy


def _packed(data: object) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()
