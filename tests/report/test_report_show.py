"""What notebooks show: a figure with its caption, sentences, plain text, one line when there is nothing."""

import pytest
from synthetic import fake_comparison, fake_reliability, make_runs

from toolkit.errors import InputError, ToolkitError
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.saving import save_figure
from toolkit.report.show import (
    NothingToShow,
    NotWhole,
    need_results,
    need_whole,
    print_text,
    say,
    show_figure,
)
from toolkit.stats.result import Estimate


@pytest.fixture
def shown(monkeypatch) -> list:
    """Collect what would be displayed."""
    seen: list = []
    monkeypatch.setattr("IPython.display.display", seen.append)
    return seen


def test_a_figure_is_shown_as_wide_as_on_paper_with_its_caption(tmp_path, capsys, shown):
    runs = make_runs(bases=3)
    files = save_figure(quality_by_length(runs, fake_comparison(runs)), tmp_path)
    show_figure(files, "quality_by_length")
    (image,) = shown
    assert image.data.startswith(b"\x89PNG")
    assert image.width == round(85 / 25.4 * 110)
    assert "n = 3 bases, 9 answers" in capsys.readouterr().out


def test_a_figure_that_was_not_written_is_named_with_those_that_were(tmp_path, shown):
    runs = make_runs(bases=3)
    files = save_figure(quality_by_length(runs, None), tmp_path)
    with pytest.raises(
        InputError, match="figure 'front': there is none of that name; use one of quality_by_length"
    ):
        show_figure(files, "front")
    assert shown == []


def test_results_are_said_one_after_the_other(capsys):
    say(fake_reliability().icc["composite"][:2])
    out = capsys.readouterr().out
    assert out.startswith("ICC(1,1) = 0.300, 95% interval [-0.050, 0.900] (F distribution)")
    assert out.count("n = 36 answers, 3 judges.") == 2


def test_what_cannot_be_estimated_is_said_too(capsys):
    say([Estimate("ICC(A,1)", None, note="one judge")])
    assert capsys.readouterr().out == "ICC(A,1): not estimable (one judge).\n"


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>\n"),
        ("\x1b[2J\x1b[1;31mred\x1b[0m", "red\n"),
        ("\x1b]8;;https://x.example\x07link\x1b]8;;\x07", "link\n"),
        ("good\rbad\bx", "good\nbadx\n"),
        ("a\r\nb\n\n  c\td", "a\nb\n\n  c\td\n"),
        ("\u202eevil\u200b", "evil\n"),
        ("", "\n"),
    ],
)
def test_text_of_a_model_is_printed_as_text(text, printed, capsys):
    print_text(text)
    assert capsys.readouterr().out.expandtabs() == printed.expandtabs()


def test_long_lines_are_wrapped_between_words(capsys):
    print_text("word " * 60)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert all(set(line.split()) == {"word"} for line in lines)


def test_a_study_with_results_passes():
    need_results({"study": "demo", "done": 1})


def test_a_study_without_results_stops_the_notebook_with_one_line():
    with pytest.raises(
        NothingToShow, match="study demo: no run has succeeded yet; run `make demo`, or `toolkit run`"
    ) as caught:
        need_results({"study": "demo", "done": 0})
    assert isinstance(caught.value, ToolkitError)
    assert caught.value._render_traceback_() == [f"NothingToShow: {caught.value}"]


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            {"planned": 6, "failed": 2, "failures": {"timeout": 2}, "budget": None},
            r"2 of 6 runs failed \(2 x timeout\); run",
        ),
        ({"planned": 6, "failed": 0, "failures": {}, "budget": "budget reached: raise it"}, "budget reached"),
    ],
)
def test_a_study_that_is_not_whole_ends_its_notebook_with_an_error(outcome: dict, said: str) -> None:
    """A batch would call it done otherwise, and never ask again."""
    with pytest.raises(NotWhole, match=said):
        need_whole(outcome)
    need_whole({"planned": 6, "failed": 0, "failures": {}, "budget": None})
