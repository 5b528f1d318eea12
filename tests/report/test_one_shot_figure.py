"""The figure and the tables of the one-shot test: what they draw, what they say, and what happens at the edges."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from cases import cases
from score_tables import of_methods
from wording_rules import badly_worded, too_many_sentences

from toolkit.report.figure import ALONE, render, save_table
from toolkit.report.registry import save_drawn
from toolkit.stats.one_shot.methods import KEYS, score_groups, score_methods
from toolkit.traffic.figures import (
    MOST_ROWS,
    draw_one_shot,
    one_shot_figure,
    one_shot_figures,
    one_shot_table,
)

CASES = cases(__file__)

VERDICTS = ("expected", "unexpected", "hallucinated", None)


def scored(counts, variants=("plain",), model="m", document="none"):
    """Return methods with these counts of expected, unexpected, hallucinated and missing verdicts."""
    rows = [
        (f"{v}/{q}", v, document, q, "shop", model, verdict)
        for v in variants
        for q, numbers in counts.items()
        for verdict, number in zip(VERDICTS, numbers, strict=False)
        for _ in range(number)
    ]
    return score_methods(pd.DataFrame(rows, columns=[*KEYS, "verdict"]))


COUNTS = CASES["counts"]
FOUR = scored(COUNTS)


def bars_of(figure):
    """Return the drawn bars of the left axes as (left, width) by row."""
    found = {}
    for patch in figure.figure.axes[0].patches:
        row = round(patch.get_y() + patch.get_height() / 2)
        found.setdefault(row, []).append((patch.get_x(), patch.get_width()))
    return found


def test_the_bars_are_the_counts_and_add_up_to_one():
    """Each row is stacked without gaps, in the order I1, I0, H, missing."""
    figure = one_shot_figure(FOUR)
    assert render(figure, "png", dpi=50)
    bars = bars_of(figure)
    assert [[pytest.approx(width) for _, width in row] for row in bars.values()] == CASES["widths"]
    for row in bars.values():
        assert row[0][0] == 0
        for (left, width), (following, _) in pairwise(row):
            assert following == pytest.approx(left + width)
    assert figure.n == CASES["numbers"]


def test_the_score_stands_beside_and_a_method_without_one_says_so():
    """Printed is what the result holds: not below 0, never 0 for what is missing; the same bytes twice."""
    figure, again = (one_shot_figure(FOUR) for _ in range(2))
    for kind in ("pdf", "svg"):
        assert render(figure, kind) == render(again, kind)
    printed = [text.get_text() for text in figure.figure.axes[1].texts]
    assert printed == ["1.00", "0.45", "0.00", "not scored", "score"]
    for name in ("raw", "low"):
        assert figure.data[name].tolist()[:3] == [getattr(one.score, name) for one in FOUR[:3]]
    assert np.isnan(figure.data["score"].iloc[3])
    for words in (
        "4 methods, N = 10 experiments each, 40 in all",
        "95% intervals: Clopper-Pearson carried to three outcomes",
        "2 experiments have no verdict: missing, not zero, so that their methods have no score",
        "weights of I1, I0 and H in the raw score: 1, 0 and -0.5.",
    ):
        assert words in figure.caption
    assert "Not estimable: codes (incomplete: I1+I0+H = 8 of 10)." in figure.notes
    axes = figure.figure.axes[1]  # it ends with a tick, or nobody could tell how far below 0 it goes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["−0.5", "0.0", "0.5", "1.0"]


def test_every_variant_and_model_gets_its_figures_and_none_is_too_long():
    """The groups first, then methods in pages of at most 45; no method is lost."""
    many = {f"q{n}": (5, 3, 2) for n in range(MOST_ROWS + 2)}
    methods = scored(many, ("plain", "careful"))
    figures = one_shot_figures(methods, score_groups(methods))
    names = [f"one_shot_methods_{n}" for n in range(1, 5)]
    assert [figure.name for figure in figures] == ["one_shot", *names]
    assert [len(figure.data) for figure in figures] == [2, MOST_ROWS, 2, MOST_ROWS, 2]
    assert "the prompt careful and the model m" in figures[-1].caption
    assert figures[0].data["label"].tolist() == ["plain", "careful"]
    assert "mean raw score over methods" in figures[0].caption
    (incomplete, _) = one_shot_figures(FOUR, score_groups(FOUR))
    assert "Student t over methods" in incomplete.caption
    assert "Not scored" not in incomplete.caption  # the table has how many of each row are scored


@pytest.mark.parametrize("methods", [(), scored({"codes": (0, 0, 0, 3)})[:1]])
def test_nothing_to_score_is_drawn_without_a_complaint(methods):
    """No method at all is a message, a method without a verdict an empty bar; one experiment is told of as one."""
    figure = one_shot_figure(methods)
    assert render(figure, "pdf")
    assert ("no experiments" in figure.caption) == (not methods)
    assert "no interval could be estimated" in figure.caption or not methods
    one = one_shot_figure(scored({"hosts": (1, 0, 0)}))
    assert " 1 method, N = 1 experiment; " in one.caption
    assert badly_worded(one.caption, one.alt_text) == []
    assert "not corrected for their number" not in one.caption


def test_the_table_holds_counts_scores_and_intervals(tmp_path):
    """Score and raw differ where a method is below 0; a group of an incomplete method has its counts and no score."""
    methods = [
        *scored({"a": COUNTS["hosts"], "b": COUNTS["ports"]}),
        *scored({"a": COUNTS["codes"]}, ("careful",)),
    ]
    table = one_shot_table(score_groups(methods))
    assert too_many_sentences([table, one_shot_figure(FOUR)]) == {}
    assert "plain & 10 & 2 & 8 & 0 & 20 & 2 of 2 & 0.50 & 0.30 {[}$-$0.50, 1.00{]}" in table.latex
    assert r"careful & 4 & 4 & 0 & 2 & 10 & 0 of 1 & -- & -- \\" in table.latex
    assert len(table.data) == 4
    files = ["one_shot.tex", "one_shot.csv", "one_shot.notes.txt"]
    assert [path.name for path in save_table(table, tmp_path)] == files
    groups = one_shot_table(score_groups(FOUR)).latex
    assert "Methods & I1" in groups
    assert "& 20 & 7 & 11 & 2 & 40 & 3 of 4 & " in groups  # a mean over three of four methods says so
    assert one_shot_table([]).latex


def write(methods, folder):
    return save_drawn(draw_one_shot(methods, of_methods(methods)), folder, ALONE)


def test_what_methods_differ_in_has_its_part_of_the_figure_and_its_table(tmp_path):
    """By name: prompts, documents and models, their means, differences and notes; nothing of it speaks of length."""
    counts = {f"q{n}": (n, 8 - n, 2) for n in range(7)}
    better = {q: (a + 2, b - 2, c) for q, (a, b, c) in counts.items()} | {"q6": (7, 0, 2, 1)}
    methods = [*scored(counts), *scored(better, document="rfc"), *scored(counts, ("careful",), "n")]
    write(methods, tmp_path)
    rows = pd.read_csv(tmp_path / "figures" / "one_shot.csv")["label"].tolist()
    assert rows == ["plain, no document, m", "plain, the document rfc, m", "careful, no document, n"]
    texts = {path.name: path.read_text("utf-8") for path in tmp_path.rglob("*.t[ex][xt]")}
    assert "prompt plain, the document rfc and the model m" in texts["one_shot_methods_2.txt"]
    caption, notes, table = (texts[f"conditions{end}"] for end in (".txt", ".notes.txt", "_document.tex"))
    seen = "Raw scores of methods under different conditions (prompt, document and model): "
    assert caption.startswith(seen)
    assert "1 of 21 methods has no score and is left out." in notes
    assert badly_worded(caption, notes) == []
    drawn = pd.read_csv(tmp_path / "figures" / "conditions.csv")
    assert " ".join(drawn.loc[drawn["part"] == "mean", "name"]) == "plain careful none rfc m n"
    assert "Comparison by document: intervals in brackets" in table
    assert "rfc $-$ none & 0.20 {[}0." in table
    tables = {f"conditions_{factor}.tex" for factor in ("variant", "document", "model")}
    assert tables <= texts.keys()
    assert not [name for name, text in texts.items() if "length" in text or "composite" in text.lower()]


def test_figures_and_tables_of_fewer_methods_leave_none_of_the_earlier(tmp_path):
    """A model or a variant has left the test: its figure and the comparison go, what is not ours stays."""
    figures, tables = tmp_path / "figures", tmp_path / "tables"
    stale = [
        figures / "one_shot_methods_2.pdf",
        figures / "one_shot_methods_10.tex",
        figures / "conditions.pdf",
        tables / "conditions_variant.csv",
    ]
    mine = tables / "conditions_of_mine.csv"
    for path in (*stale, mine):
        path.parent.mkdir(exist_ok=True)
        path.write_text("of an earlier call")
    files = write(scored({"hosts": (3, 0, 0)}), tmp_path)
    assert {path for path in tmp_path.rglob("*.*") if path.is_file()} == {*files, mine}
    assert figures / "one_shot_methods_1.pdf" in files
    two = [*scored({"hosts": (3, 0, 0)}), *scored({"hosts": (1, 2, 0)}, model="n")]
    files = write(two, tmp_path)  # one question decides nothing, and its table says so
    assert tables / "conditions_model.tex" in files
    assert figures / "conditions.pdf" not in files
