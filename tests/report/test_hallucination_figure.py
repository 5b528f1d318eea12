"""The figure and the tables of hallucination judges: what is drawn is what was measured, and says what is missing."""

import numpy as np
import pytest
from wording_rules import too_many_sentences

from toolkit.hallucination.figures import RATES, hallucination_figure, hallucination_table
from toolkit.report.style import PAGE_MM
from toolkit.stats.detection.rates import baselines, decider

LABELS = [True, False] * 36
JUDGES = (("primary", "gpt-4-turbo"), ("secondary", "claude-3-5-haiku"), ("tertiary", "llama-3.3-70b"))


def make(judge, model, mode, right, seed):
    """Return a judge that is right so often, drawn by the seed, and leaves one item undecided."""
    chance = np.random.default_rng(seed)
    votes = [
        tuple(float(label if chance.random() < right else not label) for _ in range(5)) for label in LABELS
    ]
    votes[0] = (None,) * 5  # type: ignore[assignment]
    scores = [None if item[0] is None else float(np.mean(item)) for item in votes]
    return decider(
        judge,
        model,
        mode,
        labels=LABELS,
        decisions=[None if score is None else score > 0.5 for score in scores],
        scores=scores,
        votes=votes,
        aud=0.0123 * (seed + 1),
        unreadable=5,
    )


@pytest.fixture(scope="module")
def deciders():
    modes = ("boolean", "cot-seed", "cot", "score")
    pairs = [(judge, model, mode) for judge, model in JUDGES for mode in modes]
    return tuple(make(*pair, 0.5 + 0.04 * n, n) for n, pair in enumerate(pairs))


@pytest.fixture(scope="module")
def simple():
    return baselines(LABELS, np.random.default_rng(1).integers(80, 160, 72).tolist())


def test_every_number_drawn_is_a_number_measured(deciders, simple):
    """One row of data for each judge, mode and rate, and one mark with its interval in the panel of the rate."""
    drawn = hallucination_figure(deciders, simple, k=5)
    assert len(drawn.data) == 3 * (12 + 2)
    assert round(float(drawn.figure.get_size_inches()[0]) * 25.4) == PAGE_MM
    for axes, rate in zip(drawn.figure.axes, RATES, strict=True):
        marks = [line for line in axes.lines if line.get_linestyle() == "None"]
        assert [line.get_xdata()[0] for line in marks] == [one.found.rate(rate).estimate for one in deciders]
        ends = [tuple(line.get_xdata()) for line in axes.lines if line.get_linestyle() == "-"]
        assert ends == [(one.found.rate(rate).low, one.found.rate(rate).high) for one in deciders]
        grey = [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() in ("--", ":")]
        assert grey == [one.found.rate(rate).estimate for one in simple]
    for words in (
        "72 items, 3 judges, 4 modes, k = 5",
        "95% intervals: Wilson",
        "undecided, left out and not counted as wrong: 12 decisions",
        "grey lines: baselines that read nothing",
    ):
        assert words in drawn.caption


@pytest.mark.parametrize("decisions", [[None] * 72, []])
def test_nothing_decided_is_a_figure_that_says_so(decisions):
    """No decision, or no judge: words instead of an empty frame, and no file fails."""
    many = [decider("primary", "m", "cot", labels=LABELS, decisions=decisions)] if decisions else []
    drawn = hallucination_figure(many, k=5)
    assert drawn.figure.axes[0].texts[0].get_text() == "no item was decided"
    assert hallucination_table(many, k=5).latex.startswith(r"\begin{table}")


def test_the_table_holds_the_numbers(deciders, simple):
    """A row each, missing numbers as dashes, unrounded data, names that cannot become a command."""
    table = hallucination_table(deciders, simple, k=5)
    assert too_many_sentences([table, hallucination_figure(deciders, simple, k=5)]) == {}
    assert table.latex.count(r" \\") == 1 + 14
    assert table.data["accuracy"].tolist() == [
        one.found.rate("accuracy").estimate for one in (*deciders, *simple)
    ]
    majority = [line for line in table.latex.splitlines() if "always the majority" in line]
    assert "".join(majority).count("--") == 2  # kappa and AUD
    hostile = make("primary", r"\input{/etc/passwd}_$x$", "cot", 0.9, 1)
    assert r"\input" not in hallucination_table([hostile], k=5).latex
