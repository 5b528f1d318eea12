"""All figures of a study: what they draw is what the statistics say, and what cannot be drawn is said."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image
from whole_study import NOTE, make_study
from wording_rules import badly_worded

from toolkit.errors import InputError
from toolkit.report.about import About
from toolkit.report.saving import SUFFIXES, render
from toolkit.report.show import show_figure
from toolkit.report.study_figures import LEFT_OUT, draw_study, save_drawn
from toolkit.report.study_report import write_figures
from toolkit.report.style import PALETTE, model_styles
from toolkit.stats.agreement.reliability import ROW_ORDER
from toolkit.words import DIMENSIONS
from toolkit.workbench.drawing import about_judged, study_results

NAMES = (
    "quality_by_length",
    "equivalence",
    "dimension_profile",
    "cost_quality",
    "length_slope",
    "judge_agreement",
    "bland_altman",
    "icc_forest",
    "variance_components",
    "decision_study",
    "missing_data",
    "judge_card_primary",
    "judge_card_secondary",
    "judge_card_tertiary",
)


@pytest.fixture(scope="module")
def whole():
    """The results of a study of two models with missing scores, what its figures share, and the figures by name."""
    held, plan = make_study()
    found, about = study_results(held, plan), about_judged(held, plan)
    return found, about, {figure.name: figure for figure in draw_study(found, about)}


def test_a_study_with_everything_gets_every_figure(whole) -> None:
    """None is left out, each has data, an alt text, and a caption with n, source and the note."""
    _, _, figures = whole
    assert tuple(figures) == NAMES
    for name, figure in figures.items():
        assert not figure.left_out
        assert len(figure.data)
        assert figure.alt_text.endswith(".")
        assert "Study whole, dataset version 2025.1." in figure.caption
        assert figure.caption.endswith(NOTE)
        if not name.startswith("judge_card"):
            assert "6 bases" in figure.caption
            assert "3 judges" in figure.caption
            assert "1 repeat" in figure.caption
        assert "interval" in figure.caption
        assert badly_worded(figure.caption, figure.alt_text) == []


def test_every_caption_says_how_it_stands_with_multiplicity(whole) -> None:
    """What is corrected is named with its correction, and what is not corrected is called so."""
    _, _, figures = whole
    assert "Holm over 3 tests of equivalence" in figures["equivalence"].caption
    for name in ("dimension_profile", "cost_quality", "bland_altman", "icc_forest", "variance_components"):
        assert "correct" in figures[name].caption


def _border(figure) -> np.ndarray:
    """Return the outermost pixels of a figure in grey."""
    picture = np.asarray(Image.open(io.BytesIO(render(figure, "png", dpi=100))).convert("L"))
    return np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])


def test_nothing_is_cut_off_at_the_border_of_a_figure(whole) -> None:
    """The border of every picture is white, also of the figures that print text beside their axes."""
    _, _, figures = whole
    for name, figure in figures.items():
        assert _border(figure).min() == 255, name


def test_the_equivalence_figure_draws_the_tests_and_their_verdicts(whole) -> None:
    """Rows are the 90 % intervals of all models and of each, with the verdict of the test and not one of its own."""
    found, _, figures = whole
    data = figures["equivalence"].data
    assert list(dict.fromkeys(data["of"])) == ["all models", "gpt-4o", "llama-3"]
    first = data[data["of"] == "all models"]
    assert first["low"].tolist() == [one.low for one in found.comparison.equivalence]
    verdicts = [one.note.partition(":")[0] for one in found.comparison.equivalence]
    assert first["verdict"].tolist() == verdicts
    assert set(data["verdict"]) == {"equivalent", "equivalence not shown"}
    assert "90% intervals" in figures["equivalence"].caption


def test_the_profile_draws_the_clustered_interval_of_every_dimension(whole) -> None:
    """One mark for each model, bin and dimension."""
    found, _, figures = whole
    data = figures["dimension_profile"].data
    assert len(data) == 2 * 3 * 7
    assert set(data["dimension"]) == set(DIMENSIONS)
    assert data["mean"].tolist() == [one.mean.estimate for one in found.profile.means]
    assert data["high"].tolist() == [one.mean.high for one in found.profile.means]


def test_the_cost_figure_marks_the_front_of_the_statistics(whole) -> None:
    """Ringed points are those that no other beats; each has its intervals."""
    found, _, figures = whole
    data = figures["cost_quality"].data
    assert data["on_front"].tolist() == [point.on_front for point in found.pareto.points]
    assert data["quality_low"].tolist() == [point.quality.low for point in found.pareto.points]
    for point in found.pareto.points:
        assert (f"{point.model} at {point.length_bin} (" in figures["cost_quality"].caption) == point.on_front


def test_the_slope_is_that_of_the_statistics_through_the_mean_of_each_panel(whole) -> None:
    """Between the ends of a line lie 100 tokens times the slope; its band has no width at the mean."""
    found, _, figures = whole
    data = figures["length_slope"].data
    for _, line in data[data["kind"] == "slope"].groupby("model"):
        start, middle, end = line.sort_values("output_tokens").to_dict("records")
        rise = (end["composite"] - start["composite"]) / (end["output_tokens"] - start["output_tokens"])
        assert 100 * rise == pytest.approx(found.length_bias.slope.estimate)
        assert middle["low"] == pytest.approx(middle["high"])
        assert end["low"] < end["composite"] < end["high"]
    # Two decimals made "+0.00 [+0.00, +0.01]" of a slope that is not nothing.
    legend = {text.get_text() for text in figures["length_slope"].figure.findobj(Text)}
    assert any(re.fullmatch(r"slope [+−]\d\.\d{3} points per 100 tokens \[.*\]", text) for text in legend)


def test_bland_altman_draws_every_answer_bias_and_limits(whole) -> None:
    """A point counts the answers that lie there; lines are the estimates of the pair."""
    found, _, figures = whole
    data = figures["bland_altman"].data
    for (first, second), one in found.bland_altman.items():
        own = data[(data["first"] == first) & (data["second"] == second)]
        assert own["answers"].sum() == len(one.points)
        lines = own[own["kind"] != "point"]
        assert lines["difference"].tolist() == [e.estimate for e in (one.bias, one.lower, one.upper)]
        assert lines["low"].tolist() == [e.low for e in (one.bias, one.lower, one.upper)]


def test_the_forest_has_all_six_forms_and_prints_absolute_agreement(whole) -> None:
    """Every dimension and the composite; the printed numbers are those of ICC(A,1) and ICC(A,k)."""
    found, _, figures = whole
    data = figures["icc_forest"].data
    assert set(data["form"]) == set(ROW_ORDER)
    assert len(data) == 6 * 8
    texts = {text.get_text() for text in figures["icc_forest"].figure.findobj(Text)}
    for forms in found.reliability.icc.values():
        leading = {one.name: one for one in forms if one.name.startswith("ICC(A")}
        for one in leading.values():
            assert any(text.startswith(f"{one.estimate:.2f}\n[") for text in texts)


def test_components_and_curves_come_from_one_result(whole) -> None:
    """Shares sum to one, and the study's own design is marked on both curves."""
    found, _, figures = whole
    assert figures["variance_components"].data["share"].sum() == pytest.approx(1.0)
    curves = figures["decision_study"].data
    here = curves[curves["present"] & (curves["coefficient"] == "Phi")]["estimate"]
    assert here.tolist() == pytest.approx([found.generalizability[0].result.phi.estimate])


