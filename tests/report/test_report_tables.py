"""LaTeX and tables: hostile text prints as it is and is never obeyed, numbers align, missing is not zero."""

import re

import numpy as np
import pandas as pd
import pytest
from cases import cases
from hypothesis import given
from hypothesis import strategies as st
from whole_study import make_study
from wording_rules import badly_worded, too_many_sentences

from toolkit.errors import InputError
from toolkit.report import captions
from toolkit.report.blocks import Grid
from toolkit.report.escape import escape, escape_breaking, readable
from toolkit.report.figure import About, save_table
from toolkit.report.registry import write_statistics
from toolkit.report.tables import estimates_table, judges_table, length_table, reliability_table
from toolkit.stats.result import Estimate
from toolkit.study import Study
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

pytestmark = pytest.mark.usefixtures("no_pictures")

# Everything that `escape` may write besides plain characters.
COMMANDS = re.compile(
    r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|dots|S|pounds)\{\}|\\char(34|96)\{\}"
    r"|\\[{}$&#%_]|\$-\$|\$\\[A-Za-z]+\$|\$\^\{(\\circ|2|3)\}\$|\{[\[\]*]\}|\{\}"
)


@pytest.mark.parametrize(("hostile", "printed"), CASES["hostile"])
def test_hostile_text_is_printed_and_not_obeyed(hostile, printed):
    assert escape(hostile) == printed


@given(st.text(max_size=60))
def test_no_text_leaves_a_character_that_latex_would_obey(text):
    written = escape(text)
    left = COMMANDS.sub("", written)
    braces = re.sub(r"\\[{}]", "", written)
    assert braces.count("{") == braces.count("}")
    assert not set(left) & set('\\{}$&#%_^"[]*<>|\n\r')
    assert all(character.isprintable() for character in left)


@given(st.text(max_size=60))
def test_places_to_break_a_line_change_nothing_else(text):
    """What may be broken prints what it printed before, two hyphens as two."""
    assert re.sub(r"\\allowbreak\{\}|\{\}", "", escape_breaking(text)) == escape(text).replace("{}", "")


