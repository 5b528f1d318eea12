"""The columns of the tidy frames of tests and people: prompts, experiments, measurements, results, human ratings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from toolkit.store.columns import JUDGEMENTS, PLACE, SCORES, Column

_INCOMPLETE: Final = "incomplete: fewer experiments than planned have a verdict"

PROMPTS: Final[Mapping[str, Column]] = {
    "test_item": Column("string", "the test item it belongs to; in the rubric study the base"),
    "prompt_id": PLACE["prompt_id"],
    "scenario": PLACE["scenario"],
    "length_bin": PLACE["length_bin"],
    "tokens": Column("Int64", "length of the text, o200k_base", "tokens"),
    "text": Column("string", "the text that is sent"),
}

_METHOD: Final[Mapping[str, Column]] = {
    "method": Column("string", "prompt variant x question x sample"),
    "variant": Column("string", "name of the prompt variant"),
    "question": Column("string", "name of the question"),
    "sample": Column("string", "name of the sample"),
    "model": PLACE["model"],
}

EXPERIMENTS: Final[Mapping[str, Column]] = {
    **_METHOD,
    "repeat": PLACE["repeat"],
    "verdict": Column(
        "string", "expected, unexpected or hallucinated", "", "experiment is incomplete: see why"
    ),
    "matched": Column("boolean", "whether the reply holds the expected answer", "", "no verdict yet"),
    "found": Column("string", "what the reply gave as its answer", "", "nothing found, or no verdict yet"),
    "why": Column("string", "what the verdict rests on, or why there is none", "", "nothing to say"),
    "invented": Column(
        "string", "claims that the sample does not hold, joined by semicolons", "", "no verdict yet"
    ),
    "run_id": Column("string", "the run; empty text when it was not asked yet"),
}

METHODS: Final[Mapping[str, Column]] = {
    **_METHOD,
    "expected": Column("Int64", "I1: experiments with the expected answer", "experiments"),
    "unexpected": Column("Int64", "I0: experiments with another answer", "experiments"),
    "hallucinated": Column("Int64", "H: experiments that invent", "experiments"),
    "missing": Column("Int64", "experiments without a verdict", "experiments"),
    "experiments": Column("Int64", "N: all experiments planned", "experiments"),
    "raw": Column("float64", "the formula as it stands", "score", _INCOMPLETE),
    "score": Column("float64", "max(0, raw)", "score, 0-1", _INCOMPLETE),
    "low": Column("float64", "low end of the interval of raw", "score", _INCOMPLETE),
    "high": Column("float64", "high end of the interval of raw", "score", _INCOMPLETE),
    "note": Column("string", "why there is no score; empty text when there is"),
}

MEASUREMENTS: Final[Mapping[str, Column]] = {
    "test_item": Column("string", "the test item"),
    "model": PLACE["model"],
    "repeat": PLACE["repeat"],
    "name": Column("string", "what was measured"),
    "value": Column("float64", "the number", "see unit", "see reason"),
    "unit": Column("string", "unit of the value"),
    "reason": Column("string", "why there is no value", "", "there is a value"),
}

RESULTS: Final[Mapping[str, Column]] = {
    "model": PLACE["model"],
    "name": Column("string", "what was estimated"),
    "estimate": Column("float64", "the estimate, never rounded", "of the test", "not estimable: see note"),
    "low": Column("float64", "low end of its interval", "as estimate", "no interval"),
    "high": Column("float64", "high end of its interval", "as estimate", "no interval"),
    "p_value": Column("float64", "P value of the test that belongs to it", "0-1", "no such test"),
    "method": Column("string", "how the interval was made; empty text when there is none"),
    "degrees": Column("float64", "degrees of freedom of the interval", "", "not set by the data"),
    "n": Column("string", "what it rests on, such as `36 answers, 3 judges`"),
    "missing": Column("Int64", "answers or ratings that were missing", "answers"),
    "correction": Column("string", "correction for multiplicity, or none"),
    "note": Column("string", "what was done to the data, or why there is no estimate; may be empty text"),
}

HUMAN: Final[Mapping[str, Column]] = {
    **{name: PLACE[name] for name in ("run_id", "base", "cluster", "length_bin", "model", "repeat")},
    "rater": Column("string", "name of the person, as given"),
    "failed": Column("bool", "whether the rating is unfinished"),
    "reason": Column("string", "why it has no scores", "", "rating is finished"),
    **{name: JUDGEMENTS[name] for name in SCORES},
    "zeros": JUDGEMENTS["zeros"],
    "reasons": Column("string", "what the person wrote", "", "nothing written"),
    "source": Column("string", "desk or file"),
    "version": Column("Int64", "version of the rating, from 1; this is the newest"),
    "created_at": Column("utc", "when this version was recorded", "UTC, ms"),
}
