"""The viewer in a notebook: `app.js` asks this module for rows, runs, searches and pages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.plan import Plan
from toolkit.report.loopback import script_of
from toolkit.report.widget import AppWidget
from toolkit.store.connection import Store
from toolkit.store.documents import Annotation, HumanRating, Run
from toolkit.store.filters import planned_runs
from toolkit.viewer.model import HIDDEN, open_runs, rows_of, search_texts, with_people
from toolkit.viewer.page import STYLE, heading, rows, run_html, write_page

if TYPE_CHECKING:
    import pandas as pd

_GROWING = (Run, Annotation, HumanRating)


class Viewer(AppWidget):
    """The viewer of a study, or of some of its runs in the order of their ids."""

    _esm = script_of(Path(__file__).with_name("app.js"))
    _css = Path(__file__).with_name("app.css")

    def __init__(self, plan: Plan, store: Store, selection: str | Iterable[str] | None = None) -> None:
        super().__init__()
        self.plan, self.store, self.blind, self.displayed = plan, store, True, False
        self.chosen = (
            None if selection is None or isinstance(selection, str) else list(dict.fromkeys(selection))
        )
        self.runs = self._read()
        if self.runs.empty:
            raise InputError(f"study {plan.study.name}: has no run to read yet; run it first (toolkit run)")
        self.first = selection if isinstance(selection, str) else next(iter(self.chosen or ()), None)
        self.opened = [] if self.first is None else open_runs(plan, store, self.runs, [self.first])

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, display

        # What is shown without a kernel: the run that was asked for.
        need = f"{len(self.runs):,} runs: the viewer needs a running notebook, or an exported page."
        articles = "".join(f"<article>{run_html(run)}</article>" for run in self.opened)
        static = f"<div class='tv'><p class='tv-soft'>{need}</p>{articles}</div>"
        display(HTML(f"<div class='tv-static' id='tv-{self.model_id}'><style>{STYLE}</style>{static}</div>"))
        bundle = self._repr_mimebundle_()
        display(bundle[0] if bundle else {}, raw=True)

    def _read(self) -> pd.DataFrame:
        self.stamp = self._on_stamp()  # before reading, so that later changes are noticed
        runs = with_people(self.plan, self.store, planned_runs(self.plan, self.store), blind=self.blind)
        return runs if self.chosen is None else rows_of(self.plan, runs, self.chosen).reset_index(drop=True)

    @cached_property
    def _texts(self) -> dict[str, str]:
        return search_texts(self.plan, self.store, self.runs)

    def _on_rows(self, *, blind: bool) -> dict[str, Any]:
        if self.displayed or blind != self.blind:
            self.blind = blind
            self.runs = self._read()
            self.__dict__.pop("_texts", None)
        self.displayed = True
        hidden = self.runs[HIDDEN].dropna()
        planned = self.plan.runs if self.chosen is None else self.chosen
        return {
            **heading(self.plan),
            "rows": rows(self.runs),
            "stamp": self.stamp,
            "first": self.first,
            "planned": len(planned),
            "model_id": self.model_id,
            "hidden": {
                "runs": len(hidden),
                "raters": sorted({rater for names in hidden for rater in names.split(", ")}),
            },
        }

    def _on_stamp(self) -> list[int]:
        return self.store.sizes(*_GROWING)

    def _on_open(self, *, ids: list[str]) -> list[str]:
        return [run_html(run) for run in open_runs(self.plan, self.store, self.runs, ids)]

    def _on_search(self, *, text: str) -> list[str]:
        needle = text.strip().casefold()
        return [run_id for run_id, content in self._texts.items() if needle in content]

    def _on_export(self, *, ids: list[str], pair: tuple[str, str] | None, chosen: str) -> str:
        runs = rows_of(self.plan, self.runs, ids)
        path = write_page(self.plan, self.store, runs, pair=pair, chosen=chosen, blind=self.blind)
        return f"{len(ids):,} runs on one page: {path}"
