"""What a column of a tidy frame is, and the columns of what a study asked and got: runs, judgements, calls.

The dtypes here are those that the frames are made with, and the words are those of the data dictionary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from toolkit.words import DIMENSIONS

SCORES: Final = (*DIMENSIONS, "composite", "composite_strict")
POINTS: Final = "points, 0-5"


@dataclass(frozen=True)
class Column:
    """One column of a tidy frame."""

    dtype: str
    meaning: str
    unit: str = ""
    missing: str = ""


_UNJUDGED: Final = "run not judged: fewer than two judges count"
_NO_REPLY: Final = "run failed"
_FAILED: Final = "judgement failed, never 0"
_OTHER_TESTS: Final = "tests without this notion"

PLACE: Final[Mapping[str, Column]] = {
    "run_id": Column("string", "name of the run, a ULID: permalink of a reply"),
    "study": Column("string", "name of the study"),
    "prompt_id": Column("string", "name of the prompt"),
    "base": Column("string", "underlying situation; S, M and L of one base are one block"),
    "cluster": Column(
        "string",
        "independent unit of intervals and tests: the base, or the first of the bases that share a text with it, "
        "directly or through others",
    ),
    "scenario": Column("string", "SOC_INCIDENT, GRC_MAPPING or CTI_ANALYSIS", "", _OTHER_TESTS),
    "length_bin": Column("bin", "length of the prompt: S < M < L", "", _OTHER_TESTS),
    "model": Column("string", "model that answered, by its name in the study"),
    "repeat": Column("Int64", "repeat index, from 0"),
}
"""Which run of which prompt: the columns that runs, judgements and dimensions share."""


def _scores(missing: str) -> dict[str, Column]:
    """Return the columns of the seven dimensions and the two composites."""
    return {
        **{
            name: Column("float64", f"score of {name.replace('_', ' ')}", POINTS, missing)
            for name in DIMENSIONS
        },
        "composite": Column("float64", "mean of the dimensions above 0", POINTS, missing),
        "composite_strict": Column(
            "float64", "mean of all dimensions, a score of 0 counted", POINTS, missing
        ),
    }


RUNS: Final[Mapping[str, Column]] = {
    "run_id": PLACE["run_id"],
    "study": PLACE["study"],
    "test": Column("string", "name of the test"),
    "prompt_id": PLACE["prompt_id"],
    "base": PLACE["base"],
    "cluster": PLACE["cluster"],
    "scenario": PLACE["scenario"],
    "category": Column("string", "category of the prompt", "", _OTHER_TESTS),
    "length_bin": PLACE["length_bin"],
    "model": PLACE["model"],
    "repeat": PLACE["repeat"],
    "status": Column("string", "succeeded or failed"),
    "failure": Column("string", "why there is no reply: a stable word, a colon, detail", "", "run succeeded"),
    "finish_reason": Column("string", "stop, length, filter, refusal or other", "", _NO_REPLY),
    "defect": Column("string", "truncated, empty, refused or filtered", "", "reply is whole, or none came"),
    "excluded": Column("bool", "whether the study leaves the reply out of judging and scores for its defect"),
    "input_tokens": Column("Int64", "tokens sent", "tokens", _NO_REPLY),
    "output_tokens": Column("Int64", "tokens of the reply", "tokens", _NO_REPLY),
    "total_tokens": Column("Int64", "both together", "tokens", _NO_REPLY),
    "tokens_estimated": Column("boolean", "whether they are our count, not the provider's", "", _NO_REPLY),
    "aud_cost": Column("float64", "cost of all calls of the run, judges left out", "AUD", _NO_REPLY),
    "judge_aud_cost": Column(
        "float64",
        "cost of all judgements of the run, of every rubric and ensemble",
        "AUD",
        "nobody judged it",
    ),
    "latency_ms": Column("float64", "time from request to reply of the call that counts", "ms", _NO_REPLY),
    "attempts": Column("Int64", "requests it took", "requests", _NO_REPLY),
    "judge_count": Column(
        "Int64", "judges that the scores rest on", "judges", "no judge was asked, or excluded"
    ),
    "judged": Column("bool", "whether two judges or more count"),
    **_scores(_UNJUDGED),
    "composite_std": Column("float64", "spread of the composite over judges, n - 1", "points", _UNJUDGED),
    "composite_low": Column(
        "float64", "low end of its 95 % interval: Student t over judges", POINTS, _UNJUDGED
    ),
    "composite_high": Column("float64", "high end of the same interval", POINTS, _UNJUDGED),
    "zeros": Column("Int64", "scores of 0 that the composite left out, over all judges", "scores", _UNJUDGED),
    "output_blob_id": Column("string", "SHA-256 of the reply", "", _NO_REPLY),
    "call_id": Column("string", "identity of the call that answers the run: see calls"),
    "created_at": Column("utc", "when the run was first recorded", "UTC, ms"),
}

JUDGEMENTS: Final[Mapping[str, Column]] = {
    **PLACE,
    "judge": Column("role", "role of the judge: primary < secondary < tertiary"),
    "judge_repeat": Column("Int64", "which time this judge judged this reply, from 0"),
    "judge_model": Column("string", "the judge's model, by its name in the study"),
    "related": Column("boolean", "whether judge and judged model share a family"),
    "focus": Column("string", "focus sentence prompting: off, listed or per_sentence"),
    "rubric": Column("string", "name of the rubric"),
    "rubric_hash": Column("string", "SHA-256 of its content"),
    "failed": Column("bool", "whether the judge gave no scores"),
    "reason": Column("string", "why it failed: a stable word, a colon, detail", "", "judgement did not fail"),
    **_scores(_FAILED),
    "zeros": Column("Int64", "scores of 0 that the composite left out", "scores", _FAILED),
    "expected_composite": Column(
        "float64", "mean of the probability-weighted scores", POINTS, "no log-probabilities of all dimensions"
    ),
    "expected_mass": Column(
        "float64", "least probability that an expected score rests on", "0-1", "no log-probabilities"
    ),
    "repaired": Column("boolean", "whether the judge was shown an error of its own first"),
    "input_tokens": Column("Int64", "tokens sent, in all calls of the judgement", "tokens", "no answer came"),
    "output_tokens": Column("Int64", "tokens that came back", "tokens", "no answer came"),
    "aud_cost": Column("float64", "cost of all calls of the judgement", "AUD", "no answer came"),
    "latency_ms": Column("float64", "time of all its calls together", "ms", "no answer came"),
    "call_id": Column("string", "identity of its first call: see calls"),
    "created_at": Column("utc", "when the judgement was first recorded", "UTC, ms"),
}

DIMENSION_SCORES: Final[Mapping[str, Column]] = {
    **{name: PLACE[name] for name in ("run_id", "base", "cluster", "length_bin", "model", "repeat")},
    **{name: JUDGEMENTS[name] for name in ("judge", "judge_repeat")},
    "dimension": Column("dimension", "which of the seven dimensions, in the order of the rubric"),
    "score": Column("float64", "the judge's score of it", POINTS, _FAILED),
}

CALLS: Final[Mapping[str, Column]] = {
    "call_id": Column(
        "string", "identity of the call: SHA-256 of everything that decides what may come back"
    ),
    "paid_by": Column("string", "study that asked and paid; another one where studies share a call"),
    "purpose": Column("string", "run or judge"),
    "leads": Column(
        "bool",
        "whether it answers a run or names a judgement of the study, under settings of now or before; retries with "
        "more tokens, repairs, sentences and probes do not",
    ),
    "run_id": Column(
        "string", "run that it answers or judges; the first of several with one text", "", "does not lead"
    ),
    "role": Column(
        "role", "role of the judge", "", "a run's call, or two judges share the model and none is named"
    ),
    "judge_repeat": Column("Int64", "which time the judge judged the reply", "", "names no judgement"),
    "model": Column(
        "string", "the model's name in the study", "", "the study names it no more, or names it twice"
    ),
    "provider": Column("string", "who was asked"),
    "provider_model": Column("string", "the provider's own name of the model"),
    "answered_by": Column("string", "the model that the reply says it is from", "", "no reply"),
    "state": Column("string", "done, failed or claimed (under way, or left by a process that died)"),
    "input_tokens": Column("Int64", "tokens sent", "tokens", "no reply"),
    "output_tokens": Column("Int64", "tokens that came back", "tokens", "no reply"),
    "cache_read_tokens": Column(
        "Int64", "part of input read from the provider's cache", "tokens", "no reply"
    ),
    "cache_written_tokens": Column("Int64", "part of input written to it", "tokens", "no reply"),
    "tokens_estimated": Column("boolean", "whether they are our count, not the provider's", "", "no reply"),
    "aud_cost": Column("float64", "what the reply cost", "AUD", "no reply"),
    "unsure_aud": Column(
        "float64", "what attempts that broke after they were sent may have cost besides, at worst", "AUD"
    ),
    "latency_ms": Column("float64", "time from request to reply", "ms", "no reply"),
    "attempts": Column("Int64", "requests that were sent for it, the failed ones too", "requests"),
    "finish_reason": Column("string", "stop, length, filter, refusal or other", "", "no reply"),
    "failure": Column(
        "string", "why there is no reply: a stable word, a colon, detail", "", "call did not fail"
    ),
    "created_at": Column("utc", "when the call was first claimed", "UTC, ms"),
}

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
