"""The files of figures: the same bytes everywhere, what is left out and taken away, and what a notebook shows."""

import hashlib
import io
import os
import re
import struct
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib as mpl
import pandas as pd
import pytest
from cases import cases
from PIL import Image
from places import ROOT
from whole_study import NOTE, make_study
from wording_rules import badly_worded

from toolkit.analyses.answers import Analyses
from toolkit.errors import InputError, ToolkitError
from toolkit.files.writing import write_atomically
from toolkit.report.figure import PICTURES, SUFFIXES, about_study, csv_bytes, render, save_figure
from toolkit.report.registry import draw_study, save_drawn, write_figures
from toolkit.report.show import (
    LEFT_OUT,
    Files,
    NothingToShow,
    NotWhole,
    need_results,
    need_whole,
    print_text,
    show_figure,
)
from toolkit.report.style import new_figure, thesis_style
from toolkit.words import visible_name

CASES = cases(__file__)

THREE = ("quality_by_length", "cost_quality", "judge_agreement")


def three_figures(shuffle=None):
    """Draw three figures of a small study, of its rows in any order."""
    held, plan = make_study(("gpt-4o", "claude-3-5-sonnet"), bases=3, missing=0.0)
    if shuffle is not None:
        frames = (frame.sample(frac=1, random_state=shuffle) for frame in (held.runs, held.judgements))
        held = Analyses(*frames, name="whole", margin=held.margin)
    return draw_study(held, about_study(held, plan), THREE)


@pytest.fixture(scope="module")
def three():
    """These figures, drawn once."""
    return three_figures()


def hashes(figures):
    """Return the digest of every picture."""
    return [hashlib.sha256(render(f, kind)).hexdigest() for f in figures for kind in ("pdf", "svg", "png")]


def test_the_same_data_are_the_same_bytes_in_any_order_and_touch_no_backend(three):
    """Twice, shuffled, and with warnings as errors; no window and no backend of the user is touched."""
    from matplotlib import pyplot

    before = mpl.rcParams._get("backend")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shuffled = three_figures(shuffle=3)
    assert pyplot.get_fignums() == []
    assert mpl.rcParams._get("backend") == before
    first = hashes(three)
    assert first == hashes(shuffled)
    assert first[:3] == hashes(three[:1])


def test_pictures_have_their_width_truetype_fonts_and_no_date(three):
    """A column or the page of a thesis in PDF and PNG; text of an SVG stays text, in a font that is there."""
    for figure, millimetres in zip(three, (85.0, 85.0, 160.0), strict=True):
        pdf, svg, png = (render(figure, kind) for kind in ("pdf", "svg", "png"))
        width, _ = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pdf).groups()
        assert float(width) / 72 * 25.4 == pytest.approx(millimetres, abs=0.01)
        pixels, _ = struct.unpack(">II", png[16:24])
        assert pixels / 300 * 25.4 == pytest.approx(millimetres, abs=0.1)
        assert b"/Type3" not in pdf
        assert b"/FontFile2" in pdf
        for bad in (b"CreationDate", b"Matplotlib"):
            assert bad not in pdf
        assert b"dc:date" not in svg
        assert b"<text" in svg
        assert b"STIXGeneral, 'STIX Two Text', 'Times New Roman', serif" in svg
    with pytest.raises(InputError, match="use one of pdf, png, svg"):
        render(three[0], "bmp")


def test_every_picture_holds_its_alt_text_for_who_cannot_see_it(three):
    """In the place of each format, with its own escapes; a notebook gets a PNG."""
    figure = replace(three[0], alt_text='Lines < bars & "marks".')
    assert b'<desc>Lines &lt; bars &amp; "marks".</desc>' in render(figure, "svg")
    assert Image.open(io.BytesIO(render(figure, "png", dpi=40))).text["Description"] == figure.alt_text
    assert b'/Subject (Lines < bars & "marks".)' in render(figure, "pdf")
    html = figure._repr_html_()
    assert '<img alt="Lines &lt; bars &amp; &quot;marks&quot;."' in html
    assert "data:image/png;base64,iVBOR" in html


