"""The bundle cites what was calculated: methods that gave a number, whatever models and studies are called."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from whole_study import make_study

from toolkit.report.bundle.evidence import Evidence, evidence_of
from toolkit.report.bundle.references import packages_used, statistics_used
from toolkit.report.figure import About, about_study, csv_bytes
from toolkit.report.registry import draw_study, write_statistics
from toolkit.report.tables import estimates_table, save_table
from toolkit.stats.result import Estimate

NAMES = ("Bland-Altman (TOST)", "Holm over", "Wilson, effective n")


def cited(evidence: Evidence) -> set[str]:
    """Return the keys that the sentences on statistics cite."""
    return {key for one in statistics_used(evidence) for key in one.cite}


def evidence_of_table(folder: Path, *estimates: Estimate) -> Evidence:
    """Return what the files of one table of results show."""
    table = estimates_table("some", "Wilson.", [("Wilson", one) for one in estimates])
    return evidence_of(save_table(table, folder))


def test_a_method_counts_where_it_gave_an_interval_or_a_p_value(tmp_path: Path) -> None:
    """A test that was not made and an interval that there is not are not told of."""
    nothing = Estimate("x", 0.5, method="Wilson", correction="Holm over 3 contrasts", note="no interval")
    assert evidence_of_table(tmp_path, nothing).methods == ()
    drawn = Estimate("x", 0.5, 0.25, 0.75, method="Wilson", correction="Holm over 3 contrasts")
    assert cited(evidence_of_table(tmp_path, drawn)) == {"wilson1927"}
    tested = Estimate(
        "x", 0.5, p_value=0.1, method="permutation within bases", correction="Holm over 3 contrasts"
    )
    assert cited(evidence_of_table(tmp_path, nothing, tested)) == {
        "miller2024",
        "good2005",
        "phipson2010",
        "holm1979",
    }


def test_degrees_of_freedom_are_those_of_the_results(tmp_path: Path) -> None:
    """The methods name each method as its results do, with the fewest and the most degrees of freedom."""
    some = [Estimate("r", 0.5, 0.2, 0.7, method="CR2", degrees=degrees) for degrees in (3.21, 11.0)]
    shown = evidence_of_table(tmp_path, *some)
    assert statistics_used(shown)[-1].text == "CR2 (here 3.2 to 11.0 degrees of freedom)"
    assert "(CR2, 3.2 degrees of freedom)" in some[0].sentence()


def test_names_of_results_models_and_prompts_cite_nothing(tmp_path: Path) -> None:
    """A column of prompts that is called ``method`` is none of methods."""
    named = Estimate(
        "quality of Wilson (TOST) at S, ICC(A,1)", 0.5, 0.25, 0.75, note="Koo & Li, Learned-Miller"
    )
    assert cited(evidence_of_table(tmp_path, named)) == set()
    prompts = tmp_path / "one_shot.csv"
    prompts.write_text("method,low,p_value\nWilson by Holm,0.1,0.2\n")
    caption = tmp_path / "one_shot.txt"
    caption.write_text("Wilson and Learned-Miller (2019). 95% intervals: Student t. Study Holm over Carkeet.")
    assert evidence_of([prompts, caption]).methods == ("Student t",)
    assert cited(evidence_of([prompts, caption])) == set()


def test_a_caption_tells_the_methods_of_its_intervals(tmp_path: Path) -> None:
    """Figures whose data have no method say it there."""
    caption = tmp_path / "bland_altman.txt"
    caption.write_text(
        "Plots. 95% intervals: Student t; 95% intervals: MOVER from the clustered mean and the variances."
    )
    assert "zou2013" in cited(evidence_of([caption]))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_what_missing_scores_could_change_is_told_of_where_some_are_missing(
    missing: float, tmp_path: Path
) -> None:
    """Bounds on nothing are no method that was used."""
    held, _ = make_study(missing=missing)
    found = evidence_of(write_statistics({"missing": ("Missing", held.missing())}, About(), tmp_path))
    assert ("manski1990" in cited(found)) is (missing > 0)
    assert ("good2005" in cited(found)) is (missing > 0)


def test_models_that_are_called_after_methods_change_no_citation(tmp_path: Path) -> None:
    """The same study with other names of models has the same references, and they are not none."""
    some = ["quality_by_length", "cost_quality", "missing_data"]
    found = []
    for names in (("a", "b", "c"), NAMES):
        held, plan = make_study(models=names, bases=4)
        figures = draw_study(held, about_study(held, plan), some)
        for figure in figures:
            assert names[0] in figure.caption + figure.data.to_csv()
            (tmp_path / f"{figure.name}.txt").write_text(figure.caption)
            (tmp_path / f"{figure.name}.csv").write_bytes(csv_bytes(figure.data))
        found.append(evidence_of(sorted(tmp_path.iterdir())))
    assert cited(found[0]) == cited(found[1])
    assert cited(found[0]) == {"miller2024", "wilson1927", "dean2015", "efron1993"}


def test_a_package_that_serves_one_statistic_is_named_where_it_is_there() -> None:
    """No analysis of one-shot tests is made with pingouin."""
    versions = {"scipy": "1", "pingouin": "2", "seaborn": "3", "papermill": "4", "numpy": None}
    assert [name for name, *_ in packages_used(versions, Evidence())] == ["scipy"]
    shown = Evidence(rows=("reliability: ICC(A,1)",), columns=frozenset({"quality_by_length.composite"}))
    assert [name for name, *_ in packages_used(versions, shown)] == ["scipy", "pingouin", "seaborn"]


def test_every_statistic_has_a_sign_that_the_code_writes() -> None:
    """A phrase that no method has any more would cite nothing, and nobody would see it."""
    root = Path(str(files("toolkit")))
    rooms = [
        root / "scoring.py",
        *(p for room in ("stats", "protocols") for p in (root / room).rglob("*.py")),
    ]
    code = "\n".join(path.read_text(encoding="utf-8") for path in rooms)
    data = tomllib.loads((files("toolkit.report.thesis") / "methods.toml").read_text(encoding="utf-8"))
    for one in data["statistic"] + data["method"]:
        assert one.keys() & {"method", "row", "column"}, one
        for phrase in one.get("method", ()):
            assert phrase in code, phrase
