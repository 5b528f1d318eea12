"""The viewer in a notebook: `app.js` in an anywidget, which asks this side for rows, runs, searches and pages.

Everything goes as messages and nothing as state of the widget: what is state would be saved into the notebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anywidget

from toolkit.errors import InputError
from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.store.documents import HumanRating, Judgement, Run
from toolkit.store.filters import planned_runs
from toolkit.viewer.model import open_runs, search_texts
from toolkit.viewer.page import STYLE, about, rows, static_html, write_page
from toolkit.viewer.parts import run_html
from toolkit.viewer.people import HIDDEN, with_people

if TYPE_CHECKING:
    import pandas as pd

STATIC_ROWS: Final = 20
"""Rows of the table where there is no kernel; whoever wants all of them exports a page."""
_GROWING: Final = (Run, Judgement, HumanRating)


class Viewer(anywidget.AnyWidget):
    """The viewer of a study, or of some of its runs in the order of their ids."""

    _esm = Path(__file__).with_name("app.js")
    _css = Path(__file__).with_name("app.css")

    def __init__(self, plan: Plan, store: Store, which: str | Iterable[str] | None = None) -> None:
        super().__init__()
        self.plan, self.store, self.blind, self.shown = plan, store, True, False
        self.chosen = None if which is None or isinstance(which, str) else list(dict.fromkeys(which))
        self.answered: dict[str, Any] = {}
        self.runs = self._read()
        if self.runs.empty:
            raise InputError(f"study {plan.study.name}: has no run to read yet; run it first (toolkit run)")
        self.first = which if isinstance(which, str) else next(iter(self.chosen or ()), None)
        self.opened = [] if self.first is None else open_runs(plan, store, self.runs, [self.first])
        self.on_msg(self._asked)

    def _ipython_display_(self) -> None:
        """Show a page that needs no kernel, and over it the widget, which hides the page once it is alive."""
        from IPython.display import HTML, display

        static = static_html(rows(self.runs.head(STATIC_ROWS)), self.opened, len(self.runs))
        display(HTML(f"<div class='tv-static' id='tv-{self.model_id}'><style>{STYLE}</style>{static}</div>"))
        bundle = self._repr_mimebundle_()
        display(bundle[0] if bundle else {}, raw=True)

    def _read(self) -> pd.DataFrame:
        self.stamp = self._on_stamp()  # before, so that what comes meanwhile is asked for again
        runs = with_people(self.plan, self.store, planned_runs(self.plan, self.store), blind=self.blind)
        if self.chosen is None:
            return runs
        places = {run_id: place for place, run_id in enumerate(runs["run_id"])}
        if absent := [run_id for run_id in self.chosen if run_id not in places]:
            raise InputError(
                f"run {absent[0]!r}: not in study {self.plan.study.name}; study.runs() lists the run ids"
            )
        return runs.iloc[[places[run_id] for run_id in self.chosen]].reset_index(drop=True)

    @cached_property
    def _texts(self) -> dict[str, str]:
        """Prompts and replies to search in: read once, when they are first searched."""
        return search_texts(self.plan, self.store, self.runs)

    def _asked(self, _widget: object, asked: Mapping[str, Any], _buffers: object) -> None:
        """Answer the app, with what it asked for or with the error, which it shows where the person looks."""
        if asked["ask"] == self.answered.get("to"):  # asked again, because the answer was lost on its way
            return self.send(self.answered)
        try:
            work = getattr(self, f"_on_{asked['what']}")
            answer = {"value": work(**asked.get("with", {}))}
        except InputError as error:
            answer = {"error": str(error)}
        except Exception as error:
            answer = {"error": f"Not shown ({type(error).__name__}: {error})."}
        self.answered = {"to": asked["ask"], **answer}
        return self.send(self.answered)

    def _on_rows(self, *, blind: bool) -> dict[str, Any]:
        if self.shown or blind != self.blind:
            self.blind = blind
            self.runs = self._read()
            self.__dict__.pop("_texts", None)
        self.shown = True
        hidden = self.runs[HIDDEN].dropna()
        left = self.plan.runs if self.chosen is None else self.chosen
        return {
            **about(self.plan),
            "rows": rows(self.runs),
            "stamp": self.stamp,
            "first": self.first,
            "planned": len(left),
            "model_id": self.model_id,
            "hidden": {
                "runs": len(hidden),
                "raters": sorted({one for some in hidden for one in some.split(", ")}),
            },
        }

    def _on_stamp(self) -> list[int]:
        """Return numbers that change when the store has more to show, without reading any of it."""
        return self.store.sizes(*_GROWING)

    def _on_open(self, *, ids: list[str]) -> list[str]:
        return [run_html(run) for run in open_runs(self.plan, self.store, self.runs, ids)]

    def _on_search(self, *, text: str) -> list[str]:
        wanted = text.strip().casefold()
        return [run_id for run_id, found in self._texts.items() if wanted in found]

    def _on_export(self, *, ids: list[str], pair: tuple[str, str] | None, chosen: str) -> str:
        runs = self.runs.set_index("run_id", drop=False).loc[ids]
        path = write_page(self.plan, self.store, runs, pair=pair, chosen=chosen, blind=self.blind)
        return f"{len(ids):,} runs on one page: {path}"
