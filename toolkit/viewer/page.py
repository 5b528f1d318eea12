"""One self-contained HTML page of runs for somebody who has neither notebook nor store.

Nothing of it is loaded from anywhere, its policy forbids that and every script but its own, and it is whole without
any script: links, boxes and print are plain HTML. The same runs give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from toolkit.errors import InputError
from toolkit.filters import planned_runs
from toolkit.viewer.beside import beside_html
from toolkit.viewer.look import PAGE_STYLE, SCRIPT, STYLE
from toolkit.viewer.model import OpenRun, open_runs
from toolkit.viewer.parts import COLUMNS, cells, row, run_html, title
from toolkit.viewer.people import with_people
from toolkit.viewer.visible import shown

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store

LARGEST_PAGE: Final = 500  # runs on one page; nobody reads more, and a browser takes its time over them
# The hash and not a nonce: it lets this script run and no other, and the page stays the same bytes.
_DIGEST: Final = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{_DIGEST}'; "
    "base-uri 'none'; form-action 'none'"
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
    """Write runs as one HTML page and return its path.

    Parameters
    ----------
    plan, store
        The study's: `Study.plan` and `Study.store`.
    runs
        Rows of its runs frame, in the order in which they will stand there.
    path
        The file; by default one in the output folder of the study, named by a hash of the runs.
    pair
        Ids of two runs to be put side by side at the top.
    chosen
        How the runs were chosen, in words.
    blind
        Whether the scores of replies in running rounds of ratings are left out.

    Raises
    ------
    InputError
        When there is no run, or there are more than ``LARGEST_PAGE``.
    """
    from toolkit.files import write_atomically

    if not 0 < len(runs) <= LARGEST_PAGE:
        raise InputError(
            f"page of {len(runs)} runs: a page takes 1 to {LARGEST_PAGE}; filter the runs until they fit"
        )
    ids = [str(run_id) for run_id in runs["run_id"]]
    frame = with_people(plan, store, runs if pair is None else planned_runs(plan, store), blind=blind)
    extra = [run_id for run_id in pair or () if run_id not in ids]
    opened = {run.run_id: run for run in open_runs(plan, store, frame, [*ids, *extra])}
    beside = None if pair is None else (opened[pair[0]], opened[pair[1]])
    content = page_html(
        [opened[run_id] for run_id in ids],
        name=plan.study.name,
        note=plan.note,
        dataset=plan.dataset.version,
        pair=beside,
        chosen=chosen,
    )
    named = (*ids, "beside", *(pair or ()), *(() if blind else ("with scores of running rounds",)))
    digest = hashlib.sha256("\n".join(named).encode()).hexdigest()[:8]
    place = Path(path) if path is not None else plan.output / f"answers-{digest}.html"
    return write_atomically(place, content.encode())


def page_html(
    runs: Sequence[OpenRun],
    *,
    name: str,
    note: str,
    dataset: str,
    pair: tuple[OpenRun, OpenRun] | None = None,
    chosen: str = "",
) -> str:
    """Return the page."""
    how = f" ({shown(chosen)})" if chosen else ""
    about = f"{len(runs)} runs{how} of study {shown(name)}, dataset {shown(dataset)}. {shown(note)}"
    together = f"<section id='beside'>{beside_html(*pair)}</section>" if pair is not None else ""
    articles = "".join(
        f"<article class='tv-run' id='run-{shown(run.run_id)}' tabindex='-1' aria-label='{shown(title(run.facts))}'>"
        f"{run_html(run)}</article>"
        for run in runs
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        "<meta name='referrer' content='no-referrer'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>Answers of {shown(name)}</title><style>{STYLE}{PAGE_STYLE}</style></head>\n"
        f"<body><main class='tv'><h1>Answers of {shown(name)}</h1><p>{about}</p>{_HELP}{_index(runs)}"
        f"{together}<div id='tv-runs'>{articles}</div></main><script>{SCRIPT}</script></body></html>\n"
    )


_HELP: Final = (
    "<p class='tv-soft'>Scores are 0 to 5; composite is the mean of a judge's scores above 0 (composite strict "
    "counts the zeros too), averaged over the judges, and judges' SD the standard deviation of their composites. "
    "People is the mean composite of those who rated the reply, and how many; they are no part of the other "
    "numbers. Hidden is what somebody has still to rate blind. A "
    "dash is missing, never zero. AUD, tokens and seconds are those of the reply. What models wrote is shown as text: "
    "signs that cannot be seen stand as [U+202E].</p>"
    "<p class='tv-find' hidden><label>Find <input id='tv-find' type='search' size='30'></label> "
    "<span id='tv-count' aria-live='polite'></span><br><span class='tv-soft'>Keys: <b>n</b> next run, <b>p</b> "
    "previous, <b>c</b> keep this one at the side (again: let it go), <b>/</b> find, <b>Esc</b> back to the keys."
    "</span></p>"
)


def _index(runs: Sequence[OpenRun]) -> str:
    head = row(COLUMNS, "th")
    lines = []
    for run in runs:
        first, *rest = (shown(text) for text in cells(run.facts))
        link = f"<a href='#run-{shown(run.run_id)}'>{first}</a>"
        lines.append(f"<tr id='row-run-{shown(run.run_id)}'>{row((link, *rest))}</tr>")
    return f"<nav aria-label='Runs'><table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></nav>"
