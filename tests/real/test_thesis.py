"""The thesis bundle: it compiles as it is, says only what was done, cites only what it used, and is sealed."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from whole_study import make_study
from wording_rules import badly_worded

from toolkit import thesis
from toolkit.errors import InputError
from toolkit.report.blocks import Bullets, Heading, Paragraph, Quote, Sentence
from toolkit.report.figure import About, about_study, save_table
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.report.registry import write_figures, write_statistics
from toolkit.report.show import Files
from toolkit.report.tables import estimates_table, length_table
from toolkit.stats.result import Estimate
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.thesis.bundle import write_bundle
from toolkit.thesis.contents import Contents
from toolkit.thesis.findings import Findings

HOSTILE = r"50% of $x_1$ & #2 ^~ {a} \input{/etc/passwd} κ ≤ 3 – → Ω “q” 日本 🙂 ש س x̧̂ \end{document}"
HOSTILE_MODEL = r"meta_llama/$&%#^~{}\input-κ≤–→-" + "Very" * 16
QUESTIONS = """
"A test of a user's own with two questions."
from toolkit.prompt_test import Measurement, Prompt, PromptResponseTest, PromptWithContext, ResultType, TestItem
from toolkit.prompt_test import mean_result


class Own(PromptResponseTest):
    name = "own"

    def make_test_items(self):
        return tuple(TestItem(name, (PromptWithContext(Prompt(name, name)),), context=None) for name in ("one", "two"))

    def measure_quality(self, item_annotations):
        text = item_annotations.replies[0].text
        return [Measurement("length", None if text is None else float(len(text)), "characters")]

    def result_types(self):
        return (ResultType("mean length", "characters"),)

    def aggregate_measurements(self, measured_items):
        return [mean_result("mean length", measured_items, "length", "characters")]