def test_a_table_has_booktabs_rules_caption_label_and_aligned_columns():
    frame = pd.DataFrame({"name": ["a_b", "c"], "x": [1.5, -0.25], "n": [12, 3]})
    table = Grid(frame, "Of 100% (n = 2).", "x-1").latex()
    assert r"\begin{tabular}{lrr}" in table
    assert r"    a\_b & 1.50 & 12 \\" in table
    assert r"    c & $-$0.25 & 3 \\" in table
    assert r"\caption[Of 100\%]{Of 100\% (n = 2).}" in table
    assert r"\label{tab:x-1}" in table
    assert [table.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert table.endswith("\\end{table}\n")


def test_missing_values_of_every_kind_are_dashes_and_an_empty_text_is_empty():
    """Whole numbers beside them stay whole, and a table may have no rows."""
    frame = pd.DataFrame({"x": [None, np.nan, pd.NA, pd.NaT, ""]}, dtype=object)
    body = re.findall(r"^    (.*) \\\\$", Grid(frame, "c", "l").latex(), re.MULTILINE)
    assert body == ["x", "--", "--", "--", "--", ""]
    mixed = pd.DataFrame({"n": pd.array([3, pd.NA], dtype="Int64"), "x": [-0.001, float("inf")]})
    assert "    3 & 0.00 \\\\\n    -- & -- \\\\" in Grid(mixed, "c", "l").latex()
    assert "\\midrule\n    \\bottomrule" in Grid(frame[:0], "c", "l").latex()


@pytest.mark.parametrize("label", ["{x}", "", "a b", "x\\y", "ü"])
def test_a_label_that_latex_could_not_refer_to_is_refused(label):
    with pytest.raises(InputError, match="use letters, digits"):
        Grid(pd.DataFrame({"a": [1]}), "c", label)


def test_long_text_is_broken_into_lines_of_its_column():
    """A name without a blank has places to break; numbers stay on their line."""
    frame = pd.DataFrame({"who": ["x" * 90], "what": ["a few words " * 9], "n": [1.0]})
    table = Grid(frame, "c", "l").latex()
    assert r"\begin{tabular}{" + 2 * r">{\raggedright\arraybackslash}p{16em}" + "r}" in table
    assert max(map(len, re.findall("x+", table))) == 12


def test_a_table_longer_than_a_page_goes_over_pages_with_its_head_on_each():
    """Fifty rows do not fit one page; forty do."""
    frame = pd.DataFrame({"a": range(50)})
    table = Grid(frame, "c", "l").latex()
    assert table.count(r"\begin{longtable}") == table.count(r"\endhead") == 1
    assert table.count(r"    a \\") == 2
    assert r"\begin{table}" in Grid(frame[:40], "c", "l").latex()


@pytest.fixture(scope="module")
def held():
    """The analyses of a study of one model that misses one run and a judgement."""
    return make_study(("m",), bases=6, missing=0.08)[0]


def rows_of(table):
    """Return the rows of a table with their head."""
    return [line.strip() for line in table.latex.splitlines() if line.endswith(r"\\")]


def test_reliability_has_one_row_a_dimension_and_its_data_hold_what_is_printed(held, tmp_path):
    """Absolute agreement and alpha over judges; the notes have alpha over dimensions and each method."""
    table = reliability_table(held.reliability(), context=captions.Context("Study x", note="Note."))
    assert len(rows_of(table)) == 1 + len(DIMENSIONS) + 1
    assert rows_of(table)[0].startswith("& ICC(A,1) & ICC(A,k) & alpha over judges")
    assert set(table.data["name"]) == {"ICC(A,1)", "ICC(A,k)", "alpha over judges"}
    assert "Alpha over dimensions = " in table.notes
    assert re.search(
        r"Study x: n = 6 bases, \d+ answers, 3 judges; 95% intervals, made as the notes say", table.caption
    )
    methods = r"95% intervals of ICC\(A,1\), ICC\(A,k\): .*; 95% intervals of alpha over judges: "
    assert re.search(methods, table.notes)
    assert table.caption.endswith(" Note.")
    tex, csv, _ = save_table(table, tmp_path / "tables")
    assert tex.read_text("utf-8") == table.latex
    assert pd.read_csv(csv)["estimate"].tolist() == table.data["estimate"].tolist()


def test_a_score_that_cannot_be_estimated_shows_dashes_and_its_reason(held):
    """Never a zero."""
    silent = (Estimate("ICC(A,1)", None, missing=4, reason="one judge"),)
    found = held.reliability()
    table = reliability_table(found.replace(icc={**found.icc, "composite_strict": silent}))
    assert re.search(r"composite & -- & +& 0\.\d\d ", table.latex)
    assert "Not estimable: ICC(A,1) (one judge)." in table.notes
    assert re.search(r"; up to \d+ more are missing and not in n; not estimable: ICC\(A,1\)\.", table.caption)


def test_length_shows_means_differences_corrected_p_and_effect_sizes(held):
    """A mean has no test; a difference has its role and correction."""
    table = length_table(held.length())
    rows = rows_of(table)
    assert [row.split(" & ")[0] for row in rows[1:]] == ["S", "M", "L", "M$-$S", "L$-$M", "L$-$S"]
    assert "p = " not in rows[1]
    assert "p = " in rows[4]
    assert re.search("P values corrected for multiplicity: Holm .*, intervals unadjusted", table.caption)
    assert "1 of 18 runs has no composite_strict and is left out" in table.notes
    means = [one.estimate for one in held.length().per_level]
    assert table.data["estimate"].tolist()[:3] == means


def test_judges_have_a_row_each_with_counts_that_have_no_interval(held):
    """Leniency, correlation and slope with intervals, failures and cost as they are; the model stands for the role."""
    judges = held.judgements["judge"].unique()
    table = judges_table(held.compare_judges(), {judge: f"model of {judge}" for judge in judges})
    rows = rows_of(table)
    assert rows[0] == r"& leniency (points) & r with the others & slope per 100 tokens & failed & AUD \\"
    assert [row.split(" & ")[0] for row in rows[1:]] == [f"model of {judge}" for judge in judges]
    failed = held.judgements.groupby("judge", observed=True)["failed"].sum()
    assert [row.split(" & ")[4] for row in rows[1:]] == [str(failed[judge]) for judge in judges]
    assert all(row.count("{[}") == 3 for row in rows[1:])
    assert "(a complete count)" in table.notes


def test_captions_of_a_study_that_misses_one_of_each_read_well(held):
    """What is counted is one of many; studies of one base, judge and length: test_figures."""
    found = held.reliability()
    tables = (reliability_table(found), judges_table(held.compare_judges(), {}), length_table(held.length()))
    assert badly_worded(*(table.caption for table in tables), *(table.notes for table in tables)) == []
    assert too_many_sentences(tables) == {}


def test_a_judged_study_has_a_table_of_every_family_and_a_sentence_of_every_estimate(
    demo_like_study, tmp_path
):
    """What cannot be estimated from scripted judges keeps its row and says why; the same bytes twice."""
    with Study.load(demo_like_study) as study:
        names = list(study.analyses())
        first, again = (study.statistics(tmp_path / name) for name in ("one", "two"))
        figures = study.figures(tmp_path)
    assert {path.name.removesuffix(".notes.txt").rsplit(".")[0] for path in first} == {*names, "sentences"}
    assert {"reliability", "generalizability", "length", "length_bias", "power"} <= set(names)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    text = next(path for path in first if path.name == "sentences.txt").read_text()
    for words in ("Scripted models answer and judge.", "ICC(A,1) = "):
        assert words in text
    assert " nan" not in text.lower()
    data = pd.read_csv(tmp_path / "one" / "statistics" / "length.csv")
    assert "F(levels)" in set(data["name"])
    assert data[data["estimate"].isna()]["note"].str.len().gt(0).all()
    assert all("\\caption[" in path.read_text() for path in first if path.suffix == ".tex")
    # Neither tables nor captions print a name of the code; the CSV beside them keep theirs.
    for path in (*first, *figures):
        if path.suffix == ".tex" or (path.suffix == ".txt" and path.stem not in ("left_out", "sentences")):
            told = re.sub(r"\\label\{[^}]*\}|dataset version \S+", "", path.read_text("utf-8"))
            found = re.findall(
                r"\w*[a-z]\\?_[a-z]\w*|\bper aud\b|\baud per\b|E-rho2|\bPhi\b(?!\$)|[ =\[]-\d", told
            )
            symbols = ("d_z", "g_z")  # of effect sizes, which LaTeX sets with an index
            assert [name for name in found if name not in symbols] == [], path.name


def test_a_result_that_cannot_be_estimated_keeps_its_row_and_nothing_judged_is_one_line(tmp_path):
    """Not estimable is a row and a sentence, never a gap."""
    silent = Estimate("omega", None, n={"answers": 1}, reason="one answer")
    write_statistics({"omega": ("Omega", {"over_judges": silent})}, About(), tmp_path)
    assert "over_judges: omega: not estimable" in (tmp_path / "statistics" / "sentences.txt").read_text()
    assert "omega" in (tmp_path / "statistics" / "omega.tex").read_text()
    with pytest.raises(InputError, match="judge the study first"):
        write_statistics({}, About(), tmp_path)


def test_no_name_of_the_code_is_printed():
    """Effect sizes are mathematics, columns are words; what only looks alike stays as it is."""
    assert escape("d_z(M-S), g_av") == "$d_{z}$(M$-$S), $g_{av}$"
    assert escape("missing, level S; points per aud") == "missing, level S; points per AUD"
    assert escape("difference over level of composite_strict") == "difference over level of composite"
    assert escape("SOC_INCIDENT, risk_awareness, Phi") == r"SOC incident, risk awareness, $\Phi$"
    assert escape("model d_zoo of my_d_z") == r"model d\_zoo of my\_d\_z"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("L-M = -0.004 [-0.063, 0.056]", "L−M = −0.004 [−0.063, 0.056]"),
        ("model-a - model-b", "model-a − model-b"),
        ("gpt-4-0613 on 2025-11-23 (0-5), one-way, x-S-M", "gpt-4-0613 on 2025-11-23 (0-5), one-way, x-S-M"),
        ("base x judge", "base × judge"),
    ],
)
def test_a_minus_is_one_sign_everywhere_and_a_hyphen_stays_one(text, printed):
    """In captions, tables, alt texts and figures alike."""
    assert readable(text) == printed


