"""Which questions can be asked of scores: their table, by the name of the method that answers, and how to add one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolkit import stats
from toolkit.errors import InputError
from toolkit.stats import WORDS

if TYPE_CHECKING:
    from toolkit.stats.result import Result

TABLE: dict[str, Mapping[str, Any]] = {name: row for name, row in WORDS.items() if "title" in row}
"""What is calculated of which frames and settings, with the words of it, by the name of the method."""


def _needing(need: str) -> tuple[str, ...]:
    return tuple(name for name, row in TABLE.items() if row.get("needs") == need)


QUESTIONS = {name: row["title"] for name, row in TABLE.items()}
"""Title of each analysis, by the name of its method."""
BY_JUDGES = _needing("judges")
"""Analyses that need two judges."""
BY_LENGTH = _needing("lengths")
"""Analyses that need two prompt lengths."""
BY_KEY = _needing("key")
"""Analyses of answers that were compared with a key."""
LATER = _needing("later")
"""Analyses of what is done after a study was run."""
ON_ANSWERS = frozenset({*BY_KEY, "compare_models", "missing", "hallucination"})
"""Analyses that a test with a key can be asked for."""
PAIRWISE = _needing("votes")
"""Analyses of votes on pairs of replies."""
ON_VOTES = frozenset({"compare_pairs", "hallucination"})
"""Analyses that need no score of a reply."""
NO_SCORES = 'judges compare replies in pairs here ([judges] mode = "pairs") and give no scores'
NO_VOTES = 'no judge compared replies in pairs: set [judges] mode = "pairs" or "both", and run the study'
UNVARIED = "nothing is varied"
FACTORS = {name: row for name, row in WORDS["conditions"]["factors"].items() if "absent" in row}
"""What conditions may differ in besides prompt length."""
OWN: list[str] = []
"""Analyses that were added (`add_analysis`)."""


def add_analysis(calculate: Callable[..., Result], words: Mapping[str, Any]) -> None:
    """Add an analysis of one's own to those of every study: its frame, sentences, table, figure, findings and methods.

    Parameters
    ----------
    calculate
        Returns `Result` with the name of this function, of the frames and settings that its words name. Each frame has
        a column ``unit``, what is independent; what the result counts as bases are units.
    words
        ``title``; ``frames`` and ``settings`` (runs and score by default; others as `Analyses` has them); ``about`` and
        ``parts``, the leading column and the parts of the frame; ``seen``, ``axis`` and ``note`` of the figure;
        ``finding``, which leads to a number and may name its facets in braces, perhaps with the ``reference`` that
        matters; and ``method``, a sentence with ``cite``, the keys of its references.

    Raises
    ------
    InputError
        When the name is taken, or a word lacks.
    """
    name = calculate.__name__
    if name in WORDS and name not in OWN:
        raise InputError(f"analysis {name!r}: is one of the toolkit's; choose another name")
    if absent := [word for word in ("title", "parts", "seen", "finding", "method") if word not in words]:
        raise InputError(f"analysis {name!r}: its words lack {', '.join(absent)}")
    usual: dict[str, Any] = {"frames": ["runs"], "settings": ["score"], "axis": "", "note": ""}
    usual |= {"alt": words["title"], "shown": [f"figures/{name}"]}
    WORDS[name] = usual | dict(words)
    TABLE[name] = WORDS[name] | {"calculate": stats.over_clusters(calculate)}
    QUESTIONS[name] = words["title"]
    if name not in OWN:
        OWN.append(name)
