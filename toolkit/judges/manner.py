"""How every judge of an ensemble is asked: the part of the instrument that is neither model nor rubric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Focus = Literal["off", "listed", "per_sentence"]


@dataclass(frozen=True)
class Manner:
    """How judges are asked, the same for S, M and L (DESIGN decision 8)."""

    focus: Focus = "off"
    focus_sentences: int = 5
    length_normalization: bool = False
    shuffle: bool = False
    repair: bool = True
    expected: bool = False
    repeats: int = 1
    related: Literal["mark", "exclude"] = "mark"

    def sentence(self) -> str:
        """Return what a caption must say of it beyond the usual; empty where it is the usual.

        Examples
        --------
        >>> Manner(focus="listed", repeats=3).sentence()
        'Focus sentence prompting: 5 sentences of each reply named to the judges. Each judge judged 3 times.'
        """
        told = {
            "off": "",
            "listed": f"Focus sentence prompting: {self.focus_sentences} sentences of each reply named to the judges.",
            "per_sentence": "Focus sentence prompting: one request for each segment of a reply.",
        }
        again = f"Each judge judged {self.repeats} times." if self.repeats > 1 else ""
        return " ".join(words for words in (told[self.focus], again) if words)


PLAIN = Manner()
"""One request, no focus sentences, one repair."""
