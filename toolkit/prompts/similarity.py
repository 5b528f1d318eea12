"""Jaccard similarity of word 5-grams, for all pairs of texts at once."""

import re
from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

WORDS = 5
"""Words of a gram: two texts share one of this length only where one was made from the other."""
NEAR = 0.35
"""Similarity from which a text is a near-copy of another."""


def grams(text: str) -> frozenset[str]:
    """Return the word n-grams of a text; a shorter text is one gram."""
    words = re.findall(r"\w+(?:[.'%:/-]\w+)*", text.casefold())
    return frozenset(" ".join(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1)))


def jaccard(texts: Sequence[str]) -> np.ndarray:
    """Return the Jaccard similarity of all pairs of texts as a square matrix."""
    gram_sets = [grams(text) for text in texts]
    number: dict[str, int] = {}
    columns = [number.setdefault(gram, len(number)) for gram_set in gram_sets for gram in gram_set]
    ends = np.cumsum([0, *map(len, gram_sets)])
    membership = csr_array(
        (np.ones(len(columns), dtype=np.int32), columns, ends), shape=(len(texts), max(1, len(number)))
    )
    shared = (membership @ membership.T).toarray().astype(float)
    sizes = np.diff(ends)
    either = sizes[:, None] + sizes[None, :] - shared
    return shared / np.maximum(either, 1)