"""
THESIS = r"""
\documentclass[12pt,twoside]{report}
\usepackage[utf8]{inputenc}
\usepackage[T1]{fontenc}
\usepackage[english]{babel}
\useshorthands*{"}
\defineshorthand{"a}{\"a}
\usepackage[numbers]{natbib}
\input{the bundle/preamble.tex}
\input{the bundle/preamble.tex}
\usepackage{hyperref}
\begin{document}
\listoffigures
\chapter{One}
\input{the bundle/methods.tex}
\input{the bundle/figures.tex}
\IfFileExists{the bundle/appendix.tex}{\input{the bundle/appendix.tex}}{}
\IfFileExists{the bundle/supplement.tex}{\input{the bundle/supplement.tex}}{}
\bibliographystyle{plainnat}
\bibliography{references}
\end{document}
"""
CLAIM = (
    '{"claims": [{"value": "%s", "of": {"measure": "first", "column": "%s", "filter": {}}, "rows": "all"}]}'
)
"""A typed answer: the expected host, another value of the sample, or a value that it lacks."""
ONE_SHOT = f"""
name = "shots"
test = "one_shot"
models = [{{ name = "Wilson", provider = "scripted", replies = [
'{CLAIM % ("intranet.example", "host")}', '{CLAIM % ("/", "uri")}', '{CLAIM % ("evil.example", "host")}'] }}]
repeats = 3
output = "results/shots"
[options]
prompts = ["plain", "careful"]
samples = ["plain_gets"]
only = ["plain_gets_host"]
[judges]
primary = false
secondary = false
tertiary = false
"""
STUDIES = ("rq1_length.v2", "rq1-length.v2")
"""Names that a label which knows only letters and hyphens would not tell apart."""
NO_FINDINGS = Findings("study", ())
SECTION = [Paragraph((Sentence("Holm's method was used", ("holm1979",)),), "Statistics")]
TOGETHER = r"""
\documentclass%OPTIONS%{article}
\input{%FIRST%/preamble.tex}
\usepackage{hyperref}
\begin{document}
One: \ref{fig:rq1_length.v2:quality-by-length}; \ref{tab:rq1_length.v2:length};
\ref{tab:rq1_length.v2:statistics-many}.
Two: \ref{fig:rq1-length.v2:quality-by-length}; \ref{tab:rq1-length.v2:length};
\ref{tab:rq1-length.v2:statistics-many}.
\section{One}
\input{%FIRST%/methods.tex}
\input{%FIRST%/figures.tex}
\input{%FIRST%/supplement.tex}
\section{Two}
\input{chapters/two}
\bibliographystyle{plain}
\bibliography{%FIRST%/all_references}
\end{document}
"""
CHAPTER = r"""
\input{a folder/other_bundle/methods.tex}
\input{a folder/other_bundle/figures}
\input{a folder/other_bundle/supplement.tex}
"""


@pytest.fixture(scope="module")
def bundled(demo_like_study, tmp_path_factory):
    """The bundle of a judged study, drawn once, and its files in the order in which they were returned."""
    folder = tmp_path_factory.mktemp("bundle")
    with Study.load(demo_like_study) as study:
        files = study.bundle(folder, supplement=True)
    assert {path for path in folder.rglob("*") if path.is_file()} == set(files)
    return folder, files


@pytest.fixture(scope="module")
def whole_bundle(bundled):
    """The folder of that bundle."""
    return bundled[0]


@pytest.fixture
def write_study(tmp_path):
    """Write a study file into a folder of its own, whose server is stopped at the end."""

    def write(text):
        path = tmp_path / "study.toml"
        path.write_text(text, encoding="utf-8")
        return path

    yield write
    embedded.stop(tmp_path / "results" / ".store")


def latex(folder, name):
    """Compile a document and return the log of LaTeX and the text of every page."""
    assert shutil.which("pdflatex"), "no pdflatex: scripts/apt_install.sh in `make test` installs it"
    log = folder / f"{name}.log"
    for turn, command in enumerate(("pdflatex", "bibtex", "pdflatex", "pdflatex", "pdflatex")):
        if turn == 4 and "Rerun" not in log.read_text(encoding="latin-1"):
            break  # citations that became numbers moved no label to another page, so LaTeX asks for no more
        options = ["-interaction=nonstopmode", "-halt-on-error"] if command == "pdflatex" else []
        done = subprocess.run([command, *options, name], cwd=folder, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-1500:]
    text = ["pdftotext", "-layout", f"{name}.pdf", "-"]
    shown = subprocess.run(text, cwd=folder, capture_output=True, check=True)
    return log.read_text(encoding="latin-1"), shown.stdout.decode()


def compiled(bundle, folder):
    """Compile a copy of a bundle as it is."""
    return latex(Path(shutil.copytree(bundle, folder / "compiled")), "bundle")


def thesis_of(bundle, folder):
    """Compile a thesis that takes up a bundle: its own packages and width, a path with a blank."""
    shutil.copytree(bundle, folder / "the bundle")
    shutil.copy(bundle / "references.bib", folder)
    (folder / "thesis.tex").write_text(THESIS)
    return latex(folder, "thesis")


def assert_clean(log, points=5):
    """Nothing undefined, nothing missing, nothing twice, nothing out of the page."""
    for bad in ("LaTeX Warning", "undefined", "multiply", "Missing character"):
        assert bad not in log
    wide = [float(found) for found in re.findall(r"Overfull \\hbox \(([0-9.]+)pt", log)]
    assert [one for one in wide if one > points] == []


def test_the_bundle_of_a_judged_study_compiles_with_a_page_of_methods_and_one_of_findings(
    demo_like_study, whole_bundle, tmp_path
):
    """LaTeX has nothing to say against it; with its supplement it prints every figure and table."""
    with Study.load(demo_like_study) as study:
        study.bundle(tmp_path / "short")
    log, text = compiled(tmp_path / "short", tmp_path)
    assert_clean(log)
    methods, findings, *pages = text.split("\f")
    assert "Software." in methods
    assert findings.index("Results") < findings.index("Missing scores and cost.")
    figures, tables = (set(re.findall(rf"{word} (\d+):", text)) for word in ("Figure", "Table"))
    assert (len(figures), len(tables), "Supplement" in text) == (4, 2, False)
    assert len(pages) <= 11
    log, text = compiled(whole_bundle, tmp_path / "with")
    assert_clean(log)
    for word, names in (("Figure", "figures/*.pdf"), ("Table", "*s/*.tex")):
        count = len(
            [path for path in whole_bundle.glob(names) if word == "Figure" or path.parent.name != "figures"]
        )
        assert len(set(re.findall(rf"{word} (\d+):", text))) == count >= 3
    assert "References" in text


def test_a_narrower_thesis_with_packages_of_its_own_takes_up_everything(whole_bundle, tmp_path):
    """Twoside, active quotes, hyperref, a blank in the path: every table is there, whole, and within the text."""
    log, text = thesis_of(whole_bundle, tmp_path)
    assert "undefined" not in log
    wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([0-9.]+)pt", log)]
    assert [points for points in wide if points > 15] == []
    for name in ("ICC(C,k)", "slope per 100 tokens", "F(levels)", "compliance alignment", "detectable"):
        assert name in text  # what stands in tables, not in captions
    tables = [*(whole_bundle / "tables").glob("*.tex"), *(whole_bundle / "statistics").glob("*.tex")]
    assert len(set(re.findall(r"Table ([0-9.]+):", text))) == len(tables)


def test_a_wide_table_is_turned_where_its_type_would_be_too_small(tmp_path):
    """At the width of the class report a table in the smallest type is as large as it was made."""
    shutil.copy(Path(thesis.__file__).with_name("preamble.tex"), tmp_path)
    cells = " & ".join(["0.12 [0.34, 0.56]"] * 7)
    (tmp_path / "wide.tex").write_text(
        rf"\begin{{table}}\caption{{Wide}}\tiny\begin{{tabular}}{{lllllll}}{cells}\end{{tabular}}\end{{table}}"
    )
    (tmp_path / "thesis.tex").write_text(
        "\\documentclass{report}\\input{preamble.tex}\\begin{document}\\bundlehere\\bundletable{wide}\\end{document}"
    )
    for command in (["pdflatex", "-interaction=nonstopmode", "thesis"], ["pdftotext", "-bbox", "thesis.pdf"]):
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    page = (tmp_path / "thesis.html").read_text()
    boxes = re.findall(r'<word xMin="(\S+)" yMin="(\S+)" xMax="(\S+)" yMax="(\S+)">0.12<', page)
    sides = [sorted((float(x1) - float(x0), float(y1) - float(y0))) for x0, y0, x1, y1 in boxes]
    assert len(sides) == 7
    assert min(short for short, _ in sides) > 4.4  # what type of 5 points has


def test_the_methods_name_the_bytes_and_versions_of_the_manifest(whole_bundle):
    """Dataset and rubric by their hashes; test_methods has models, days, counts and cost."""
    text = (whole_bundle / "supplement.txt").read_text(encoding="utf-8")
    manifest = json.loads((whole_bundle / MANIFEST).read_text(encoding="utf-8"))
    for name in ("dataset", "rubric"):
        assert manifest["inputs"][name]["sha256"][:12] in text
    assert f"scipy {manifest['versions']['scipy']}" in text
    assert badly_worded(text) == []


def test_references_are_those_that_are_cited_and_no_others(whole_bundle):
    """Every entry is cited in the methods, and every citation has its entry."""
    cited = re.findall(r"\\cite\{([^}]*)\}", (whole_bundle / "supplement.tex").read_text())
    entries = re.findall(r"^@\w+\{(\w+),", (whole_bundle / "references.bib").read_text(), re.MULTILINE)
    assert entries == sorted({key for keys in cited for key in keys.split(",")})
    assert {"mcgraw1996", "holm1979", "brennan2001"} <= set(entries)
    assert "learnedmiller2019" not in entries


def test_a_bundle_written_again_has_the_same_bytes_and_leaves_what_is_not_its_own(bundled, tmp_path):
    """Over an older bundle; a file that it no longer has goes unless somebody changed it."""
    whole, files = bundled
    names = [path.relative_to(whole).as_posix() for path in files]
    folder = Path(shutil.copytree(whole, tmp_path / "again"))
    drawn = [
        folder / name for name in names if re.match(r"(tables|statistics)/|figures/.*(?<!\.tex)$|dev", name)
    ]
    drawn = Files(drawn, files.shown, files.left_out)
    about = json.loads((whole / MANIFEST).read_text())
    about.pop("files")

    def write(drawn):
        contents = Contents(about["study"], NO_FINDINGS, SECTION, drawn.shown)
        return {path: path.read_bytes() for path in write_bundle(folder, drawn, contents, about)}

    first = write(drawn)
    assert write(drawn) == first
    for name in names:
        if re.match("tables/|statistics/|figures/", name):
            assert first[folder / name] == (whole / name).read_bytes(), name
    (folder / "notes.txt").write_text("mine")
    (folder / "tables" / "length.csv").write_text("mine too")
    fewer = [shown for shown in drawn.shown if shown.name != "length"]
    write(Files((path for path in drawn if path.stem != "length"), fewer))
    assert not (folder / "tables" / "length.tex").exists()
    assert (folder / "tables" / "length.csv").read_text() == "mine too"
    assert (folder / "notes.txt").exists()
    assert differing_files(folder) == [
        "notes.txt: is no file of the bundle",
        "tables/length.csv: is no file of the bundle",
    ]


def test_a_changed_and_a_missing_file_are_named(whole_bundle, tmp_path):
    """The manifest seals the bundle, and it reaches for nothing outside of it."""
    folder = Path(shutil.copytree(whole_bundle, tmp_path / "changed"))
    assert differing_files(folder) == []
    (folder / "methods.txt").write_text("We asked everybody.")
    (folder / "tables" / "length.csv").unlink()
    about = json.loads((folder / MANIFEST).read_text())
    about["files"]["../outside"] = "0"
    (folder / MANIFEST).write_text(json.dumps(about))
    assert differing_files(folder) == [
        "../outside: lies outside of the bundle",
        "methods.txt: was changed after the bundle was written",
        "tables/length.csv: is missing",
    ]


def test_hostile_names_and_notes_print_as_they_are_and_do_nothing(write_study, tmp_path):
    """A test without judges, with a model and a note full of commands and signs, and hostile tables."""
    (tmp_path / "own.py").write_text(QUESTIONS)
    path = write_study(
        f'name = "a_study-x"\ntest = "own.py:Own"\noutput = "results/x"\nnote = \'{HOSTILE}\'\n'
        f"models = [{{ name = '{HOSTILE_MODEL}', provider = 'scripted', model = 'a_1' }}]\n"
    )
    with Study.load(path) as study:
        study.execute(progress=False)
        files = study.bundle()
        bundle, about = study.output / "bundle", study.manifest()
    estimate = Estimate(HOSTILE_MODEL, 0.5, -0.25, 0.75, method=HOSTILE, n={"answers": 8})
    table = estimates_table("hostile", HOSTILE, [(HOSTILE_MODEL, estimate)] * 60, key=HOSTILE)
    drawn = Files(
        (path for path in files if path.parent.name == "figures" and path.suffix != ".tex"), files.shown
    )
    drawn += save_table(table, bundle / "tables")
    told, cited = (bundle / "methods.tex").read_text(), (bundle / "references.bib").read_text()
    assert "judges:" not in (bundle / "methods.txt").read_text()
    quotes = (Quote(HOSTILE, f"{HOSTILE}\n[x]\n\n{HOSTILE}"), Bullets(HOSTILE, (HOSTILE,)), Heading(HOSTILE))
    write_bundle(bundle, drawn, Contents(study.name, NO_FINDINGS, [], drawn.shown, quotes), about)
    (bundle / "methods.tex").write_text(told)
    (bundle / "references.bib").write_text(cited)
    log, text = compiled(bundle, tmp_path)
    assert_clean(log)
    assert "\\input{/etc/passwd}" in re.sub(r"\s+", "", text)
    assert "root:" not in text
    assert "[U+65E5][U+672C]" in re.sub(r"\s+", "", text)
    assert text.count("References") == 1  # \end{document} ended nothing


def test_a_one_shot_study_has_its_bundle(write_study, tmp_path):
    """Its figures, tables and methods, no statistics of judges; a thesis takes it up; no model's name is a method."""
    study = Study.load(write_study(ONE_SHOT))
    study.execute(progress=False)
    files = {path.relative_to(study.output).as_posix() for path in study.bundle(supplement=True)}
    study.store.close()
    assert "bundle/statistics/sentences.txt" not in files
    log, text = compiled(study.output / "bundle", tmp_path)
    assert_clean(log)
    references = (study.output / "bundle" / "references.bib").read_text()
    assert "learnedmiller2019" in references
    assert "wilson1927" not in references
    design = "answered 1 question about 1 sample of captured network traffic (plain gets), "  # as pdftotext reads "_"
    design += "each put in 2 prompts (plain and careful)"
    assert design in " ".join(text.split())
    assert "undefined" not in thesis_of(study.output / "bundle", tmp_path)[0]


def test_a_study_with_nothing_run_is_one_clear_line(write_study, toolkit):
    """Nothing is written, and it says what to do."""
    path = write_study(ONE_SHOT)
    code, _, error = toolkit("report", path, "--bundle")
    assert code == 2
    assert error.strip().endswith("so there is nothing to bundle; run it first")
    assert not (path.parent / "results" / "shots").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "is no manifest of a study"),
        ('{"study": "another", "files": {}}', "holds files of another; choose another folder"),
    ],
)
def test_a_folder_that_holds_another_manifest_is_left_alone(demo_like_study, tmp_path, content, message):
    """What is not ours is not overwritten."""
    (tmp_path / MANIFEST).write_text(content)
    with Study.load(demo_like_study) as study:
        for folder, why in ((tmp_path, message), (tmp_path / MANIFEST, "is a file")):
            with pytest.raises(InputError, match=why):
                study.bundle(folder, supplement=True)