def test_the_missing_figure_counts_runs_judgements_and_reasons(whole) -> None:
    """What is missing of all is what is missing of the parts; reasons are counted, not the first one only."""
    found, _, figures = whole
    data = figures["missing_data"].data
    lost = int(found.runs["composite"].isna().sum())
    assert lost > 0
    assert data.query("group == 'all' and name == 'runs'")["missing"].tolist() == [lost]
    for group in ("length_bin", "model"):
        assert data.loc[data["group"] == group, "missing"].sum() == lost
    reasons = data[data["part"] == "reason"].set_index("name")["missing"].to_dict()
    assert reasons == found.missing.reasons


def test_a_model_has_one_colour_in_every_figure_of_the_study() -> None:
    """Also in a figure that lacks the model which moved it on to another colour."""
    names = [f"model-{i}" for i in range(6)]
    everyone = model_styles(names)
    assert len({style.color for style in everyone.values()}) == len(PALETTE) == 6
    assert any(model_styles([name])[name] != style for name, style in everyone.items())
    about = About(models=tuple(names))
    for name, style in everyone.items():
        assert about.styles([name]) == {name: style}


def test_what_a_study_cannot_give_is_left_out_with_its_reason(tmp_path: Path, capsys) -> None:
    """One judge, one bin, no margin: the reason is in a file, stale files go, and a notebook says it."""
    held, plan = make_study(("gpt-4o",), bases=3, judges=("primary",), bins="S", missing=0.0, margin=None)
    about = about_judged(held, plan)
    figures = draw_study(study_results(held, plan), about)
    absent = {figure.name: figure.left_out for figure in figures if figure.left_out}
    assert (
        badly_worded(*(text for one in figures for text in (one.caption, one.alt_text, one.left_out))) == []
    )
    assert absent["equivalence"] == "the study file sets no analysis.equivalence_margin"
    assert absent["judge_agreement"] == "no run was scored by two judges"
    assert {"bland_altman", "icc_forest", "variance_components", "decision_study"} <= set(absent)
    for name in ("icc_forest", "missing_data"):
        (tmp_path / f"{name}.pdf").write_text("of an earlier call")
    few = [figure for figure in figures if figure.name == "missing_data" or figure.left_out]
    files = save_drawn(few, tmp_path, about)
    assert [path.name for path in files] == [*(f"missing_data{suffix}" for suffix in SUFFIXES), LEFT_OUT]
    assert not (tmp_path / "icc_forest.pdf").exists()
    text = files[-1].read_text(encoding="utf-8")
    assert "judge_agreement: no run was scored by two judges\n" in text
    assert text.endswith(f"{NOTE}\n")
    show_figure(files, "judge_agreement")
    assert "judge_agreement is left out: no run was scored by two judges." in capsys.readouterr().out
    with pytest.raises(InputError, match="there is none of that name"):
        show_figure(files, "no_such_figure")
    save_drawn([], tmp_path, about)
    assert not (tmp_path / LEFT_OUT).exists()