def estimate(name, value, **more):
    return Estimate(name, value, value - 0.1, value + 0.1, method="t", **{"n": {"bases": 9}, **more})


@pytest.mark.parametrize(
    ("keyed", "rows"),
    [
        (  # forms across, dimensions down
            [(("icc", score), estimate(form, 0.5)) for score in ("clarity", "relevance") for form in "AB"],
            ["& A & B", "clarity & 0.50 {[}0.40, 0.60{]} & 0.50", "relevance & 0.50"],
        ),
        (  # what the results are of goes down
            [
                (
                    ("points", part),
                    estimate(f"{part} of m at {name}", 2.0, statistic=part, facets={"of": f"m at {name}"}),
                )
                for name in "SL"
                for part in ("cost", "score")
            ],
            ["& cost & score", "m at S & 2.00", "m at L & 2.00"],
        ),
        (  # parts of a result with the same names across
            [((part,), estimate(name, 0.3)) for part in ("contrasts", "direct") for name in ("M-S", "L-M")],
            ["& difference & at equal reply length", "M$-$S & 0.30", "L$-$M & 0.30"],
        ),
        (  # a place that is taken gets a row of its own
            [("x", estimate("same", 0.1)), ("x", estimate("same", 0.2))],
            ["& x", "same & 0.10", "same & 0.20"],
        ),
        (  # n beside rows that differ in it
            [("x", estimate("a", 0.1)), ("x", estimate("b", 0.2, n={"bases": 9, "answers": 7}))],
            ["& x & n", "a & 0.10 {[}0.00, 0.20{]} & ", "b & 0.20 {[}0.10, 0.30{]} & 7 answers"],
        ),
    ],
    ids=["forms", "names", "parts", "same", "n"],
)
def test_what_repeats_is_a_column(keyed, rows):
    """N and the method stand in the caption, once."""
    table = estimates_table("t", "Some results", keyed)
    assert len(rows_of(table)) == len(rows)
    assert all(row.startswith(start) for row, start in zip(rows_of(table), rows, strict=True)), rows_of(table)
    assert table.caption == "Some results: intervals in brackets. n = 9 bases; 95% intervals: t."
    assert table.data["estimate"].tolist() == [one.estimate for _, one in keyed]


def test_another_n_another_level_and_roles_are_said_once():
    """As notes of their columns, not in every row."""
    two = {"confidence": 0.9, "p_value": 0.02, "correction": "Holm over 2 tests"}
    keyed = [
        (("contrasts",), estimate(name, 0.3, p_value=0.0001, role="exploratory")) for name in ("M-S", "L-M")
    ]
    keyed += [(("equivalence",), estimate(name, 0.3, n={"bases": 8}, **two)) for name in ("M-S", "L-M")]
    table = estimates_table("t", "Some", keyed)
    assert rows_of(table)[0] == r"& difference & equivalence {[}90\% interval{]} \\"
    assert "0.30 {[}0.20, 0.40{]}, p \\textless{} 0.001 & 0.30 {[}0.20, 0.40{]}, p = 0.020" in table.latex
    for words in (
        "n = 9 bases; 95% and 90% intervals, made as the notes say.",
        "Holm over 2 tests, intervals unadjusted; all of these tests are exploratory.",
    ):
        assert words in table.caption
    assert table.notes.startswith(
        "For equivalence n = 8 bases. 95% intervals of difference: t; 90% intervals of"
    )
