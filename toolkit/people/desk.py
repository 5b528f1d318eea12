"""The desk at which people rate replies, blind: `desk.js` asks this module for one reply after another.

The same app stands in a notebook and, served on this machine alone, in a browser. A score is taken as it was typed or
not at all, and a rating is on the disk before the page hears of it.
"""

import webbrowser
from collections.abc import Callable, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from toolkit.errors import InputError
from toolkit.judges.rubric import Rubric
from toolkit.people.rating import (
    Reply,
    Round,
    end_round,
    next_reply,
    open_round,
    rate,
    rateable_replies,
    throw_round_away,
)
from toolkit.plan import Plan
from toolkit.report.loopback import Site, script_of, script_policy, serve, server_of
from toolkit.report.show import plain_text
from toolkit.report.widget import AppWidget
from toolkit.store.connection import Store
from toolkit.store.ratings import known_raters
from toolkit.words import scale_words, template

_STYLE = Path(__file__).with_name("desk.css")
_SCRIPT = script_of(_STYLE.with_suffix(".js"))


def typed_score(text: str, rubric: Rubric, earlier: float | None = None) -> float:
    """Return the step of a rubric that was typed, or the earlier score, which a file may have between two steps."""
    scores = {f"{score:g}": score for score in (earlier, *rubric.steps) if score is not None}
    if text not in scores:
        raise InputError(
            f"{text!r} is no score: write {scale_words(rubric.scale)} in steps of {rubric.distance:g} like "
            f"{rubric.steps[-2]:g}, or nothing for none"
        )
    return scores[text]


class Desk:
    """What the page of a desk asks: the rounds of its raters, or of one rater."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        rater: str | None = None,
        *,
        seed: int | None = None,
        size: int | None = None,
    ) -> None:
        self.plan, self.store, self.seed = plan, store, seed
        self.rounds: dict[str, Round] = {}
        self.rater = rater and self._on_open(rater=rater, size=size)["rater"]

    def _on_start(self) -> dict[str, Any]:
        rubric = self.plan.rubric
        dimensions = [
            dimension.model_dump(include={"name", "title", "question"})
            | {
                "anchors": [[f"{score:g}", text] for score, text in sorted(dimension.anchors.items())],
                "needed": dimension.name in rubric.scheme.needed,
            }
            for dimension in rubric.dimensions
        ]
        return {
            "study": self.plan.study.name,
            "dimensions": dimensions,
            "steps": [f"{step:g}" for step in rubric.steps],
            "raters": known_raters(self.store, self.plan.study.name),
            "round": self.rater and self._on_turn(rater=self.rater, run_id=None, back=False),
        }

    def _on_open(self, *, rater: str, size: int | None) -> dict[str, Any]:
        round_ = open_round(self.plan, self.store, rater, seed=self.seed, size=size)
        return self._state(round_, next_reply(round_))

    def _on_turn(self, *, rater: str, run_id: str | None, back: bool) -> dict[str, Any]:
        round_ = self.rounds[rater]
        at = _place(round_, run_id)
        if not back:
            return self._state(round_, next_reply(round_, *round_.replies[at : at + 1]))
        if at == 0:
            raise InputError("This is the first reply.")
        return self._state(round_, round_.replies[at - 1])

    def _on_save(self, *, rater: str, run_id: str, scores: Mapping[str, str], reasons: str) -> dict[str, Any]:
        round_ = self.rounds[rater]
        reply = round_.replies[_place(round_, run_id)]
        earlier = _scores(round_, reply)
        values = {
            name: typed_score(text, self.plan.rubric, earlier.get(name)) for name, text in scores.items()
        }
        round_ = rate(self.plan, self.store, round_, reply, values, reasons)
        return self._state(round_, next_reply(round_, reply))

    def _on_end(self, *, rater: str) -> dict[str, Any]:
        return self._state(end_round(self.plan, self.store, self.rounds[rater]), None)

    def _on_throw(self, *, rater: str) -> dict[str, Any]:
        return self._state(throw_round_away(self.plan, self.store, self.rounds[rater]), None)

    def _state(self, round_: Round, reply: Reply | None) -> dict[str, Any]:
        """Return how far a round is, and the reply to rate."""
        self.rounds[round_.rater] = round_
        return {
            "rater": round_.rater,
            "replies": len(round_.replies),
            "rated": round_.rated,
            "unfinished": round_.unfinished,
            "reply": reply and _shown(round_, reply),
        }


def _shown(round_: Round, reply: Reply) -> dict[str, Any]:
    """Return what a rater sees of a reply: the task, the text, and what she said of it before."""
    rating = round_.ratings.get(reply.run_id)
    return {
        "run_id": reply.run_id,
        "place": _place(round_, reply.run_id) + 1,
        "task": plain_text(reply.task),
        "text": plain_text(reply.text),
        "scores": {name: f"{score:g}" for name, score in _scores(round_, reply).items()},
        "reasons": (rating and rating.reasons) or "",
    }


def _place(round_: Round, run_id: str | None) -> int:
    """Return the place of a reply in a round; its end without a reply."""
    if run_id is None:
        return len(round_.replies)
    return [reply.run_id for reply in round_.replies].index(run_id)


def _scores(round_: Round, reply: Reply) -> Mapping[str, float]:
    """Return the scores that a reply has in a round."""
    rating = round_.ratings.get(reply.run_id)
    return rating.scores if rating else {}


class DeskWidget(AppWidget):
    """A desk in a notebook."""

    _esm = _SCRIPT
    _css = _STYLE


def desk_server(plan: Plan, store: Store) -> tuple[ThreadingHTTPServer, str]:
    """Return a server of a desk for all raters, bound to a free port and not started, and its address."""
    rateable_replies(plan, store)
    script = f"{_SCRIPT}\nstartPage();\n"
    page = template("people", "desk.jinja").render(style=_STYLE.read_text("utf-8"), script=script)
    return server_of(Site(page.encode, f"{script_policy(script)}; connect-src 'self'", Desk(plan, store)))


def serve_desk(plan: Plan, store: Store, announce: Callable[[str], None]) -> None:
    """Open a desk in the browser and serve it until Ctrl-C; ``announce`` is given its address in a line."""
    server, address = desk_server(plan, store)

    def start() -> None:
        announce(f"The desk of {plan.study.name}, for this machine alone, until Ctrl-C:\n{address}")
        webbrowser.open(address)

    serve(server, start)
