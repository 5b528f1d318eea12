"""The desk: notebook widgets at which a person rates replies, over the functions of `toolkit.people.rating`.

Scores are toggle buttons: a slider at rest looks like a 0. All text of models is escaped and never rendered.
"""

import html
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from toolkit.errors import InputError
from toolkit.judges.rubric import Dimension, Rubric
from toolkit.people.rating import Reply, Round, end_round, next_reply, rate, throw_round_away
from toolkit.plan import Plan
from toolkit.report.show import plain_text
from toolkit.store.connection import Store
from toolkit.words import counted, scale_words

NO_SCORE = "–"
MOST_BUTTONS = 21
"""Of one dimension; longer scales are lists."""
_STYLE = f"<style>{Path(__file__).with_name('desk.css').read_text('utf-8')}</style>"
_HIGH = "max(26em, 100vh - 26em)"
_WIDE = widgets.Layout(width="auto")


def typed_scores(text: str, rubric: Rubric) -> tuple[float | None, ...]:
    """Return the scores of a typed line, in the order of the dimensions."""
    steps, names = rubric.steps, rubric.names
    words = text.split()
    values: dict[str, float | None] = {f"{step:g}": step for step in steps}
    values |= {f"{step:.1f}": step for step in steps if round(step, 1) == step} | {"-": None, NO_SCORE: None}
    wrong = next((word for word in words if word not in values), None)
    if wrong is not None:
        raise InputError(
            f"{wrong!r} is no score: write {scale_words(rubric.scale)} in steps of {rubric.distance:g} like "
            f"{steps[-2]:g}, or - for none"
        )
    if len(words) != len(names):
        raise InputError(f"these are {len(words)} scores; write {len(names)}, with spaces between")
    return tuple(values[word] for word in words)


class Desk:
    """The widgets of one rater; a notebook shows ``box``."""

    def __init__(self, plan: Plan, store: Store, round_: Round) -> None:
        self.plan, self.store = plan, store
        self.round = round_
        self.reply: Reply | None = None
        self._pending: str | None = None  # action of a button that must be pressed again
        rubric = plan.rubric
        options = _options(rubric.steps)
        if len(rubric.steps) <= MOST_BUTTONS:
            style = {"button_width": "2.6em"}
            buttons = partial(widgets.ToggleButtons, options=options, index=0, style=style)
        else:
            buttons = partial(widgets.Dropdown, options=options, index=0)
        self.scores = {name: buttons() for name in rubric.names}
        self.typed = widgets.Text(
            placeholder=" ".join(
                f"{step:g}" for step in (rubric.steps[:0:-1] * len(self.scores))[: len(self.scores)]
            ),
            description="Type all:",
            continuous_update=False,
            tooltip="All scores in the order below, with spaces between; - for none. Then Tab, and Enter saves.",
            layout=widgets.Layout(width="20em"),
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
        self.bar = widgets.IntProgress(
            min=0, max=max(1, len(round_.replies)), layout=widgets.Layout(width="auto", height="10px")
        )
        rows = [_row(dimension, self.scores[dimension.name]) for dimension in rubric.dimensions]
        wrapped = widgets.Layout(flex_flow="row wrap")
        # Texts beside scores, so that both fit on a laptop's screen: each text scrolls in its own box.
        read = widgets.VBox([self.texts, self.reasons], layout=widgets.Layout(flex="1 1 24em", min_width="0"))
        scores = widgets.VBox(rows, layout=widgets.Layout(flex="0 1 34em", min_width="0"))
        self._form = (
            widgets.HBox([self.typed, self.save, self.skip, self.back, self.end, self.throw], layout=wrapped),
            self.status,
            widgets.HBox([read, scores], layout=widgets.Layout(flex_flow="row wrap", grid_gap="0 1.5em")),
        )
        self.box = widgets.VBox(layout=widgets.Layout(width="100%")).add_class("toolkit-desk")
        self.typed.observe(self._guarded(self._take_typed), "value")
        self._show(next_reply(round_))

    def _button(self, name: str, action: Callable[[], None], **look: str) -> widgets.Button:
        button = widgets.Button(description=name, layout=widgets.Layout(width="auto"), **look)
        button.on_click(self._guarded(action))
        return button

    def _show(self, reply: Reply | None) -> None:
        self.reply, self._pending = reply, None
        self.header.value = _STYLE + _progress_line(self.round, reply)
        self.bar.value = self.round.rated
        self._say("")
        before = self.round.ratings.get(reply.run_id) if reply else None
        for name, buttons in self.scores.items():
            _press(buttons, self.plan.rubric.steps, before.scores.get(name) if before else None)
        self.reasons.value = (before.reasons or "") if before else ""
        self.typed.value = ""
        if reply is None:
            self.box.children = (self.header, self.bar, self.back, self.status)
            return
        # The rest of the window, less what JupyterLab and the desk have above and below; the task has its smaller part.
        boxes = _text_box("The task", reply.task, f"calc(0.4 * {_HIGH})") + _text_box("The reply", reply.text)
        style = f"display: flex; flex-direction: column; max-height: {_HIGH}"
        self.texts.value = f"<div style='{style}'>{boxes}</div>"
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
            rubric = self.plan.rubric
            for name, score in zip(rubric.names, typed_scores(self.typed.value, rubric), strict=True):
                _press(self.scores[name], rubric.steps, score)
            self._say("")

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


def _options(scores: Sequence[float], score: float | None = None) -> tuple[tuple[str, float | None], ...]:
    """Return the options: every step of the rubric, and a score between two of them that came from a file."""
    steps = sorted({*scores, *(() if score is None else (score,))})
    return ((NO_SCORE, None), *((f"{step:g}", step) for step in steps))


def _press(buttons: Any, steps: Sequence[float], score: float | None) -> None:
    options = _options(steps, score)
    if tuple(buttons.options) != options:
        buttons.options = options
    buttons.index = [value for _, value in options].index(score)


def _row(dimension: Dimension, buttons: widgets.Widget) -> widgets.VBox:
    scores = sorted(dimension.anchors.items())
    anchors = " · ".join(f"<b>{score:g}</b> {html.escape(text)}" for score, text in scores)
    title = f"<b>{html.escape(dimension.title)}</b>: {html.escape(dimension.question)}"
    text = f"{title} <small>{anchors}</small>" if anchors else title
    return widgets.VBox([widgets.HTML(f"<div class='toolkit-dimension'>{text}</div>"), buttons])


def _text_box(title: str, text: str, high: str = "none") -> str:
    return (
        f"<b>{title}</b>"
        # JupyterLab would use the arrow keys to change the cell.
        f'<pre dir="auto" tabindex="0" data-lm-suppress-shortcuts="true" role="region" aria-label="{title}" '
        f'class="toolkit-text" style="max-height: {high}">{html.escape(plain_text(text))}</pre>'
    )


def _progress_line(round_: Round, reply: Reply | None) -> str:
    total, unseen = len(round_.replies), len(round_.replies) - len(round_.ratings)
    counts = f"{round_.rated} of {total} rated"
    if round_.unfinished:
        counts += f", {round_.unfinished} unfinished"
    if reply is None:
        return f"<b>The round of {html.escape(round_.rater)} is finished:</b> {counts}."
    position = round_.replies.index(reply) + 1
    return f"<b>Reply {position} of {total}</b> · {counts}, {unseen} not seen yet · rater {html.escape(round_.rater)}"
