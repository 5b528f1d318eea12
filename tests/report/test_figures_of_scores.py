"""Figures of the scores themselves, what longer prompts gain for their cost, and figures of another size."""

import pytest
from click.testing import CliRunner
from matplotlib.collections import PolyCollection
from score_tables import crossed, named
from whole_study import drawn, make_study, texts

from toolkit.cli import cli
from toolkit.errors import InputError
from toolkit.report.figure import about_study
from toolkit.report.style import COLUMN_MM, PAGE_MM, is_wide, new_figure, sized, thesis_style
from toolkit.scores.scores import Scores


@pytest.fixture(scope="module")
def small():
    """The analyses of a study with missing scores, and its new figures by name."""
    held, plan = make_study(bases=6, repeats=1)
    return held, drawn(held, plan, "judges", "model_means")


def test_ties_are_those_of_the_results(small):
    """A tie is told as what was not shown."""
    _, figures = small
    data = figures["model_means"].data
    p = data.loc[data["part"] == "difference", ["p_value", "tie"]]
    assert (p["tie"] == (p["p_value"] >= 0.05)).all()
    assert ("which does not show that they are equal" in figures["model_means"].caption) == p["tie"].any()


def test_judges_have_the_names_of_their_models_and_the_role_where_two_are_one(small):
    """A reader of the thesis does not know who was primary."""
    assert any("model of" in text for text in texts(small[1]["judges"]))
    held, plan = make_study(("m",), bases=2, missing=0.0)
    held.judgements["judge_model"] = "same"
    assert about_study(held, plan).judge("tertiary") == "same (tertiary)"


def test_two_hundred_answers_are_a_density_and_no_tangle():
    """Few answers are marks joined by lines; many are hexagons, and the lines of many bases are bands."""
    for bases, dense in ((3, False), (41, True)):
        held, plan = make_study(bases=bases, missing=0.0)
        figures = drawn(held, plan, "judge_agreement", "quality_by_length")
        assert ("the darker a cell, the more answers" in figures["judge_agreement"].caption) == dense
        assert bool(figures["judge_agreement"].figure.legends) != dense
        (axes,) = figures["quality_by_length"].figure.axes
        bands = [one for one in axes.collections if isinstance(one, PolyCollection)]
        assert (len(bands), "each thin grey line is one base" in figures["quality_by_length"].caption) == (
            2 * dense,
            not dense,
        )


def test_figures_take_the_width_and_the_type_of_a_thesis():
    """The width follows the page, the height the type, and what was wide stays wide; nonsense is refused."""
    with sized(180, 12), thesis_style():
        page, column = new_figure(PAGE_MM, 60), new_figure(COLUMN_MM, 60)
        assert [side * 25.4 for side in page.get_size_inches()] == pytest.approx([180, 80])
        assert column.get_figwidth() * 25.4 == pytest.approx(95.625)
        assert (is_wide(page), is_wide(column)) == (True, False)
        assert column.subplots().title.get_size() == 12
    assert new_figure(PAGE_MM, 60).get_figwidth() * 25.4 == pytest.approx(PAGE_MM)
    for bad in ({"width": 0}, {"width": 100}, {"width": 1600}, {"font": 3.0}):
        with pytest.raises(InputError, match=r"give (120 to 250|6 to 14)"), sized(**bad):
            pass
    with sized(85, 6), thesis_style():
        assert new_figure(PAGE_MM, 60).get_figwidth() * 25.4 == pytest.approx(85)


@pytest.mark.usefixtures("no_pictures")
def test_figures_of_another_size_stand_in_a_folder_of_their_own(tmp_path):
    """`toolkit verify` compares those of one size; a bundle takes no choice of figures."""
    path = tmp_path / "mine.csv"
    crossed(item=named("i", 12), judge="ab").assign(score=[*range(5), 4] * 4).to_csv(path, index=False)
    scores = Scores.load(path, output=tmp_path / "out", scale=(0, 5))
    files = scores.figures(only=["icc_forest"], width=150)
    assert {one.parent for one in files} == {tmp_path / "out" / "150mm_9pt" / "figures"}
    choice = ["--width", "150", "--only", "icc_forest", "judge_agreement"]
    asked = CliRunner().invoke(cli, ["analyse", str(path), "--out", str(tmp_path / "cli"), *choice])
    assert asked.exit_code == 0, asked.output
    written = {one.stem for one in (tmp_path / "cli" / "150mm_9pt" / "figures").glob("*.pdf")}
    assert written == {"icc_forest", "judge_agreement"}
    assert CliRunner().invoke(cli, ["analyse", str(path), "--bundle", *choice]).exit_code == 2
    refused = CliRunner().invoke(cli, ["report", "templates/planted.toml", "--bundle", "--width", "150"])
    assert refused.exit_code == 2
    assert "are of --figures" in refused.output
