"""The conversation a hallucination judge is sent: the seed's two turns, open and closed domain, four modes."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, get_args

from toolkit.errors import InputError
from toolkit.judges.ask import fence_code
from toolkit.judges.labelled import LabelledItem
from toolkit.judges.rubric import fill
from toolkit.models.base import Message

Mode = Literal["boolean", "cot-seed", "cot", "score"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
"""How a judge can be asked; `boolean` and `cot-seed` are the prompts of seed 004, which are not hardened."""


def conversation(item: LabelledItem, mode: Mode, seed: int | None = None) -> tuple[Message, ...]:
    """Return the messages that ask one judge about one answer, after seed 004.

    In ``cot`` and ``score`` every text is fenced by a code that it cannot know, see
    `toolkit.judges.ask.fence_code`. In ``boolean`` and ``cot-seed`` the texts stand as the seed puts them, so an
    answer that speaks to the judge may be heard: use these two to reproduce, and the other two to measure.

    Examples
    --------
    >>> item = LabelledItem("a", "Which port is SSH?", "Port 22.", "TCP port 22.")
    >>> prompt, greeting, texts = conversation(item, "boolean")
    >>> print(texts.content)
    Question: Which port is SSH?
    Perfect Answer: TCP port 22.
    Generated Answer: Port 22.
    """
    if mode not in MODES:
        raise InputError(f"hallucination mode {mode!r} is unknown; use one of {', '.join(MODES)}")
    words = _words()
    values = {
        "definition": words["definition"],
        "given": words["given"][_shape(item)],
        "fenced": words["fenced"],
    }
    return (
        Message("user", fill(words["modes"][mode], values)),
        Message("assistant", words["greeting"]),
        Message("user", _texts(item, words["texts"], words["last_words"].get(mode), seed)),
    )


@cache
def _words() -> Mapping[str, Any]:
    file = resources.files("toolkit.judges") / "data" / "hallucination.toml"
    return tomllib.loads(file.read_text("utf-8"))


def _shape(item: LabelledItem) -> str:
    if item.domain == "closed":
        return "closed" if item.reference is None else "closed_with_reference"
    return "open_without_reference" if item.reference is None else "open"


def _texts(item: LabelledItem, names: Mapping[str, str], last_words: str | None, seed: int | None) -> str:
    texts = {name: text for field, name in names.items() if (text := getattr(item, field)) is not None}
    if last_words is None:
        return "\n".join(f"{name}: {text}" for name, text in texts.items())
    before = "\n".join(text for name, text in texts.items() if name != names["answer"])
    nonce = fence_code(before, item.answer, seed)
    fenced = "\n".join(
        f"<<<{name.upper()} {nonce}>>>\n{text}\n<<<END {name.upper()} {nonce}>>>"
        for name, text in texts.items()
    )
    return fenced + "\n" + fill(last_words, {"nonce": nonce})
