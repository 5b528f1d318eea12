"""Scripted means scripted: what no model answered or judged is said first, wherever a study shows or writes."""

import re

import pytest
from small_study import STUDY, executed

from toolkit import Study
from toolkit.audit.export import export_study
from toolkit.audit.registration import register
from toolkit.errors import StudyError
from toolkit.report.registry import draw_study
from toolkit.runs.status import status_summary
from toolkit.viewer.page import heading

REPLIES, JUDGEMENTS = "No model answered: replies are scripted.", "Judgements are scripted."
FIRST = f"{REPLIES} {JUDGEMENTS}"
TITLES = r"(Design\.|Read first|# (Plan of s|S)tudy small|Study small : .*? judged by 3 judges)?\s*"


def outputs(study, folder):
    """Yield everything that a finished study shows or writes, with its name."""
    yield "run", study.ending(study.execute(progress=False)).text
    yield "status", status_summary(study.status()).text
    yield "notebook", re.sub(r"<[^>]+>|&#x27;", " ", study._repr_html_())
    yield "note", study.note
    yield "findings", repr(study.findings("reliability"))
    yield "viewer", heading(study.plan)["warning"]
    register(study, None, folder / "plan.md")
    export_study(study, folder / "export")
    for path in (folder / "plan.md", folder / "export" / "README.md"):
        yield path.name, path.read_text()
    for figure in draw_study(study.frames(), study._figure_context(study.frames())):
        yield figure.name, figure.figure.texts[-1].get_text()
    for path in [*study.bundle(folder / "bundle"), *study.statistics(folder)]:
        text = path.read_text("utf-8") if path.suffix in (".txt", ".tex") else ""
        if r"\caption" in text:
            yield path.name, re.search(r"\\caption\[.*?\]\{(.*)", text, re.DOTALL)[1]
        elif path.name in ("findings.txt", "methods.txt", "sentences.txt") or (
            path.parent.name == "figures" and path.suffix == ".txt" and not path.name.endswith("notes.txt")
        ):
            yield path.name, text


@pytest.mark.usefixtures("no_pictures", "store_folder")
def test_a_scripted_study_says_so_first_in_every_output(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(STUDY.format(settings="", judges=""))
    with executed(path) as study:
        shown = [(name, " ".join(text.split())) for name, text in outputs(study, tmp_path)]
    assert len(shown) > 30
    assert [(name, text[:200]) for name, text in shown if not re.match(TITLES + re.escape(FIRST), text)] == []


def test_a_scripted_judge_of_real_replies_is_refused_and_a_planted_one_scores_no_reply_without_quality(
    tmp_path, store_folder
):
    """When the study is planned, in one line; what is scripted in part is named."""
    path, text = tmp_path / "small.toml", STUDY.format(settings="", judges="")
    real = text.replace('{ name = "scripted" }', '"gpt-6-luna", { name = "b", provider = "scripted" }')
    path.write_text(real)
    with pytest.raises(StudyError, match=r"^judges\.primary: judge-a is scripted, .* of gpt-6-luna; name a"):
        _ = Study.load(path).plan
    path.write_text(real.replace('"scripted" }\n', '"scripted", planted = {} }\n'))
    assert Study.load(path).plan.warning == f"Replies of b are scripted. {JUDGEMENTS}"
    path.write_text(text.replace('"scripted" }\n', '"scripted", planted = {} }\n'))
    with executed(path) as study:
        assert {*study.judgements()["failure"]} == {
            "no_planted_quality: planted: no quality is planted in this reply"
        }


def test_the_end_of_a_run_of_twelve_models_is_a_table_of_eight_lines(tmp_path, store_folder):
    """Means with interval and n, how many rows are left out, three sentences, money and time."""
    models = ", ".join(f'{{ name = "m{number}", provider = "scripted" }}' for number in range(12))
    path = tmp_path / "small.toml"
    path.write_text(STUDY.format(settings="", judges="").replace('{ name = "scripted" }', models))
    with executed(path) as study:
        text = study.ending(study.execute(progress=False)).text
    head, table, end = text.split("\n\n")
    assert table.count("\n") == 7
    assert table.splitlines()[-1] == "and 9 more rows: the figures and tables have all"
    assert re.search(r"\nm0 +\d\.\d+ +\[\d\.\d+, \d\.\d+\] +6 answers, 6 prompts, 2 bases\n", table)
    assert (end.count("result  "), "degrees" in text) == (3, False)
    assert re.search(r"calls   0 asked now, AUD 0.00 spent now, in \d+ s$", head)