def test_six_files_are_written_and_hold_the_caption_and_the_data(three, tmp_path):
    """Pictures, numbers, caption, notes, and nothing else; notes that are no longer true go."""
    files = save_figure(three[0], tmp_path / "new" / "folder")
    assert [path.name for path in files] == [f"quality_by_length{suffix}" for suffix in SUFFIXES]
    texts = [path.read_text("utf-8") for path in files[4:]]
    assert texts == [f"{three[0].caption}\n", f"{three[0].notes}\n"]
    assert len(pd.read_csv(files[3])) == len(three[0].data)
    assert sorted(path.name for path in files[0].parent.iterdir()) == sorted(path.name for path in files)
    assert len(save_figure(replace(three[0], notes=""), files[0].parent)) == 5
    assert not files[5].exists()
    assert csv_bytes(pd.DataFrame({"a": [1], "b": ["x\ny"]})) == b'a,b\n1,"x\ny"\n'


def test_text_of_servers_and_models_is_drawn_named_or_dropped(tmp_path):
    """Signs that the font lacks are named, control characters are in no picture and no caption; an SVG stays one."""
    hostile = "\u65e0\u6548 \U0001f600\x1b[31m\u202e\x00 <b>$x^2$ --> \\alpha"
    held, plan = make_study((visible_name(hostile), "gpt"), bases=4, missing=0.1)
    (figure,) = draw_study(held, about_study(held, plan), ["model_means"])
    ticks = [text.get_text() for axes in figure.figure.axes for text in axes.get_yticklabels()]
    assert any("[U+65E0][U+6548]" in tick for tick in ticks)
    pdf, svg, png, csv, caption, _ = save_figure(figure, tmp_path)
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    told = caption.read_text("utf-8") + svg.read_text("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e]", told)
    assert all(path.stat().st_size for path in (pdf, png, csv))


def test_what_a_study_cannot_give_is_left_out_with_its_reason(tmp_path, capsys):
    """One judge, one bin, no margin: the reason is in a file, stale files go, and a notebook says it."""
    held, plan = make_study(("gpt-4o",), bases=3, judges=("primary",), bins="S", missing=0.0, margin=None)
    about = about_study(held, plan)
    figures = draw_study(held, about)
    absent = {figure.name: figure.left_out for figure in figures if figure.left_out}
    said = [text for one in figures for text in (one.caption, one.alt_text, one.left_out)]
    assert badly_worded(*said) == []
    assert absent["quality_by_length"] == "one prompt length"
    assert absent["judge_agreement"] == "one judge (model of primary): not estimable"
    assert {"icc_forest", "judges", "variance_components", "decision_study"} <= set(absent)
    pictures = tmp_path / "figures"
    pictures.mkdir()
    for name in ("icc_forest", "cost_quality"):
        (pictures / f"{name}.pdf").write_text("of an earlier call")
    few = [figure for figure in figures if figure.name == "cost_quality" or figure.left_out]
    files = save_drawn(few, tmp_path, about)
    assert [path.name for path in files] == [*(f"cost_quality{suffix}" for suffix in SUFFIXES), LEFT_OUT]
    assert not (pictures / "icc_forest.pdf").exists()
    text = files[-1].read_text("utf-8")
    assert "judge_agreement: one judge (model of primary): not estimable\n" in text
    assert f"\n{NOTE}\n" in text
    show_figure(files, "judge_agreement")
    assert "judge_agreement is left out: one judge (model of primary): not" in capsys.readouterr().out
    with pytest.raises(InputError, match="there is none of that name"):
        show_figure(files, "no_such_figure")
    with pytest.raises(
        InputError, match="figure 'front': there is none of that name; use one of conditions, quality_by"
    ):
        draw_study(held, about, ["front"])
    save_drawn([], tmp_path, about)
    assert not (pictures / LEFT_OUT).exists()


