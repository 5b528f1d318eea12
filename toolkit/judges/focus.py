"""Finds the focus sentences of a reply: those that say most of its content.

The task does not count. A long prompt shares words with more sentences than a short one does, so that choosing by the
task would make the instrument change with the treatment (DESIGN decision 8).
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from toolkit.judges.segments import Segment, segments
from toolkit.words import one_line

READABLE = ("sentence", "list_item", "table_row")
"""Kinds of segments that count as sentences; headings and code do not."""
REPEATED = 0.9  # cosine of two sentences' word counts from which the later one is a repetition
LINE_LENGTH = 300
"""Longest line of a sentence in a judge's prompt, in characters; the prompt also has the whole reply."""
NO_SENTENCES = "(none: the reply has no sentences)"

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]++")
"""A word, or one character of a script that puts no spaces between words."""


def focus_sentences(text: str, count: int) -> tuple[Segment, ...]:
    """Return the most central sentences of a reply, in their order in the text.

    The centrality of sentence s is the cosine between its TF-IDF vector and that of the whole reply,
    sum_w tf(w, s) tf(w, reply) idf(w)^2 / (|s| |reply|) with idf(w) = ln(N / n_w) over the N sentences of the reply
    alone. This is the similarity to the centroid of Radev, Jing, Stys and Tam (2004), "Centroid-based
    summarization of multiple documents", Information Processing & Management 40(6), 919-938. Of equally central
    sentences the earlier is taken; a repetition of a taken sentence is left out.

    Examples
    --------
    >>> text = "Isolate the host. Hello! Then image the host's disk. Isolate the host."
    >>> [sentence.of(text) for sentence in focus_sentences(text, 2)]
    ['Isolate the host.', "Then image the host's disk."]
    """
    return _most_central(text, _sentences(text), count)


def _most_central(text: str, candidates: Sequence[Segment], count: int) -> tuple[Segment, ...]:
    word_lists = [_WORD.findall(candidate.of(text).casefold()) for candidate in candidates]
    # Of sentences with the same words only the first counts.
    first: dict[tuple[str, ...], int] = {}
    for number, words in enumerate(word_lists):
        first.setdefault(tuple(words), number)
    counts = {number: Counter(words) for words, number in first.items()}
    reply = Counter(chain.from_iterable(word_lists))
    containing = Counter(chain.from_iterable(map(set, word_lists)))
    idf = {word: math.log(len(word_lists) / number) for word, number in containing.items()}
    central = {}
    for number, vector in counts.items():
        # Exact sums, whatever the order of words: two equally central sentences must get equal numbers. The reply's own
        # norm is the same for every sentence and changes no order.
        norm = math.sqrt(math.fsum((n * idf[word]) ** 2 for word, n in vector.items()))
        shared = math.fsum(n * reply[word] * idf[word] ** 2 for word, n in vector.items())
        central[number] = shared / norm if norm else 0.0
    chosen: list[int] = []
    # `sorted` is stable, so equally central sentences keep their order.
    for number in sorted(counts, key=lambda n: -central[n]):
        if len(chosen) >= count:
            break
        if all(_cosine(counts[number], counts[earlier]) < REPEATED for earlier in chosen):
            chosen.append(number)
    return tuple(candidates[number] for number in sorted(chosen))


def focus_lines(text: str, count: int) -> str:
    """Return the focus sentences of a reply, one a line; they are the reply's words and belong inside the fence."""
    lines = (one_line(sentence.of(text), LINE_LENGTH) for sentence in focus_sentences(text, count))
    return "\n".join(lines) or NO_SENTENCES


def reply_metadata(text: str) -> dict[str, Any]:
    """Return what is stored with a reply: its length and its focus sentences (seed 002, section 3.1)."""
    sentences = _sentences(text)
    return {
        "content_length": len(text),
        "word_count": len(text.split()),
        "sentence_count": len(sentences),
        "fsp_sentences": [sentence.of(text) for sentence in _most_central(text, sentences, 5)],
    }


def _sentences(text: str) -> list[Segment]:
    return [piece for piece in segments(text) if piece.kind in READABLE]


def _cosine(first: Mapping[str, int], second: Mapping[str, int]) -> float:
    shared = sum(first[word] * second[word] for word in first.keys() & second.keys())
    if not shared:  # two sentences of symbols alone have no words to differ in
        return float(not (first or second))
    return shared / math.sqrt(sum(n * n for n in first.values()) * sum(n * n for n in second.values()))
