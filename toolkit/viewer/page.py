"""HTML of runs for the notebook, and one self-contained page of runs that needs neither notebook nor store.

Every text passes `escaped`, `marked_text` or `markdown_html`; the HTML stands in ``page.jinja``. The page loads
nothing, and its policy forbids loading and every script but its own. Its data are packed in parts, so that 10,000 runs
open as fast as ten.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from toolkit.errors import InputError
from toolkit.files.digests import sha256_hex
from toolkit.files.reading import read_toml
from toolkit.judges.judgement import Judgement
from toolkit.report.loopback import script_of, script_policy
from toolkit.report.visible import escaped, marked_text, visible
from toolkit.store.filters import planned_runs
from toolkit.viewer.markdown import markdown_html
from toolkit.viewer.model import HIDDEN, OpenRun, open_runs, rows_of, with_people
from toolkit.words import DIMENSIONS, LENGTH_BINS, pages, scale_words

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

_FOLDER = Path(__file__).parent
PART = 40  # runs that are packed and opened together
COLUMNS: dict[str, str] = read_toml(_FOLDER / "page.toml")["columns"]
"""Fields of a run in the table of the app, with their columns of the runs frame."""
STYLE = (_FOLDER / "app.css").read_text("utf-8")


def number(value: Any, digits: int = 2, unit: str = "") -> str:
    """Return a number as text: a dash where it is missing, and never a zero for a small one."""
    if value is None:
        return "–"
    least = 10.0**-digits
    small = 0 < value < least / 2
    return f"{unit} {'<' if small else ''}{least if small else value:,.{digits}f}".strip()


def state(facts: Mapping[Any, Any]) -> str:
    """Return the state of a run: failed, the defect of its reply, or whether it is judged or hidden."""
    if facts["status"] != "succeeded":
        return str(facts["status"])
    verdict = str(facts["defect"]) if facts["excluded"] else "judged" if facts["judged"] else "not judged"
    return f"hidden, {verdict}" if facts.get(HIDDEN) else verdict


def score(judgement: Judgement, name: str) -> float | None:
    """Return a composite, or the score of a dimension, of a judge or a person."""
    if name.startswith("composite"):
        return getattr(judgement, name)
    return (judgement.scores or {}).get(name)


@cache
def _macros() -> Any:
    """Return the macros of ``page.jinja``: whatever they are given is shown as text, unless it is HTML of ours."""
    filters = {
        "number": number,
        "score": score,
        "scale": scale_words,
        "rendered": lambda reply, spans: Markup(markdown_html(reply, spans)),
        "marked": lambda reply, spans: Markup(marked_text(reply, spans)),
    }
    # JupyterLab would use arrow keys and letters as its shortcuts; MathJax would take a dollar sign for a formula.
    keyboard = Markup("data-lm-suppress-shortcuts='true'")
    ignored = "tex2jax_ignore mathjax_ignore"
    words = pages(
        "viewer",
        filters,
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escaped(value)),
    )
    return words.get_template("page.jinja").make_module({"keyboard": keyboard, "ignored": ignored})


def run_html(run: OpenRun) -> str:
    """Return a run as HTML: facts, prompt, reply, judges, calls."""
    return str(_macros().run(run))


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
    words = {
        "name": plan.study.name,
        "warning": plan.warning,
        "note": plan.note,
        "dataset": plan.dataset.version,
    }
    factor = plan.study.factor
    words["factor"] = factor.noun if factor else "prompt length"
    return {name: visible(text) for name, text in words.items()} | {
        "levels": [visible(level) for level in (factor.levels if factor else LENGTH_BINS)],
        "score": plan.study.analysis.score,
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

    Examples
    --------
    >>> write_page(study.plan, study.store, study.runs().head(5), path="five.html")  # doctest: +SKIP
    PosixPath('five.html')
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
    packed = (_packed([run_html(run) for run in part]) for part in parts)
    return str(_macros().page(data["name"], policy, STYLE, _packed(data), packed, script))


@cache
def script_and_policy() -> tuple[str, str]:
    """Return the script of a page, and the policy that allows it alone."""
    script = script_of(_FOLDER / "app.js") + "\nstartPage();\n"
    return script, script_policy(script)


def _packed(data: object) -> str:
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 6)).decode()
