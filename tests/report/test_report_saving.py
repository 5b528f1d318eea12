"""Files of a figure: the same bytes every time, the right size and fonts, complete or not there."""

import hashlib
import io
import re
import struct
import warnings
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image
from synthetic import fake_comparison, fake_reliability, make_judgements, make_runs

from toolkit.errors import InputError
from toolkit.report.agreement_figure import judge_agreement
from toolkit.report.cost_figure import cost_quality
from toolkit.report.quality_figure import quality_by_length
from toolkit.report.saving import SUFFIXES, csv_bytes, render, save_figure, write_atomically
from toolkit.stats.comparisons.cost_quality import pareto

MODELS = ("gpt-4o", "claude-3-5-sonnet")


def three_figures(shuffle: int | None = None):
    runs = make_runs(MODELS, bases=4, free=False)
    judgements = make_judgements(runs)
    comparison = fake_comparison(runs)
    if shuffle is not None:
        runs = runs.sample(frac=1, random_state=shuffle)
        judgements = judgements.sample(frac=1, random_state=shuffle)
    return (
        quality_by_length(runs, comparison),
        cost_quality(runs, pareto(runs)),
        judge_agreement(judgements, fake_reliability()),
    )


def hashes(figures) -> list[str]:
    return [hashlib.sha256(render(f, kind)).hexdigest() for f in figures for kind in ("pdf", "svg", "png")]


def test_two_renders_of_the_same_data_are_the_same_bytes():
    assert hashes(three_figures()) == hashes(three_figures())


def test_the_order_of_the_rows_does_not_change_a_byte():
    assert hashes(three_figures()) == hashes(three_figures(shuffle=3))


def test_rendering_one_figure_twice_gives_the_same_bytes():
    (figure, *_) = three_figures()
    for kind in ("pdf", "svg"):
        assert render(figure, kind) == render(figure, kind)


def test_a_file_names_no_date_and_no_program_version():
    for figure in three_figures():
        pdf, svg = render(figure, "pdf"), render(figure, "svg")
        assert b"CreationDate" not in pdf
        assert b"Matplotlib" not in pdf
        assert b"<dc:date>" not in svg


def test_fonts_in_the_pdf_are_embedded_truetype_and_never_type_3():
    for figure in three_figures():
        pdf = render(figure, "pdf")
        assert b"/Type3" not in pdf
        assert b"/CIDFontType2" in pdf or b"/Subtype /TrueType" in pdf
        assert b"/FontFile2" in pdf


@pytest.mark.parametrize(("place", "millimetres"), [(0, 85.0), (1, 85.0), (2, 160.0)])
def test_pdf_and_png_are_as_wide_as_a_column_or_the_page(place, millimetres):
    figure = three_figures()[place]
    width, _ = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", render(figure, "pdf")).groups()
    assert float(width) / 72 * 25.4 == pytest.approx(millimetres, abs=0.01)
    pixels, _ = struct.unpack(">II", render(figure, "png")[16:24])
    assert pixels / 300 * 25.4 == pytest.approx(millimetres, abs=0.1)


def test_the_alternative_text_travels_inside_the_png():
    (figure, *_) = three_figures()
    assert figure.alt_text.encode() in render(figure, "png")


def test_a_format_that_is_not_offered_is_refused():
    with pytest.raises(InputError, match="use one of pdf, png, svg"):
        render(three_figures()[0], "bmp")


def test_five_files_are_written_and_hold_the_caption_and_the_data(tmp_path):
    (figure, *_) = three_figures()
    files = save_figure(figure, tmp_path / "new" / "folder")
    assert [path.suffix for path in files] == list(SUFFIXES)
    assert files[4].read_text(encoding="utf-8") == figure.caption + "\n"
    assert len(pd.read_csv(files[3])) == len(figure.data)
    assert sorted(path.name for path in files[0].parent.iterdir()) == sorted(path.name for path in files)


def test_every_picture_holds_its_alt_text_for_who_cannot_see_it():
    figure = replace(three_figures()[0], alt_text='Lines < bars & "marks".')
    assert b'<desc>Lines &lt; bars &amp; "marks".</desc>' in render(figure, "svg")
    assert Image.open(io.BytesIO(render(figure, "png", dpi=40))).text["Description"] == figure.alt_text
    assert b'/Subject (Lines < bars & "marks".)' in render(figure, "pdf")


def test_an_svg_shows_its_letters_without_the_font_and_tells_no_date():
    drawn = render(three_figures()[0], "svg")
    assert b"<text" not in drawn
    assert b"dc:date" not in drawn


def test_a_notebook_gets_a_png():
    assert three_figures()[0]._repr_png_().startswith(b"\x89PNG")


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    target = write_atomically(tmp_path / "a.txt", b"old")

    def refuse(self: Path, other: Path) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_a_written_file_may_be_read_by_others(tmp_path):
    assert write_atomically(tmp_path / "a.txt", b"x").stat().st_mode & 0o777 == 0o644


def test_a_table_of_data_has_unix_line_ends_everywhere():
    assert csv_bytes(pd.DataFrame({"a": [1], "b": ["x\ny"]})) == b'a,b\n1,"x\ny"\n'


def test_drawing_opens_no_window_and_touches_no_backend():
    import matplotlib as mpl
    from matplotlib import pyplot

    before = mpl.rcParams._get("backend")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        three_figures()
    assert pyplot.get_fignums() == []
    assert mpl.rcParams._get("backend") == before
