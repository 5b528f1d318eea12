"""The tables: what they print, what their captions say, and the files of a whole study."""

import hashlib

import numpy as np
import pandas as pd
import pytest
from synthetic import fake_comparison, fake_reliability, make_judgements, make_ratings, make_runs

from toolkit.report.study_report import write_figures
from toolkit.report.tables import forms_table, length_table, reliability_table, save_table
from toolkit.stats.length import compare_lengths
from toolkit.stats.reliability import reliability
from toolkit.stats.result import Estimate
from toolkit.words import DIMENSIONS

NAMES = {
    *(f"figures/{n}.{kind}" for n in ("quality_by_length", "cost_quality", "judge_agreement") for kind in
      ("pdf", "png", "csv", "txt")),
    *(f"tables/{n}.{kind}" for n in ("reliability", "icc_forms", "length") for kind in ("tex", "csv")),
}  # fmt: skip


def test_reliability_has_one_row_a_dimension_and_names_absolute_agreement_first():
    table = reliability_table(
        fake_reliability(keys=(*DIMENSIONS, "composite")), note="Note.", source="Study x."
    )
    rows = [line for line in table.latex.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 1 + 8
    assert rows[1].split(" & ")[:3] == ["    technical accuracy", "0.40", "{[}$-$0.05, 0.90{]}"]
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
    assert "    ICC(1,1) & 0.300 & {[}$-$0.050, 0.900{]} \\\\" in table.latex
    assert forms_table(fake_reliability(), "no such score").data.empty


def test_length_shows_means_differences_corrected_p_and_effect_sizes():
    table = length_table(fake_comparison(make_runs()))
    rows = [line.strip() for line in table.latex.splitlines() if line.endswith(r"\\")]
    assert rows[0] == r"& Score & 95\% interval & p (Holm) & d\_z & 95\% interval \\"
    assert rows[1].endswith(r"&  &  &  \\")
    assert rows[6] == r"L-S & 0.30 & {[}0.10, 0.50{]} & $<$0.001 & 0.80 & {[}$-$0.10, 1.70{]} \\"
    assert "n = 12 bases; answers: 36 S, 36 M, 36 L" in table.caption
    assert "P values corrected for multiplicity: Holm." in table.caption


def test_a_table_is_saved_as_tex_and_unrounded_csv(tmp_path):
    table = length_table(fake_comparison(make_runs()))
    tex, csv = save_table(table, tmp_path / "tables")
    assert tex.read_text(encoding="utf-8") == table.latex
    means = pd.read_csv(csv)["estimate"][:3].tolist()
    assert means == pytest.approx([e.estimate for e in fake_comparison(make_runs()).per_bin], abs=1e-15)


@pytest.mark.parametrize("models", [("smollm2-135m",), ("gpt-4o", "claude-3-5-sonnet")])
def test_a_whole_study_is_written_from_real_statistics_the_same_twice(tmp_path, models):
    runs = make_runs(models, bases=5, repeats=2, free=len(models) == 1)
    judgements = make_judgements(runs)

    def write(folder):
        return write_figures(
            runs,
            judgements,
            reliability=reliability(make_ratings(judgements)),
            comparison=compare_lengths(runs),
            by_model=compare_lengths(runs, by="model"),
            folder=folder,
            note="Only a test.",
            dataset_version="1",
            repeats=2,
        )

    files = write(tmp_path / "a")
    assert {path.relative_to(tmp_path / "a").as_posix() for path in files} == NAMES
    assert all(path.stat().st_size > 0 for path in files)
    again = write(tmp_path / "b")
    digests = [[hashlib.sha256(path.read_bytes()).hexdigest() for path in made] for made in (files, again)]
    assert digests[0] == digests[1]
    captions = [path.read_text(encoding="utf-8") for path in files if path.suffix == ".txt"]
    assert len(captions) == 3
    for caption in captions:
        assert "5 bases" in caption
        assert caption.strip().endswith("Only a test.")
    assert "Student t over bases" in captions[0]
    assert "ICC(A,1) =" in captions[2]
    assert captions[2].count("r not estimated") == 0


def test_the_drawn_intervals_are_those_of_the_statistics(tmp_path):
    runs = make_runs(bases=6)
    comparison = compare_lengths(runs)
    write_figures(runs, make_judgements(runs), reliability=None, comparison=comparison, folder=tmp_path)
    drawn = pd.read_csv(tmp_path / "figures" / "quality_by_length.csv").query("kind == 'mean'")
    assert drawn["low"].tolist() == pytest.approx([e.low for e in comparison.per_bin])
    assert drawn["high"].tolist() == pytest.approx([e.high for e in comparison.per_bin])


def test_a_study_without_any_score_still_gets_its_figures_and_no_table(tmp_path):
    runs = make_runs().assign(judged=False, composite=np.nan)
    judgements = make_judgements(make_runs()).assign(failed=True, composite=np.nan)
    files = write_figures(runs, judgements, reliability=None, comparison=None, folder=tmp_path)
    assert len(files) == 12
    assert not (tmp_path / "tables").exists()


def test_judges_that_always_agree_and_a_single_base_break_nothing(tmp_path):
    runs = make_runs(bases=1).assign(composite=3.0)
    judgements = make_judgements(runs).assign(composite=3.0, **dict.fromkeys(DIMENSIONS, 3.0))
    files = write_figures(
        runs,
        judgements,
        reliability=reliability(make_ratings(judgements)),
        comparison=compare_lengths(runs),
        folder=tmp_path,
    )
    text = (tmp_path / "tables" / "reliability.tex").read_text(encoding="utf-8")
    assert len(files) == 18
    assert "Not estimable: ICC(A,1)" in text
    assert "composite & -- & -- &" in text
