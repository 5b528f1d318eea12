"""The card of a judge: what is drawn, what the caption says, and what happens when there is little to draw."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from whole_study import make_study
from wording_rules import too_many_sentences

from toolkit.report.figure import About, render
from toolkit.report.plots.judge_card import judge_card, judge_card_table
from toolkit.report.style import PAGE_MM
from toolkit.report.tables import with_interval
from toolkit.stats.agreement.judge_card import JudgeCard, judge_cards
from toolkit.stats.agreement.probe_shift import HARM, probe_shifts
from toolkit.stats.result import Estimate


def frames(bases: int = 12) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return judgements and runs of a synthetic study of two models."""
    held, _ = make_study(("alpha", "beta"), bases=bases, missing=0.0)
    judgements = held.judgements.assign(judge_model="$model_" + held.judgements["judge"].astype(str))
    chance = np.random.default_rng(2)
    judgements["aud_cost"] = chance.gamma(2.0, 0.002, len(judgements))
    judgements["latency_ms"] = chance.gamma(4.0, 300.0, len(judgements))
    return judgements, held.runs


def pairs(kinds=tuple(HARM)) -> pd.DataFrame:
    """Return pairs of the primary judge: 12 of each kind, one of them unreadable."""
    chance = np.random.default_rng(3)
    rows = [
        ("primary", kind, f"base_{n:02d}", 3.0, 3.0 + chance.normal(0, 0.4), True, "")
        for kind in kinds
        for n in range(12)
    ]
    frame = pd.DataFrame(rows, columns=["judge", "kind", "base", "original", "altered", "made", "reason"])
    frame.loc[frame.groupby("kind").head(1).index, ["altered", "reason"]] = [np.nan, "altered prose: 'no'"]
    return frame


@pytest.fixture(scope="module")
def card() -> JudgeCard:
    return judge_cards(*frames(), related={"primary": ["alpha"]}, shifts=probe_shifts(pairs()))[0]


def test_the_card_is_one_page_wide_and_fits_its_height(card: JudgeCard) -> None:
    """160 mm wide, no higher than the text of an A4 page; nothing is cut off at the right edge."""
    picture = Image.open(io.BytesIO(render(judge_card(card), "png", dpi=100)))
    assert picture.width == round(PAGE_MM / 25.4 * 100 - 0.5)
    assert picture.height <= 240 / 25.4 * 100
    edge = np.asarray(picture.convert("L"))[:, -2:]
    assert edge.min() == 255


def test_every_mark_and_interval_is_at_its_number(card: JudgeCard) -> None:
    """The drawn shifts are those of the card, in its order from above."""
    figure = judge_card(card).figure
    axes = next(axes for axes in figure.axes if axes.get_title(loc="left").startswith("Probes: how far"))
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert marks[::-1] == [one.shift.estimate for one in card.probes]
    bars = [
        tuple(line.get_xdata())
        for line in axes.lines
        if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]
    ]
    assert bars[::-1] == [(one.shift.low, one.shift.high) for one in card.probes]
    control = next(line for line in axes.lines if line.get_marker() == "o")
    assert control.get_color() != axes.lines[-1].get_color()


def test_the_caption_says_what_is_missing_and_how_intervals_were_made(card: JudgeCard) -> None:
    """Counts, source and note; reasons and correction in the notes; the data hold every result."""
    drawn = judge_card(card, context=About(source="Study s", note="Synthetic."))
    for words in (
        "one planted error: 1 x altered prose",
        "Holm over 4 kinds",
        "Right of 0 it is milder",
    ):
        assert words in (drawn.caption if words.startswith("Right") else drawn.notes)
    assert "never counted as 0" in drawn.caption
    assert "12 bases" in drawn.caption
    assert " Study s: n = " in drawn.caption
    assert drawn.caption.endswith(" Synthetic.")
    assert too_many_sentences([drawn, judge_card_table(card)], "Synthetic.") == {}
    assert len(drawn.data) == len(card.to_dict()["results"])


def test_a_judge_alone_that_gave_no_score_is_drawn_with_its_reasons() -> None:
    """Nothing is estimable but the share that failed; no warning, no zero, and no panel of probes."""
    judgements, runs = frames(bases=2)
    own = judgements[judgements["judge"] == "primary"].copy()
    own[["composite_strict", "aud_cost", "latency_ms"]] = np.nan
    own["failed"] = True
    drawn = judge_card(judge_cards(own, runs)[0])
    assert "no probes were tried." in drawn.caption
    assert not any(axes.get_title(loc="left").startswith("Probes") for axes in drawn.figure.axes)
    texts = [text.get_text() for axes in drawn.figure.axes for text in axes.texts]
    assert sum(text.startswith("not estimable") for text in texts) >= 5
    assert "not estimable: " in drawn.caption
    assert "Not estimable: " in drawn.notes
    render(drawn, "pdf")


def test_the_table_prints_small_costs_and_hostile_names_as_they_are(card: JudgeCard) -> None:
    """A tenth of a cent is not 0.00, a dollar sign is no mathematics, and P values stand where tests were made."""
    table = judge_card_table(card)
    assert r"$\mathdollar$model\_primary" in table.latex
    row = next(
        line for line in table.latex.splitlines() if line.strip().startswith("cost of a judgement (AUD)")
    )
    assert "0.00 " not in row
    shifts = [line for line in table.latex.splitlines() if line.strip().startswith("shift, ")]
    assert [", p " in line for line in shifts] == [False, *[True] * (len(shifts) - 1)]


def test_numbers_are_shown_with_the_decimals_of_their_unit() -> None:
    """Points, money, tokens, slopes, and never a minus before a zero."""
    assert with_interval(Estimate("x", None)) == ""
    assert with_interval(Estimate("x", -0.5, -1.0, 0.25, unit="score points (0-5)")) == "−0.50 [−1.00, 0.25]"
    assert with_interval(Estimate("x", 0.000012345, unit="AUD")) == "0.000012"
    assert (
        with_interval(Estimate("x", 0.0106, 0.00519, 0.023)) == "0.011 [0.005, 0.023]"
    )  # as many digits each
    assert with_interval(Estimate("x", 1234567.0, unit="tokens")) == "1,234,567"
    assert with_interval(Estimate("x", -1e-9, unit="score points (0-5) per 100 tokens of reply")) == "0.000"
