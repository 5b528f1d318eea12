"""LaTeX: what a model wrote prints as it is and is never obeyed; numbers align; missing is not zero."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import InputError
from toolkit.report.latex import latex_table
from toolkit.report.latex_text import escape, escape_breaking, number, p_value

# Everything that `escape` may write besides plain characters.
COMMANDS = re.compile(
    r"\\(textbackslash|textasciicircum|textasciitilde|textless|textgreater|textbar|dots|S|pounds)\{\}|\\char(34|96)\{\}"
    r"|\\[{}$&#%_]|\$-\$|\$\\[A-Za-z]+\$|\$\^\{(\\circ|2|3)\}\$|\{[\[\]*]\}|\{\}"
)


@pytest.mark.parametrize(
    ("hostile", "printed"),
    [
        (r"\input{/etc/passwd}", r"\textbackslash{}input\{/etc/passwd\}"),
        ("\\end{tabular}\\write18{rm}", r"\textbackslash{}end\{tabular\}\textbackslash{}write18\{rm\}"),
        ("a & b \\\\", r"a \& b \textbackslash{}\textbackslash{}"),
        (
            "100% of #1_2 ^~ $x$",
            r"100\% of \#1\_2 \textasciicircum{}\textasciitilde{} $\mathdollar$x$\mathdollar$",
        ),
        ('<b>|"q"|', r"\textless{}b\textgreater{}\textbar{}\char34{}q\char34{}\textbar{}"),
        ("one\ntwo\r\n\n\nthree\t4", "one two three 4"),
        ("[2mm] * note", "{[}2mm{]} {*} note"),
        ("--- ''", "-{}-{}- '{}'"),
        ("\x00\x07\x1b[31m\u202eevil", "{[}31mevil"),
        ("Zürich – naïve “quote”", "Zürich -- naïve ``quote''"),
        ("κ ≤ 2 → Ω", r"$\kappa$ $\leq$ 2 $\rightarrow$ $\Omega$"),
        ("日本 🙂", "{[}U+65E5{]}{[}U+672C{]} {[}U+1F642{]}"),
        ("", ""),
    ],
)
def test_hostile_text_is_printed_and_not_obeyed(hostile, printed):
    assert escape(hostile) == printed


@given(st.text(max_size=60))
def test_no_text_leaves_a_character_that_latex_would_obey(text):
    left = COMMANDS.sub("", escape(text))
    assert not set(left) & set('\\{}$&#%_^"[]*<>|\n\r')
    assert all(character.isprintable() for character in left)


@given(st.text(max_size=60))
def test_places_to_break_a_line_change_nothing_else(text):
    """What may be broken prints what it printed before, two hyphens as two."""
    assert re.sub(r"\\allowbreak\{\}|\{\}", "", escape_breaking(text)) == escape(text).replace("{}", "")


def test_signs_that_cannot_be_printed_may_end_a_line_between_each_other():
    """Four letters of Arabic are 36 characters by name, more than a narrow column holds."""
    printed = escape_breaking("\u0633\u0644\u0627\u0645")
    assert printed.count(r"\allowbreak{}") == 3
    assert printed.replace(r"\allowbreak{}", "") == escape("\u0633\u0644\u0627\u0645")


@given(st.text(max_size=60))
def test_braces_of_escaped_text_are_balanced(text):
    braces = re.sub(r"\\[{}]", "", escape(text))
    assert braces.count("{") == braces.count("}")


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (1.005, 1, "1.0"),
        (-2.5, 0, "$-$2"),
        (-0.0001, 2, "0.00"),
        (1e-9, 3, "0.000"),
        (12345.678, 1, "12345.7"),
    ],
)
def test_a_number_keeps_its_decimals_and_its_sign(value, decimals, text):
    assert number(value, decimals) == text


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf")])
def test_a_missing_number_is_a_dash_and_never_zero(value):
    assert number(value, 2) == "--"
    assert p_value(value) == "--"
    frame = pd.DataFrame({"ci": [(0.1, 0.2), (value, 1.0), (0.0, value)]})
    assert latex_table(frame, "c", "l").count(r"    \multicolumn{2}{c}{--} \\") == 2


def test_a_small_p_value_is_not_printed_as_zero():
    assert p_value(0.0) == "$<$0.001"
    assert p_value(0.001) == "0.001"


def test_a_table_has_booktabs_rules_caption_label_and_aligned_columns():
    frame = pd.DataFrame({"name": ["a_b", "c"], "x": [1.5, -0.25], "n": [12, 3], "ci": [(0.1, 0.2), None]})
    table = latex_table(
        frame, "Of 100% (n = 2).", "tab:x-1", {"name": "Name", "x": "x", "n": "n", "ci": "CI"}
    )
    assert r"\begin{tabular}{lrrr@{, }r}" in table
    assert r"    a\_b & 1.50 & 12 & {[}0.10 & 0.20{]} \\" in table
    assert r"    c & $-$0.25 & 3 & \multicolumn{2}{c}{--} \\" in table
    assert r"\caption[Of 100\%]{Of 100\% (n = 2).}" in table
    assert r"\label{tab:x-1}" in table
    assert [table.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert table.endswith("\\end{table}\n")


def test_missing_values_of_every_kind_are_dashes_and_an_empty_text_is_empty():
    frame = pd.DataFrame({"x": [None, np.nan, pd.NA, pd.NaT, ""]}, dtype=object)
    body = re.findall(r"^    (.*) \\\\$", latex_table(frame, "c", "l"), re.MULTILINE)
    assert body == ["x", "--", "--", "--", "--", ""]


def test_nullable_integers_stay_integers():
    frame = pd.DataFrame({"n": pd.array([3, pd.NA], dtype="Int64")})
    table = latex_table(frame, "c", "l")
    assert "    3 \\\\\n    -- \\\\" in table
    assert r"{tabular}{r}" in table


def test_decimals_may_differ_between_columns():
    frame = pd.DataFrame({"a": [1.23456], "b": [1.23456], "p": [0.00001]})
    assert "1.2346 & 1.23 & $<$0.001" in latex_table(frame, "c", "l", decimals={"a": 4}, p_values=("p",))


def test_a_frame_without_rows_is_a_table_without_rows():
    table = latex_table(pd.DataFrame({"a": []}), "c", "l")
    assert "\\midrule\n    \\bottomrule" in table


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(InputError, match=r"column 'z' of table tab:a: the frame has a"):
        latex_table(pd.DataFrame({"a": [1]}), "c", "tab:a", {"z": "Z"})


@pytest.mark.parametrize("label", ["tab:{x}", "", "a b", "x\\y", "ü"])
def test_a_label_that_latex_could_not_refer_to_is_refused(label):
    with pytest.raises(InputError, match="use letters, digits"):
        latex_table(pd.DataFrame({"a": [1]}), "c", label)


def test_a_number_that_is_not_zero_never_prints_as_zero_and_the_points_stay_aligned():
    """A cost of 0.00042 AUD is not free, and noise of the arithmetic is nothing."""
    frame = pd.DataFrame(
        {"aud": [0.00042, 2.76, 0.0, 1e-17], "ci": [(-0.00031, 1.0), None, (0.0, 0.5), None]}
    )
    table = latex_table(frame, "c", "l", decimals=3)
    assert r"    0.00042 & {[}$-$0.00031 & 1.000{]} \\" in table
    assert r"    2.760\phantom{00} & \multicolumn{2}{c}{--} \\" in table
    assert r"    0.000\phantom{00} & {[}0.000\phantom{00} & 0.500{]} \\" in table


def test_wide_text_is_broken_inside_of_columns_that_fit_the_line():
    """Columns of text share what the numbers leave; a name without a blank has places to break."""
    frame = pd.DataFrame({"who": ["x" * 90], "what": ["a few words " * 9], "n": [1.0]})
    table = latex_table(frame, "c", "l")
    shares = [float(share) for share in re.findall(r"p\{([0-9.]+)\\linewidth\}", table)]
    assert len(shares) == 2
    assert sum(shares) < 0.95
    assert max(map(len, re.findall("x+", table))) == 12


def test_a_table_longer_than_a_page_goes_over_pages_with_its_head_on_each():
    """Fifty rows do not fit one page; forty do."""
    frame = pd.DataFrame({"a": range(50)})
    table = latex_table(frame, "c", "l")
    assert table.count(r"\begin{longtable}") == table.count(r"\endhead") == 1
    assert table.count(r"    a \\") == 2
    assert r"\begin{table}" in latex_table(frame[:40], "c", "l")
