"""The controls of the viewer's filter: which runs there are to choose from, and what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import ipywidgets as widgets

from toolkit.viewer.table import SORTS, Filter
from toolkit.viewer.visible import visible
from toolkit.words import LENGTH_BINS, SCALE

if TYPE_CHECKING:
    import pandas as pd

_ALL: Final = "all"  # its value is "": with None, ipywidgets would choose no option at all
_YES_NO: Final = {"yes": True, "no": False}
NARROW: Final = {"description_width": "initial"}


class FilterControls:
    """The controls; ``rows`` is what a notebook shows, ``wanted`` what they ask for."""

    def __init__(self, runs: pd.DataFrame, changed: Callable[[Any], None]) -> None:
        self.model = _choice(runs, "Model", "model")
        self.length_bin = _choice(runs, "Length bin", "length_bin", tuple(LENGTH_BINS))
        self.scenario = _choice(runs, "Scenario", "scenario")
        self.status = _choice(runs, "Status", "status")
        self.judged = _yes_no("Judged")
        self.rated = _yes_no("Rated by people")
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
        return Filter(
            model=self.model.value or None,
            length_bin=self.length_bin.value or None,
            scenario=self.scenario.value or None,
            status=self.status.value or None,
            judged=_YES_NO.get(self.judged.value),
            rated=_YES_NO.get(self.rated.value),
            low=self.low.value,
            high=self.high.value,
            spread=self.spread.value,
            text=self.text.value,
            sort=self.sort.value,
            descending=self.descending.value,
        )


def _choice(runs: pd.DataFrame, name: str, column: str, order: tuple[str, ...] = ()) -> widgets.Dropdown:
    values = [str(value) for value in runs[column].dropna().unique()]
    there = [value for value in order if value in values] or sorted(values)
    options = ((_ALL, ""), *((visible(value), value) for value in there))
    return widgets.Dropdown(
        options=options, description=name, style=NARROW, layout=widgets.Layout(width="auto")
    )


def _number(name: str, value: float) -> widgets.BoundedFloatText:
    return widgets.BoundedFloatText(
        value=value, min=SCALE[0], max=SCALE[1], step=0.1, description=name, style=NARROW,
        layout=widgets.Layout(width="13em"),
    )  # fmt: skip


def _yes_no(name: str) -> widgets.Dropdown:
    return widgets.Dropdown(
        options=((_ALL, ""), *((word, word) for word in _YES_NO)), description=name, style=NARROW,
        layout=widgets.Layout(width="auto"),
    )  # fmt: skip
