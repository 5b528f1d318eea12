"""The tables: what they print, what their captions say, and the files they are saved as."""

import pandas as pd
import pytest
from synthetic import fake_comparison, fake_reliability, make_runs

from toolkit.report.tables import forms_table, length_table, reliability_table, save_table
from toolkit.stats.result import Estimate
from toolkit.words import DIMENSIONS


def test_reliability_has_one_row_a_dimension_and_names_absolute_agreement_first():
    table = reliability_table(
        fake_reliability(keys=(*DIMENSIONS, "composite")), note="Note.", source="Study x."
    )
    rows = [line for line in table.latex.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 8
    assert rows[1].split(" & ")[:3] == ["    technical accuracy", "0.40", "{[}$-$0.05"]
    assert "n = 36 answers, 3 judges" in table.caption
    assert "ICC: 95% intervals: F distribution. Alpha: 95% intervals: Feldt." in table.caption
    assert table.caption.endswith("Study x. Note.")


def test_the_data_of_reliability_hold_all_six_forms_and_both_alphas():
    data = reliability_table(fake_reliability()).data
    assert data["name"].tolist() == [
        "ICC(1,1)", "ICC(A,1)", "ICC(C,1)", "ICC(1,k)", "ICC(A,k)", "ICC(C,k)",
        "alpha over judges", "alpha over dimensions",
    ]  # fmt: skip


def test_a_dimension_that_cannot_be_estimated_shows_dashes_and_its_reason():
    found = fake_reliability()
    found.icc["composite"] = (Estimate("ICC(A,1)", None, missing=4, note="not estimable: one judge"),)
    table = reliability_table(found)
    assert "composite & -- & -- & -- & -- & 0.70" in table.latex
    assert "Not estimable: ICC(A,1) (one judge)." in table.caption
    assert "Up to 4 ratings or answers were missing." in table.caption


def test_what_the_statistics_noted_stands_in_the_caption():
    assert "No rating was missing." in reliability_table(fake_reliability()).caption


def test_the_six_forms_have_three_decimals():
    table = forms_table(fake_reliability())
    assert "    ICC(1,1) & 0.300 & {[}$-$0.050 & 0.900{]} \\\\" in table.latex
    assert forms_table(fake_reliability(), "no such score").data.empty


def test_length_shows_means_differences_corrected_p_and_effect_sizes():
    table = length_table(fake_comparison(make_runs()))
    rows = [line.strip() for line in table.latex.splitlines() if line.endswith(r"\\")]
    assert (
        rows[0]
        == r"& Score & \multicolumn{2}{c}{95\% interval} & p & Test & g\_z & d\_z & \multicolumn{2}{c}{95\% interval} \\"  # noqa: E501
    )
    assert rows[1].endswith(r"&  &  & \multicolumn{2}{c}{} \\")
    assert (
        rows[6]
        == r"L-S & 0.30 & {[}0.10 & 0.50{]} & $<$0.001 & p: Holm, interval: unadjusted & -- & 0.80 & {[}$-$0.10 & 1.70{]} \\"  # noqa: E501
    )
    assert "n = 12 bases; answers: 36 S, 36 M, 36 L" in table.caption
    assert "P values corrected for multiplicity: Holm." in table.caption


def test_a_table_is_saved_as_tex_and_unrounded_csv(tmp_path):
    table = length_table(fake_comparison(make_runs()))
    tex, csv = save_table(table, tmp_path / "tables")
    assert tex.read_text(encoding="utf-8") == table.latex
    means = pd.read_csv(csv)["estimate"][:3].tolist()
    assert means == pytest.approx([e.estimate for e in fake_comparison(make_runs()).per_bin], abs=1e-15)
