"""What `study.figures()` shows as the last line of a cell."""

from __future__ import annotations

from pathlib import Path

from toolkit.report.show import LEFT_OUT, Files


def test_figures_show_themselves_with_captions_and_what_is_left_out(tmp_path: Path) -> None:
    picture = tmp_path / "quality.png"
    picture.write_bytes(b"\x89PNG")
    (tmp_path / "quality.txt").write_text('Quality of "<b>x</b>".')
    files = Files(
        [
            picture,
            tmp_path / "quality.txt",
            tmp_path / LEFT_OUT,
            tmp_path / "tables" / "one.tex",
            tmp_path / "methods.tex",
        ],
        left_out={"cost": "no run has a price"},
    )
    html = files._repr_html_()
    assert repr(files) == f"1 figure and 1 LaTeX table in {tmp_path}"
    assert html.count("<img") == 1
    assert 'alt="Quality of &quot;&lt;b&gt;x' in html
    assert "cost is left out: no run has a price." in html
    assert "<b>" not in html
    drawn = tmp_path / "quality.svg"
    drawn.write_text("<svg><title>quality</title>\n <desc>Lines &lt; marks.</desc></svg>")
    assert 'alt="Lines &lt; marks."' in Files([*files, drawn])._repr_html_()


def test_no_file_is_no_error() -> None:
    assert repr(Files()) == "0 figures and 0 LaTeX tables in ."
    assert "<img" not in Files()._repr_html_()
