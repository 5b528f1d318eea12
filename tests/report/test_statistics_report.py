"""Every statistic of a judged study as tables and sentences, the same bytes twice."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from toolkit.errors import InputError
from toolkit.report.statistics_report import write_statistics
from toolkit.stats.result import Estimate
from toolkit.study import Study


def test_a_judged_study_has_a_table_of_every_family_and_a_sentence_of_every_estimate(
    demo_like_study: Path, tmp_path: Path
) -> None:
    """What cannot be estimated from scripted judges keeps its row and says why."""
    study = Study.load(demo_like_study)
    names = list(study.analyses())
    first = study.statistics(tmp_path / "one")
    again = study.statistics(tmp_path / "two")
    study.store.close()
    assert {path.stem for path in first} == {*names, "sentences"}
    assert {"reliability", "generalizability", "length", "length_bias", "mixed_model", "power"} <= set(names)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    text = next(path for path in first if path.suffix == ".txt").read_text()
    assert "Scripted models answer and judge." in text
    assert "ICC(A,1) = " in text
    assert "Mixed model" in text
    assert " nan" not in text.lower()
    data = pd.read_csv(tmp_path / "one" / "statistics" / "length.csv")
    assert "F(bins)" in set(data["name"])
    silent = data[data["estimate"].isna()]
    assert silent["note"].str.len().gt(0).all()
    tables = [path.read_text() for path in first if path.suffix == ".tex"]
    assert all("\\caption[" in table and "table}" in table for table in tables)
    mixed = (tmp_path / "one" / "statistics" / "mixed_model.tex").read_text()
    assert (
        "Mixed model (REML" in mixed
    )  # its table has no intervals, whose caption would say how and of how much
    assert "n = 12 bases" in mixed
    assert "    Term & F & df1 & df2 & p & p (Holm over all terms) \\\\\n" in mixed


def test_a_result_that_cannot_be_estimated_keeps_its_row(tmp_path: Path) -> None:
    """Not estimable is a row and a sentence, never a gap."""
    silent = Estimate("omega", None, n={"answers": 1}, note="not estimable: one answer")
    write_statistics({"omega": ("Omega", {"over_judges": silent})}, folder=tmp_path)
    assert "over judges: omega: not estimable" in (tmp_path / "statistics" / "sentences.txt").read_text()
    assert "omega" in (tmp_path / "statistics" / "omega.tex").read_text()


def test_nothing_judged_is_one_clear_line(tmp_path: Path) -> None:
    """There is nothing to write, and it says what to do."""
    with pytest.raises(InputError, match="judge the study first"):
        write_statistics({}, folder=tmp_path)
