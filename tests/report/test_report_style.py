"""The style: sizes, colours that stay with a model, and no trace in the user's own settings."""

import matplotlib as mpl
import pytest

from toolkit.errors import InputError
from toolkit.report.style import (
    COLUMN_MM,
    PAGE_MM,
    PALETTE,
    message_figure,
    model_styles,
    new_figure,
    score_axis,
    thesis_style,
)


def grey(colour: str) -> float:
    """Return the luminance of a colour (Rec. 709)."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("width", "height"), [(COLUMN_MM, 60.0), (PAGE_MM, 75.0), (1.5, 1.5)])
def test_a_figure_has_the_size_that_was_asked_for_in_millimetres(width, height):
    figure = new_figure(width, height)
    assert [side * 25.4 for side in figure.get_size_inches()] == pytest.approx([width, height])


@pytest.mark.parametrize(("width", "height"), [(0, 60), (85, -1), (float("nan"), 10)])
def test_a_size_that_is_none_is_refused(width, height):
    with pytest.raises(InputError, match="two positive sides"):
        new_figure(width, height)


def test_the_style_is_8_point_with_fonts_of_type_42():
    with thesis_style():
        sizes = {
            mpl.rcParams[key] for key in ("font.size", "axes.labelsize", "xtick.labelsize", "legend.fontsize")
        }
        assert sizes == {8.0}
        assert mpl.rcParams["pdf.fonttype"] == 42


def test_the_users_own_settings_come_back_and_do_not_change_a_figure():
    with mpl.rc_context({"font.size": 31, "axes.grid": True}):
        before = dict(mpl.rcParams)
        with thesis_style():
            assert (mpl.rcParams["font.size"], mpl.rcParams["axes.grid"]) == (8.0, False)
            assert mpl.rcParams["backend"] == before["backend"]
        assert dict(mpl.rcParams) == before


def test_an_error_inside_the_style_leaves_the_settings_as_they_were():
    before = dict(mpl.rcParams)
    with pytest.raises(ZeroDivisionError), thesis_style():
        1 / 0  # noqa: B018
    assert dict(mpl.rcParams) == before


def test_a_model_looks_the_same_whatever_the_order_and_repetition_of_names():
    names = ["gpt-4o", "claude-3-5-sonnet", "llama-3.1-70b"]
    assert model_styles(names) == model_styles([*reversed(names), *names])


def test_a_model_alone_and_in_company_that_does_not_want_its_colour_looks_the_same():
    together = model_styles(["gpt-4o", "llama-3.1-70b"])
    assert {name: model_styles([name])[name] for name in together} == together


@pytest.mark.parametrize("count", [1, 2, 6])
def test_up_to_six_models_differ_in_colour_and_in_marker(count):
    styles = model_styles(f"model {i}" for i in range(count)).values()
    assert len({style.color for style in styles}) == count
    assert len({style.marker for style in styles}) == count


def test_eight_models_differ_in_marker_which_is_what_grey_paper_shows():
    assert len({style.marker for style in model_styles(f"model {i}" for i in range(8)).values()}) == 8


def test_forty_eight_models_differ_in_colour_or_marker():
    styles = model_styles(f"model {i}" for i in range(48)).values()
    assert len({(style.color, style.marker) for style in styles}) == 48


def test_more_models_than_looks_and_no_model_at_all_are_no_error():
    assert len(model_styles(f"model {i}" for i in range(60))) == 60
    assert model_styles([]) == {}


def test_every_colour_stands_out_from_white_paper_in_grey():
    assert max(map(grey, PALETTE)) < 0.7


@pytest.mark.parametrize("which", ["x", "y"])
def test_the_score_axis_shows_the_whole_scale_whatever_the_data(which):
    axes = new_figure(85, 60).subplots()
    axes.plot([2.4, 2.5], [2.4, 2.5])
    score_axis(axes, "score", which=which)
    low, high = getattr(axes, f"get_{which}lim")()
    assert low <= 0
    assert high >= 5
    assert list(getattr(axes, f"get_{which}ticks")()) == [0, 1, 2, 3, 4, 5]
    assert getattr(axes, f"get_{which}label")() == "score"


def test_a_message_stands_in_the_middle_of_an_empty_figure():
    (axes,) = message_figure(85, 40, "no judged runs").axes
    assert [text.get_text() for text in axes.texts] == ["no judged runs"]
    assert not axes.axison