def _bundle(folder, name, seed):
    """Write a bundle of one figure, one table, and one table over pages."""
    held, plan = make_study(bases=3, missing=0.0, seed=seed)
    plan.study = plan.study.model_copy(update={"name": name})
    about = about_study(held, plan)
    drawn = write_figures(held, about, folder, ["quality_by_length"])
    drawn += save_table(length_table(held.length(), context=about), folder / "tables", name)
    many = [Estimate(f"row {number}", 0.5, 0.25, 0.75, method="t", n={"bases": 3}) for number in range(70)]
    drawn += write_statistics({"many": ("Many", many)}, About(source=about.source, study=name), folder)
    write_bundle(folder, drawn, Contents(name, NO_FINDINGS, SECTION, drawn.shown), {"study": name})
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """A folder with the bundles of two studies somewhere below it."""
    folder = tmp_path_factory.mktemp("thesis")
    for number, (place, name) in enumerate(
        zip(("one_bundle", "a folder/other_bundle"), STUDIES, strict=True)
    ):
        _bundle(folder / place, name, number)
    (folder / "chapters").mkdir()
    (folder / "chapters" / "two.tex").write_text(CHAPTER)
    return folder


@pytest.mark.parametrize("options", ["", "[twocolumn]"])
def test_every_reference_and_every_file_is_of_the_study_that_is_meant(together, options):
    """No label twice, no BibTeX entry twice; both pictures of one name are there; a table over pages in two columns."""
    name = f"thesis{options.strip('[]')}"
    (together / f"{name}.tex").write_text(
        TOGETHER.replace("%OPTIONS%", options).replace("%FIRST%", "one_bundle")
    )
    log, text = latex(together, name)
    assert_clean(log)
    flat = " ".join(text.split())
    told = re.findall(r"(?:One|Two): (\d+); (\d+); (\d+)\.", flat)
    assert told == [("1", "1", "2"), ("2", "3", "4")]
    for study, (figure, length, many) in zip(STUDIES, told, strict=True):
        for what, number in (("Figure", figure), ("Table", length), ("Table", many)):
            caption = flat.split(f"{what} {number}: ", 1)[1]
            found = re.search(r"Study (.+?), dataset", caption)
            # An underscore is a line that LaTeX draws, and a name may be on two lines.
            assert found
            assert found[1].replace(" ", "") == study.replace("_", "")
    for folder in ("one_bundle", "a folder/other_bundle"):
        assert f"<use {folder}/figures/quality_by_length.pdf>" in log.replace("\n", "")
    assert flat.count("row 69") == 2
    assert flat.count("Sture Holm") == 1
