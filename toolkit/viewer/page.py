"""Writes runs as one self-contained HTML page that needs neither notebook nor store.

It loads nothing, and its policy forbids loading and every script but its own. The data are packed in parts, so that a
page of 10,000 runs opens as fast as one of ten. The same runs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolkit.errors import InputError
from toolkit.store.filters import planned_runs
from toolkit.viewer.model import HIDDEN, OpenRun, open_runs, with_people
from toolkit.viewer.parts import number, run_html, state
from toolkit.viewer.visible import escaped, visible
from toolkit.words import DIMENSIONS

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

PART: Final = 40  # runs that are packed and opened together
COLUMNS: Final = {
    "run": "run_id", "prompt": "prompt_id", "base": "base", "scenario": "scenario", "model": "model",
    "repeat": "repeat", "bin": "length_bin", "composite": "composite", "strict": "composite_strict",
    "sd": "composite_std", "judges": "judge_count", "people": "people_composite", "raters": "people_count",
    "aud": "aud_cost", "tokens": "output_tokens", "ms": "latency_ms", **dict(zip(DIMENSIONS, DIMENSIONS, strict=True)),
}  # fmt: skip
"""Fields of a run in the table of the app, with their columns of the runs frame."""
_STATIC: Final = {
    "prompt": ("prompt", None), "model": ("model", None), "rep.": ("repeat", 0), "bin": ("bin", None),
    "status": ("state", None), "composite": ("composite", 2), "strict": ("strict", 2), "SD": ("sd", 2),
    "people": ("people", 2), "AUD": ("aud", 4), "tokens": ("tokens", 0),
}  # fmt: skip
_FOLDER: Final = Path(__file__).parent
STYLE: Final = (_FOLDER / "app.css").read_text("utf-8")


def rows(runs: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the table of runs by column, with ``None`` for missing values and text made visible."""
    columns = {}
    for name, column in COLUMNS.items():
        values = runs[column].astype(object).where(runs[column].notna(), None).tolist()
        columns[name] = [visible(value) if isinstance(value, str) else value for value in values]
    states = runs[["status", "excluded", "defect", "judged", HIDDEN]]
    states = states.astype(object).where(states.notna(), None)
    columns["state"] = [visible(state(row)) for row in states.to_dict("records")]
    return columns


def heading(plan: Plan) -> dict[str, Any]:
    """Return the heading of the table."""
    words = {"name": plan.study.name, "note": plan.note, "dataset": plan.dataset.version}
    return {name: visible(text) for name, text in words.items()} | {"dimensions": list(DIMENSIONS)}


def static_html(table: Mapping[str, Sequence[Any]], opened: Sequence[OpenRun], count: int) -> str:
    """Return runs as HTML without script: a table of the first ones, and the opened ones in full."""
    heads = "".join(f"<th>{name}</th>" for name in _STATIC)
    lines = []
    for index in range(len(table["run"])):
        values = [(table[name][index], digits) for name, digits in _STATIC.values()]
        texts = [
            number(value, digits) if digits is not None else "–" if value is None else value
            for value, digits in values
        ]
        lines.append(f"<tr>{''.join(f'<td>{escaped(text)}</td>' for text in texts)}</tr>")
    notice = (
        f"{len(lines):,} of {count:,} runs. The viewer itself needs a running notebook, or an exported page."
    )
    articles = "".join(f"<article>{run_html(run)}</article>" for run in opened)
    return (
        f"<div class='tv'><p class='tv-soft'>{notice}</p><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>{articles}</div>"
    )


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
        When there is no run.
    """
    from toolkit.files import write_atomically

    if runs.empty:
        raise InputError("page of 0 runs: give rows of study.runs()")
    ids = [str(run_id) for run_id in runs["run_id"]]
    if extra := [run_id for run_id in pair or () if run_id not in set(ids)]:
        all_runs = planned_runs(plan, store).set_index("run_id", drop=False)
        runs = all_runs.loc[[*ids, *extra]]
        ids += extra
    frame = with_people(plan, store, runs, blind=blind)
    data = heading(plan) | {"rows": rows(frame), "chosen": visible(chosen), "pair": pair, "part": PART}
    opened = open_parts(plan, store, frame, ids)
    content = page_html(data, opened)
    named = (*ids, "beside", *(pair or ()), *(() if blind else ("with scores of running rounds",)))
    digest = hashlib.sha256("\n".join(named).encode()).hexdigest()[:8]
    target = Path(path) if path is not None else plan.output / f"answers-{digest}.html"
    return write_atomically(target, content.encode())


def open_parts(plan: Plan, store: Store, frame: pd.DataFrame, ids: Sequence[str]) -> Iterator[list[OpenRun]]:
    """Open runs in parts: those of a large study do not fit into memory at once."""
    for start in range(0, len(ids), PART):
        yield open_runs(plan, store, frame, ids[start : start + PART])


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
    """Return data as text without characters that have a meaning in HTML."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()
