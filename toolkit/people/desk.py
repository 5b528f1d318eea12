"""The desk: notebook widgets at which a person rates replies, over the functions of `toolkit.people.rating`.

Scores are toggle buttons: a slider at rest looks like a 0. All text of models is escaped and never rendered.
"""

import html
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from toolkit.errors import InputError
from toolkit.judges.rubric import Dimension, Rubric
from toolkit.people.rating import Reply, Round, end_round, next_reply, rate, throw_round_away
from toolkit.plan import Plan
from toolkit.report.show import plain_text
from toolkit.store.connection import Store
from toolkit.words import counted, scale_words, template

NO_SCORE = "–"
MOST_BUTTONS = 21
"""Of one dimension; longer scales are lists."""
_STYLE = f"<style>{Path(__file__).with_name('desk.css').read_text('utf-8')}</style>"
_WIDE = {"width": "auto"}
_WRAPPED = {"flex_flow": "row wrap"}


def typed_scores(text: str, rubric: Rubric) -> tuple[float | None, ...]:
    """Return the scores of a typed line, in the order of the dimensions."""
    steps, words, count = rubric.steps, text.split(), len(rubric.names)
    values: dict[str, float | None] = {"-": None, NO_SCORE: None}
    values |= {text: step for step in steps for text in (f"{step:g}", f"{step:.1f}") if float(text) == step}
    if wrong := [word for word in words if word not in values]:
        raise InputError(
            f"{wrong[0]!r} is no score: write {scale_words(rubric.scale)} in steps of {rubric.distance:g} like "
            f"{steps[-2]:g}, or - for none"
        )
    if len(words) != count:
        raise InputError(f"these are {len(words)} scores; write {count}, with spaces between")
    return tuple(values[word] for word in words)


