"""Of findings drawn from simulated studies: verdict, interval, P value and sentence never contradict each other."""

from collections import Counter
from string import Formatter

import numpy as np
import pandas as pd
import pytest
from score_tables import of_methods
from whole_study import make_study

from toolkit.analyses.answers import Analyses
from toolkit.stats.one_shot.methods import KEYS, score_methods
from toolkit.thesis.findings import (
    DIFFERENT,
    EQUIVALENT,
    NOT_ANSWERED,
    SMALL,
    TEXTS,
    UNDECIDED,
    one_shot_findings,
    scored_findings,
)


def rubric(rng, seed):
    """Few or several bases; scores that vary, gain exactly as much in every base, tie, or are near the ceiling."""
    bases, gain = int(rng.integers(2, 13)), float(rng.choice([0.0, 0.1, 0.25, 1.0]))
    models = ["a", "b", "c"][: rng.integers(2, 4)]
    analyses, _ = make_study(models, bases=bases, missing=0.05 * (seed % 2), seed=seed)
    runs = analyses.runs.copy()
    step = runs["level"].cat.codes + 2 * (runs["model"] == "b").astype(int)
    level, shape = runs["base"].str[-2:].astype(int), seed % 4
    if shape:
        noise = rng.normal(0, 0.3, len(runs)).round(1) if shape == 3 else 0.0
        scores = np.clip(1 + (level % 3) / 4 + gain * step + noise + 3 * (shape == 3), 0, 5)
        runs["composite_strict"] = scores.where(runs["composite_strict"].notna())
    settings = {"margin": float(rng.choice([0.2, 0.5])), "primary": "M-S" if seed % 3 else None}
    human = runs.iloc[::2][["run_id", "base", "cluster", "level", "model"]].assign(rater="anna")
    human["composite_strict"] = runs["composite_strict"] - rng.normal(0.3, 0.2, len(runs)).round(1)
    study = Analyses(runs, analyses.judgements, human.dropna(), **settings)
    return scored_findings(study, {}, ("length", "compare_models", "reliability"))


def keyed(rng, seed):
    """Models that are always or never right, and others, on few or many items that come in clusters."""
    items, size = int(rng.integers(2, 9)) * 5, int(rng.choice([1, 5]))
    rates = rng.choice([0.0, 0.25, 0.5, 0.9, 1.0], 3)
    rows = [
        (f"i{i}", f"c{i // size}", m, rng.random() < rates[k])
        for i in range(items)
        for k, m in enumerate("abc")
    ]
    answers = pd.DataFrame(rows, columns=["base", "cluster", "model", "correct"])
    answers = answers.assign(chance=0.25, aud_cost=0.01, level="all", judged=True)
    answers = answers.astype({"correct": float})
    answers.attrs["score"] = "correct"
    study = Analyses(answers, pd.DataFrame(), keyed_answers=answers, score="correct")
    return scored_findings(study, {}, ("accuracy", "compare_models"))


def one_shot(rng, seed):
    """Three prompts on two to twenty questions, alike, better on every one by as much, or by chance."""
    questions, rates = int(rng.integers(2, 21)), rng.choice([0.2, 0.5, 1.0], 3)
    rows = []
    for q in range(questions):
        for rate, name in zip(rates, ("plain", "careful", "long"), strict=True):
            right = round(10 * rate) if seed % 2 else rng.binomial(10, rate)
            verdicts = ["expected"] * right + ["unexpected"] * (10 - right)
            rows += [(f"{name}/{q}", name, "none", f"q{q}", "s", "m", verdict) for verdict in verdicts]
    scores = score_methods(pd.DataFrame(rows, columns=[*KEYS, "verdict"]))
    return one_shot_findings(scores, of_methods(scores))


def votes(rng, seed):
    """Models that win by chance, often or always; judges that prefer what is shown first, or do not."""
    strength = dict(zip("abc", rng.choice([-9.0, -1.0, 0.0, 0.5, 9.0], 3), strict=True))
    rows = [
        (f"b{b}", f"p{b}", judge, first, second, strength[first] - strength[second] + bias)
        for b in range(int(rng.integers(2, 12)))
        for judge, bias in (("x", 0.0), ("y", 1.5 * (seed % 3)))
        for first, second in ("ab", "ba", "ac", "ca", "bc", "cb")
    ]
    pairs = pd.DataFrame(rows, columns=["base", "prompt_id", "judge", "first", "second", "logit"])
    win = rng.random(len(pairs)) < 1 / (1 + np.exp(-pairs["logit"]))
    pairs["vote"] = np.where(
        rng.random(len(pairs)) < 0.1 * (seed % 2), "tie", np.where(win, "first", "second")
    )
    runs = pd.DataFrame({"level": ["all"], "judged": [False]})
    study = Analyses(runs, pd.DataFrame(), pairs=pairs.assign(judge_model="m"))
    return scored_findings(study, {}, ("compare_pairs",))


def check(statement):
    """See that nothing of a finding contradicts the rest of it."""
    number, text, verdict = statement.estimate, statement.text, statement.verdict
    reference = 0.5 if number.statistic == "share of first" else 0.0
    out = reference < (number.low or -np.inf) or (np.inf if number.high is None else number.high) < reference
    p, ends, is_different = number.p_value, (number.low, number.high), verdict in (DIFFERENT, SMALL)
    assert is_different == (out if p is None else p < 0.05)
    assert is_different <= out
    assert out == is_different or ends == (None, None) or number.family > 1
    assert (number.family > 1) == (number.correction != "none")
    forms = {**TEXTS["verdicts"], **TEXTS["undecided"]}
    said = {name for name in forms if all(words in text for words, *_ in Formatter().parse(forms[name]))}
    plain = {"different", "different from"} if is_different else {"difference", "reference"}
    few = p is not None and ends == (None, None)
    reason = {"corrected"} if out else {"few"} if few else said & plain
    right = {SMALL: {SMALL, DIFFERENT}, EQUIVALENT: {EQUIVALENT}, UNDECIDED: reason, DIFFERENT: said & plain}
    assert said == right[verdict]
    assert said
    if None not in ends and "; less what" not in text:
        low, high = map(float, text.partition("interval [")[2].partition("]")[0].split(", "))
        assert out == (not low <= reference <= high)
    # Of a model that won or lost every vote one end of its distance is all that is known.
    size = next(value for value in (number.estimate, *ends) if value is not None)
    assert (" lower than " in text) <= (size < 0)
    assert (" higher than " in text) <= (size > 0)


@pytest.mark.parametrize(
    "kind",
    [pytest.param(rubric, marks=pytest.mark.full), keyed, one_shot, votes],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 16), marks=pytest.mark.full)], ids=["some", "all"]
)
def test_verdict_interval_p_value_and_sentence_agree(kind, seeds):
    """With the full count more than 300 findings with a verdict."""
    seen = Counter()
    for seed in seeds:
        for statement in kind(np.random.default_rng(seed), seed):
            if statement.estimate is not None and statement.verdict not in ("", NOT_ANSWERED):
                check(statement)
                seen[statement.verdict] += 1
    assert min(seen[DIFFERENT], seen[UNDECIDED]) > 0
    assert seen.total() >= 3 * len(seeds)