def test_a_study_without_any_score_draws_what_is_missing_and_nothing_else() -> None:
    """Every judgement failed: no figure of scores, and the one of missing scores says that all are."""
    held, plan = make_study(("gpt-4o",), bases=2, missing=1.0)
    figures = draw_study(study_results(held, plan), about_judged(held, plan))
    assert [figure.name for figure in figures if not figure.left_out] == ["missing_data"]
    data = next(figure for figure in figures if figure.name == "missing_data").data
    assert data.query("group == 'all' and name == 'runs'")["share"].tolist() == [1.0]


@pytest.mark.parametrize(
    "about",
    [
        {"models": ("only",), "bases": 1},
        {"models": ("$\\alpha$", "_hidden", "a\nvery " + "long " * 20 + "name", "d", "e"), "bases": 2, "free": True},
    ],
    ids=["one base", "five models, free, hostile names"],
)  # fmt: skip
def test_little_and_strange_studies_are_drawn_without_a_warning(about) -> None:
    """One base, or five models with names like markup: every figure is drawn whole or left out with a reason."""
    held, plan = make_study(**about)
    for figure in draw_study(study_results(held, plan), about_judged(held, plan)):
        assert figure.left_out or len(figure.data)
        assert figure.caption
        assert _border(figure).min() == 255, figure.name
        if about["bases"] == 1:
            assert badly_worded(figure.caption, figure.alt_text, figure.left_out) == []
            assert (
                badly_worded(*(text.get_text().replace("\n", " ") for text in figure.figure.findobj(Text)))
                == []
            )


def _digests(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_another_process_with_another_hash_seed_writes_the_same_files(tmp_path: Path) -> None:
    """Every figure and table of a study, written in two processes: the same names and the same bytes."""
    program = (
        "import sys; from pathlib import Path; from test_study_figures import write_all; "
        "write_all(Path(sys.argv[1]))"
    )
    # The rest of the environment as it is: OPENBLAS_CORETYPE and its like decide the last bits of a sum.
    environment = os.environ | {
        "PYTHONHASHSEED": "4711",
        "PYTHONPATH": str(Path(__file__).parent),
        "MPLBACKEND": "svg",
    }
    other = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "other")], env=environment)
    files = write_all(tmp_path / "own")
    assert other.wait(timeout=600) == 0
    own = _digests(tmp_path / "own")
    assert own == _digests(tmp_path / "other")
    assert len(own) == len(files) == (len(NAMES) - 2) * len(SUFFIXES) + 2 * 4


def write_all(folder: Path) -> list[Path]:
    """Write every figure and table of a study of two models, with the card of one judge for all three."""
    held, plan = make_study(bases=3)
    found = study_results(held, plan)
    return write_figures(replace(found, cards=found.cards[:1]), about_judged(held, plan), folder)