class Desk:
    """The widgets of one rater; a notebook shows ``box``."""

    def __init__(self, plan: Plan, store: Store, round_: Round) -> None:
        self.plan, self.store = plan, store
        self.round = round_
        self.reply: Reply | None = None
        self._pending: str | None = None  # action of a button that must be pressed again
        rubric = plan.rubric
        kind, look = widgets.ToggleButtons, {"style": {"button_width": "2.6em"}}
        if len(rubric.steps) > MOST_BUTTONS:
            kind, look = widgets.Dropdown, {}
        self.scores = {name: kind(options=_options(rubric.steps), index=0, **look) for name in rubric.names}
        example = zip(rubric.names, cycle(rubric.steps[:0:-1]), strict=False)
        self.typed = widgets.Text(
            placeholder=" ".join(f"{step:g}" for _, step in example),
            description="Type all:",
            continuous_update=False,
            tooltip="All scores in the order below, with spaces between; - for none. Then Tab, and Enter saves.",
            layout={"width": "20em"},
        )
        self.reasons = widgets.Textarea(
            placeholder="Why these scores? (optional)",
            description="Reasons:",
            # Sent when the field is left: sent by letter, the last ones could arrive at a busy kernel after Save.
            continuous_update=False,
            rows=2,
            layout=_WIDE,
        )
        self.save = self._button("Save and next", self._save, button_style="primary")
        self.skip = self._button("Skip", self._skip, tooltip="It comes again at the end of the round.")
        self.back = self._button("Back", self._back, tooltip="To the reply before this one.")
        self.end = self._button("End round", self._end, tooltip="Keep what is rated, and leave the rest.")
        history = "None of its ratings counts any more; all stay in the history."
        self.throw = self._button("Throw round away", self._throw, tooltip=history)
        self.status, self.header, self.texts = (widgets.HTML() for _ in range(3))
        self.bar = widgets.IntProgress(max=max(1, len(round_.replies)), layout={**_WIDE, "height": "10px"})
        rows = [_row(dimension, self.scores[dimension.name]) for dimension in rubric.dimensions]
        # Texts beside scores, so that both fit on a laptop's screen: each text scrolls in its own box.
        read = widgets.VBox([self.texts, self.reasons], layout={"flex": "1 1 24em", "min_width": "0"})
        scores = widgets.VBox(rows, layout={"flex": "0 1 34em", "min_width": "0"})
        tools = [self.typed, self.save, self.skip, self.back, self.end, self.throw]
        self._form = (
            widgets.HBox(tools, layout=_WRAPPED),
            self.status,
            widgets.HBox([read, scores], layout={**_WRAPPED, "grid_gap": "0 1.5em"}),
        )
        self.box = widgets.VBox(layout={"width": "100%"}).add_class("toolkit-desk")
        self.typed.observe(self._guarded(self._take_typed), "value")
        self._show(next_reply(round_))

    def _button(self, name: str, action: Callable[[], None], **look: str) -> widgets.Button:
        button = widgets.Button(description=name, layout=_WIDE, **look)
        button.on_click(self._guarded(action))
        return button

    def _show(self, reply: Reply | None) -> None:
        self.reply, self._pending = reply, None
        self.header.value = _STYLE + _html().progress(self.round, reply)
        self.bar.value = self.round.rated
        self._say("")
        before = self.round.ratings.get(reply.run_id) if reply else None
        for name, buttons in self.scores.items():
            self._press(buttons, before.scores.get(name) if before else None)
        self.reasons.value = (before.reasons or "") if before else ""
        self.typed.value = ""
        if reply is None:
            self.box.children = (self.header, self.bar, self.back, self.status)
            return
        self.texts.value = _html().texts(plain_text(reply.task), plain_text(reply.text))
        self.box.children = (self.header, self.bar, *self._form)
        self.typed.focus()  # the next reply can be scored without a mouse

    def _save(self) -> None:
        if self.reply is None:
            return
        scores = {name: buttons.value for name, buttons in self.scores.items()}
        given = {name for name, score in scores.items() if score is not None}
        lacking = self.plan.rubric.scheme.needed - given
        gaps = [part.title for part in self.plan.rubric.dimensions if part.name in lacking]
        warning = f"Not scored: {', '.join(gaps)}. Press again to keep it as unfinished"
        if given and gaps and not self._confirmed("save", f"{warning}; it does not count then."):
            return
        after = self.reply
        self.round = rate(self.plan, self.store, self.round, after, scores, self.reasons.value)
        self._show(next_reply(self.round, after))

    def _skip(self) -> None:
        following = next_reply(self.round, self.reply)
        alone = following is not None and following == self.reply
        self._show(following)
        if alone:
            self._say("This is the only one left.")

    def _end(self) -> None:
        remaining = counted(len(self.round.replies) - self.round.rated, "replies")
        if self._confirmed("end", f"{remaining} will be left out of the round. Press again to end it."):
            self.round = end_round(self.plan, self.store, self.round)
            self.bar.max = max(1, len(self.round.replies))
            self._show(None)

    def _throw(self) -> None:
        lost = counted(len(self.round.ratings), "ratings")
        question = f"{lost} will count nowhere any more. Press again to throw the round away."
        if self._confirmed("throw", question):
            self.round = throw_round_away(self.plan, self.store, self.round)
            self._show(None)
            self._say("Thrown away. Run the cell again to begin a new round.")

    def _confirmed(self, action: str, question: str) -> bool:
        """Return whether a button is pressed for the second time; the first time, show its question."""
        if self._pending == action:
            return True
        self._pending = action
        self._say(question)
        return False

    def _back(self) -> None:
        replies = self.round.replies
        position = len(replies) if self.reply is None else replies.index(self.reply)
        if position == 0:
            self._say("This is the first one.")
            return
        self._show(replies[position - 1])

    def _take_typed(self) -> None:
        if self.typed.value.strip():
            typed = typed_scores(self.typed.value, self.plan.rubric)
            for buttons, score in zip(self.scores.values(), typed, strict=True):
                self._press(buttons, score)
            self._say("")

    def _press(self, buttons: Any, score: float | None) -> None:
        options = _options(self.plan.rubric.steps, score)
        if tuple(buttons.options) != options:
            buttons.options = options
        buttons.index = [value for _, value in options].index(score)

    def _say(self, text: str) -> None:
        """Show a message, which screen readers announce."""
        self.status.value = f'<div role="status" aria-live="polite"><b>{html.escape(text)}</b></div>'

    def _guarded(self, work: Callable[[], None]) -> Callable[[Any], None]:
        """Return a callback that shows its error at the button: JupyterLab would write it to its log."""

        def callback(_: Any) -> None:
            try:
                work()
            except InputError as error:
                self._say(str(error))
            except Exception as error:
                self._say(
                    f"Not kept ({type(error).__name__}: {error}). The scores are still here; try again."
                )

        return callback


def _options(steps: Sequence[float], score: float | None = None) -> tuple[tuple[str, float | None], ...]:
    """Return the options: every step of the rubric, and a score between two of them that came from a file."""
    scores = sorted({*steps, steps[0] if score is None else score})
    return ((NO_SCORE, None), *((f"{step:g}", step) for step in scores))


def _row(dimension: Dimension, buttons: widgets.Widget) -> widgets.VBox:
    return widgets.VBox([widgets.HTML(_html().dimension(dimension)), buttons])


def _html() -> Any:
    """Return the macros of ``desk.jinja``."""
    return template("people", "desk.jinja").module
