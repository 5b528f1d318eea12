"""The viewer in a notebook: widgets over a frame of runs; every text passes the functions of the rooms beside it.

JupyterLab takes single keys unless an input has the focus, so they are typed into one; emptying it would lose keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from toolkit.errors import InputError
from toolkit.filters import planned_runs
from toolkit.people.desk import guarded, status_line
from toolkit.plan import Plan
from toolkit.store.connection import Store
from toolkit.viewer.beside import beside_html
from toolkit.viewer.look import IGNORED_BY_MATHJAX, STYLE, TABLE_STYLE
from toolkit.viewer.model import OpenRun, open_runs, search_texts
from toolkit.viewer.page import write_page
from toolkit.viewer.parts import COLUMNS, cells, row, run_html, title
from toolkit.viewer.people import HIDDEN, with_people
from toolkit.viewer.table import CHOICES, PAGE, SORTS, Filter, matching, pages, plain_row
from toolkit.viewer.visible import shown, visible
from toolkit.words import LENGTH_BINS, SCALE

if TYPE_CHECKING:
    import pandas as pd

_ALL: Final = "all"  # its value is "": with None, ipywidgets would choose no option at all
_YES_NO: Final = {"yes": True, "no": False}
NARROW: Final = {"description_width": "initial"}


class FilterControls:
    """The controls; ``rows`` is what a notebook shows, ``wanted`` what they ask for."""

    def __init__(self, runs: pd.DataFrame, changed: Callable[[Any], None]) -> None:
        there = {
            name: sorted(map(str, runs[name].dropna().unique())) for name in ("model", "scenario", "status")
        }
        self.model = _choice("Model", there["model"])
        self.length_bin = _choice(
            "Length bin", [one for one in LENGTH_BINS if (runs["length_bin"] == one).any()]
        )
        self.scenario = _choice("Scenario", there["scenario"])
        self.status = _choice("Status", there["status"])
        self.judged, self.rated = _choice("Judged", _YES_NO), _choice("Rated by people", _YES_NO)
        # Not a slider: the handles of ipywidgets' have no name that a screen reader could read.
        self.low = _number("Composite at least", SCALE[0])
        self.high = _number("Composite at most", SCALE[1])
        self.spread = _number("Judges' SD at least", 0.0)
        self.text = widgets.Text(
            placeholder="in prompt, reply or id; then Enter", description="Text", style=NARROW,
            continuous_update=False, layout=widgets.Layout(width="22em"),
        )  # fmt: skip
        self.sort = widgets.Dropdown(
            options=(("model and prompt", ""), *((word, word) for word in SORTS)), description="Sort by",
            style=NARROW, layout=widgets.Layout(width="15em"),
        )  # fmt: skip
        self.descending = widgets.Checkbox(
            description="largest first", indent=False, layout=widgets.Layout(width="9em")
        )
        choices = (self.model, self.length_bin, self.scenario, self.status, self.judged, self.rated)
        others = (self.low, self.high, self.spread, self.text, self.sort, self.descending)
        wrapped = widgets.Layout(flex_flow="row wrap")
        self.rows = (widgets.HBox(choices, layout=wrapped), widgets.HBox(others, layout=wrapped))
        for control in (*choices, *others):
            control.layout.margin = "2px 12px 2px 2px"
            control.observe(changed, "value")

    def wanted(self) -> Filter:
        """Return what the controls ask for."""
        values = {one.name: getattr(self, one.name).value for one in fields(Filter)}
        values |= {name: _YES_NO.get(values[name]) for name in ("judged", "rated")}
        # An empty choice is none; an empty text is one.
        return Filter(**values | {name: values[name] or None for name in CHOICES})


def _choice(name: str, values: Iterable[str]) -> widgets.Dropdown:
    options = ((_ALL, ""), *((visible(value), value) for value in values))
    return widgets.Dropdown(
        options=options, description=name, style=NARROW, layout=widgets.Layout(width="auto")
    )


def _number(name: str, value: float) -> widgets.BoundedFloatText:
    return widgets.BoundedFloatText(
        value=value, min=SCALE[0], max=SCALE[1], step=0.1, description=name, style=NARROW,
        layout=widgets.Layout(width="13em"),
    )  # fmt: skip


WIDTHS: Final = (18, 12, 5, 4, 13, 10, 8, 8, 9, 7, 6)
"""Of the columns of the table, in per cent."""


def viewer(plan: Plan, store: Store, which: str | Iterable[str] | None = None) -> widgets.VBox:
    """Return the viewer of a study, opened at a run, or of some runs only, in the order of their ids."""
    return Viewer(plan, store, which).box


class Viewer:
    """The widgets of the viewer and what they do; ``box`` is what a notebook shows."""

    def __init__(self, plan: Plan, store: Store, which: str | Iterable[str] | None = None) -> None:
        self.plan, self.store = plan, store
        self.chosen = None if which is None or isinstance(which, str) else list(dict.fromkeys(which))
        self.runs = self._read()
        if self.runs.empty:
            raise InputError(f"study {plan.study.name}: has no run to read yet; run it first (toolkit run)")
        self.filter = Filter()
        self.found = self.runs
        self.page = 0
        self.opened: OpenRun | None = None
        self.held: OpenRun | None = None
        self._typed = ""
        self.filters = FilterControls(self.runs, self._guarded(self._filter))
        self._make_steps()
        self.blind = self._make_blind()
        self.count, self.said, self.shown = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.table = widgets.HTML(layout=widgets.Layout(flex="1 1 auto", width="0"))
        self.rows = [
            widgets.Button(layout=widgets.Layout(width="56px", height="28px", margin="1px 0"))
            for _ in range(PAGE)
        ]
        for place, button in enumerate(self.rows):
            button.on_click(self._guarded(partial(self._open_row, place)))
        top = widgets.HTML(f"<style>{STYLE}{TABLE_STYLE}</style>", layout=widgets.Layout(height="30px"))
        self.box = widgets.VBox(
            [
                *self.filters.rows,
                self.blind,
                widgets.HBox([self.first, self.back, self.forward, self.last, self.count]),
                widgets.HBox([widgets.VBox([top, *self.rows]), self.table]),
                widgets.HBox([self.previous, self.next, self.hold, self.export, self.keys]),
                self.said,
                self.shown,
            ],
            layout=widgets.Layout(width="100%"),
        )
        if first := which if isinstance(which, str) else next(iter(self.chosen or ()), None):
            self._open(first)
        self._draw_table()

    def _read(self, *, blind: bool = True) -> pd.DataFrame:
        runs = with_people(self.plan, self.store, planned_runs(self.plan, self.store), blind=blind)
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
        self._say("Reading the texts of all runs, once; the next search is quick.")
        return search_texts(self.plan, self.store, self.runs)

    def _make_steps(self) -> None:
        self.first = self._button("First page", lambda: self._turn(-self.page))
        self.back = self._button("Page before", lambda: self._turn(-1))
        self.forward = self._button("Next page", lambda: self._turn(1))
        self.last = self._button("Last page", lambda: self._turn(pages(len(self.found))))
        self.previous = self._button("Previous run", lambda: self._step(-1), "The run before this one (p)")
        self.next = self._button("Next run", lambda: self._step(1), "The run after this one (n)")
        self.hold = self._button("Compare", self._hold, "Keep this run at the side of the next ones (c)")
        self.export = self._button("Export page", self._export, "All runs of the filter as one HTML page (e)")
        self.keys = widgets.Text(
            placeholder="n p c e", description="Keys", style=NARROW, layout=widgets.Layout(width="11em"),
            tooltip="Click here, then type: n next, p previous, c compare, e export page",
        )  # fmt: skip
        self.keys.observe(self._guarded(self._take_keys), "value")

    def _button(self, words: str, work: Callable[[], None], tooltip: str = "") -> widgets.Button:
        button = widgets.Button(description=words, tooltip=tooltip, layout=widgets.Layout(width="auto"))
        button.on_click(self._guarded(work))
        return button

    def _make_blind(self) -> widgets.Checkbox:
        hidden = self.runs[HIDDEN].dropna()
        raters = ", ".join(sorted({name for names in hidden for name in names.split(", ")}))
        box = widgets.Checkbox(
            value=True, indent=False, layout=widgets.Layout(width="auto", display=None if raters else "none"),
            description=f"Hide the scores of {len(hidden):,} runs that are being rated blind, by {raters}",
            tooltip="Untick it only if you do not rate: nothing else keeps a rater from these scores.",
        )  # fmt: skip
        box.observe(self._guarded(self._blind), "value")
        return box

    def _blind(self) -> None:
        self.runs = self._read(blind=self.blind.value)
        for name in ("held", "opened"):
            if run := getattr(self, name):
                setattr(self, name, open_runs(self.plan, self.store, self.runs, [run.run_id])[0])
        self._draw_run()
        self._filter()

    def _filter(self) -> None:
        wanted = self.filters.wanted()
        texts = self._texts if wanted.text.strip() else None
        self.filter, self.found, self.page = wanted, matching(self.runs, wanted, texts), 0
        self._say()
        self._draw_table()

    def _turn(self, step: int) -> None:
        self.page = min(max(self.page + step, 0), pages(len(self.found)) - 1)
        self._draw_table()

    def _open_row(self, place: int) -> None:
        self._open(self.found["run_id"].iloc[self.page * PAGE + place])
        self._draw_table()

    def _place(self) -> int | None:
        """Return where the open run stands among those that were found."""
        if self.opened is None:
            return None
        places = (self.found["run_id"] == self.opened.run_id).to_numpy(bool).nonzero()[0]
        return int(places[0]) if len(places) else None

    def _step(self, step: int) -> None:
        place = self._place()
        following = 0 if place is None else place + step
        if not 0 <= following < len(self.found):
            end = "This is the last run." if step > 0 else "This is the first run."
            self._say(end if len(self.found) else "No run is left by this filter.")
            return
        self._open(self.found["run_id"].iloc[following])
        self._draw_table()

    def _hold(self) -> None:
        if self.opened is None:
            self._say("Open a run first.")
            return
        self.held = None if self.held else self.opened
        self._draw_run()
        self._draw_table()
        if self.held:
            self._say("This run stays at the side: open another one. Press again to let it go.")

    def _open(self, run_id: str) -> None:
        (self.opened,) = open_runs(self.plan, self.store, self.runs, [run_id])
        place = self._place()
        self.page = (place or 0) // PAGE
        self._draw_run()
        where = "outside the filter" if place is None else f"{place + 1:,} of {len(self.found):,}"
        self._say(f"Run {where}: {title(self.opened.facts)}")

    def _export(self) -> None:
        pair = None
        if self.held and self.opened and self.held != self.opened:
            pair = (self.held.run_id, self.opened.run_id)
        path = write_page(
            self.plan, self.store, self.found, pair=pair, chosen=self.filter.words(), blind=self.blind.value
        )
        self._say(f"{len(self.found)} runs on one page: {path}")

    def _take_keys(self) -> None:
        typed, before = self.keys.value, self._typed
        self._typed = typed
        new = "" if before.startswith(typed) else typed.removeprefix(before)
        work = {"n": self.next, "p": self.previous, "c": self.hold, "e": self.export}
        for key in new.lower():
            if key in work:
                work[key].click()

    def _draw_table(self) -> None:
        start, frame = self.page * PAGE, self.found
        rows = [plain_row(one) for one in frame.iloc[start : start + PAGE].to_dict("records")]
        marks = {self.held.run_id: "tv-held"} if self.held else {}
        marks |= {self.opened.run_id: "tv-open"} if self.opened else {}
        lines = "".join(
            f"<tr class='{marks.get(one['run_id'], '')}'>{row(_titled(text) for text in cells(one))}</tr>"
            for one in rows
        )
        widths = "".join(f"<col style='width:{width}%'>" for width in WIDTHS)
        head = row((shown(name) for name in COLUMNS), "th")
        self.table.value = _in_style(
            f"<table aria-label='Runs'><colgroup>{widths}</colgroup><thead><tr>{head}</tr></thead>"
            f"<tbody>{lines}</tbody></table>",
            "tv-runs",
        )
        for place, button in enumerate(self.rows):
            there = place < len(rows)
            button.description = str(start + place + 1) if there else ""
            button.tooltip = f"Open {title(rows[place])}" if there else ""
            button.disabled = not there
            button.layout.display = None if there else "none"
        words = self.filter.words()
        found = f"<b>{len(frame):,} of {len(self.runs):,} runs</b>, page {self.page + 1:,} of {pages(len(frame)):,}"
        chosen = f" · {shown(words)}" if words else ""
        self.count.value = _in_style(f"<span role='status'>{found}{chosen}</span>")

    def _draw_run(self) -> None:
        self._say()
        self.hold.description = "Stop comparing" if self.held else "Compare"
        held, opened = self.held, self.opened
        if opened is None:
            return
        content = run_html(opened) if held is None or held == opened else beside_html(held, opened)
        link = shown(f"study.view({opened.run_id!r})")
        self.shown.value = _in_style(f"<p class='tv-soft'>Come back with <code>{link}</code></p>{content}")

    def _say(self, text: str = "") -> None:
        self.said.value = status_line(shown(text))

    def _guarded(self, work: Callable[[], None]) -> Callable[[Any], None]:
        return guarded(work, self._say, "Not shown ({}).")


def _titled(text: str) -> str:
    """Return the text of a cell, which is all there where the cell is too narrow for it and the mouse rests on it."""
    return f"<span title='{shown(text)}'>{shown(text)}</span>"


def _in_style(content: str, more: str = "") -> str:
    return f"<div class='tv {more} {IGNORED_BY_MATHJAX}'>{content}</div>"