@pytest.mark.usefixtures("no_pictures")
def test_figures_and_tables_of_what_is_gone_are_taken_away(tmp_path):
    """A judge leaves the study, and no two are left; files of the user stay."""
    tables, pictures = tmp_path / "tables", tmp_path / "figures"
    stay = [tables / "reliability_of_mine.tex", tables / "judges_old.csv", pictures / "notes.docx"]
    for path in (*stay, tables / "judges.tex", pictures / "judges.pdf"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("old")
    held, plan = make_study(("m",), bases=2, judges=("primary",), missing=0.0)
    files = write_figures(held, about_study(held, plan), tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*files, *stay}


def write_all(folder):
    """Write figures and tables of a study."""
    held, plan = make_study(("m",), bases=3)
    return write_figures(held, about_study(held, plan), folder)


def test_another_process_with_another_hash_seed_writes_the_same_files(tmp_path):
    """Figures and tables of a study, written in two processes: the same names and the same bytes."""
    program = "import sys, pathlib, test_figure_files as here; "
    program += "here.write_all(pathlib.Path(sys.argv[1]))"
    # The rest of the environment as it is: OPENBLAS_CORETYPE and its like decide the last bits of a sum.
    helpers = f"{Path(__file__).parent}{os.pathsep}{ROOT / 'tests/helpers'}"
    mine = {"PYTHONHASHSEED": "4711", "PYTHONPATH": helpers, "MPLBACKEND": "svg"}
    command = [sys.executable, "-c", program, str(tmp_path / "other")]
    other = subprocess.Popen(command, env=os.environ | mine)
    files = write_all(tmp_path / "own")
    assert other.wait(timeout=600) == 0
    own, others = (
        {
            path.relative_to(tmp_path / name).as_posix(): path.read_bytes()
            for path in (tmp_path / name).rglob("*.*")
        }
        for name in ("own", "other")
    )
    assert own == others
    notes = sum(name.endswith(SUFFIXES[-1]) for name in own)
    assert len(own) == len(files) == 9 * (len(PICTURES) + 2) + 2 * 3 + notes


@pytest.mark.parametrize(("text", "printed"), CASES["texts"])
def test_text_of_a_model_is_printed_as_text(text, printed, capsys):
    """No colours, no overwriting, no hidden characters; lines are wrapped between words."""
    print_text(text)
    assert capsys.readouterr().out.expandtabs() == printed.expandtabs()


def test_a_notebook_stops_with_one_line_where_there_is_nothing_or_too_little():
    """A batch would call it done otherwise, and never ask again."""
    need_results({"study": "demo", "done": 1})
    with pytest.raises(
        NothingToShow, match="study demo: no run has succeeded yet; run `make demo`"
    ) as caught:
        need_results({"study": "demo", "done": 0})
    assert isinstance(caught.value, ToolkitError)
    assert caught.value._render_traceback_() == [f"NothingToShow: {caught.value}"]
    whole = {"planned": 6, "failed": 0, "failures": {}, "budget": None}
    need_whole(whole)
    with pytest.raises(NotWhole, match=r"2 of 6 runs failed \(2 x timeout\); run"):
        need_whole(whole | {"failed": 2, "failures": {"timeout": 2}})
    with pytest.raises(NotWhole, match="budget reached"):
        need_whole(whole | {"budget": "budget reached: raise it"})


def test_the_style_of_a_thesis_leaves_the_users_own_alone():
    """9 point and fonts of type 42 inside, also where it ends with an error; sizes in millimetres."""
    with mpl.rc_context({"font.size": 31, "axes.grid": True}):
        before = dict(mpl.rcParams)
        with pytest.raises(ZeroDivisionError), thesis_style():  # noqa: PT012
            kinds = ("axes.label", "xtick.label", "legend.font")
            assert mpl.rcParams["font.size"] == 9.0
            assert {mpl.rcParams[f"{what}size"] for what in kinds} == {"medium"}
            assert (mpl.rcParams["pdf.fonttype"], mpl.rcParams["axes.grid"]) == (42, False)
            1 / 0  # noqa: B018
        assert dict(mpl.rcParams) == before
    assert [side * 25.4 for side in new_figure(85, 60).get_size_inches()] == pytest.approx([85, 60])
    for width, height in ((0, 60), (85, -1), (float("nan"), 10)):
        with pytest.raises(InputError, match="two positive sides"):
            new_figure(width, height)


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    """Whoever reads has the old file or the new one, and may read it."""
    target = write_atomically(tmp_path / "a.txt", b"old")
    assert target.stat().st_mode & 0o777 == 0o644

    def refuse(self, other):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_figures_show_themselves_with_captions_and_what_is_left_out(tmp_path):
    """No file is no error."""
    picture = tmp_path / "quality.png"
    picture.write_bytes(b"\x89PNG")
    (tmp_path / "quality.txt").write_text('Quality of "<b>x</b>".')
    names = ("quality.png", "quality.txt", LEFT_OUT, "tables/one.tex", "methods.tex")
    files = Files([tmp_path / name for name in names], left_out={"cost": "no run has a price"})
    html = files._repr_html_()
    assert repr(files) == f"1 figure and 1 LaTeX table in {tmp_path}"
    assert html.count("<img") == 1
    assert 'alt="Quality of &quot;&lt;b&gt;x' in html
    assert "cost is left out: no run has a price." in html
    assert "<b>" not in html
    part = SimpleNamespace(place="figures/quality", alt_text="Lines < marks.")
    assert 'alt="Lines &lt; marks."' in Files(files, [part])._repr_html_()
    assert repr(Files()) == "0 figures and 0 LaTeX tables in ."
    assert "<img" not in Files()._repr_html_()
