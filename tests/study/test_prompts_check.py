"""``toolkit prompts check``: a line for each flaw of a dataset, the counts in the last one, JSON on request."""

import json
from dataclasses import replace

import pytest
from small_study import COLUMNS, write_prompts

from toolkit.errors import InputError, StudyError
from toolkit.prompts.dataset import load_dataset
from toolkit.study import Study


@pytest.fixture
def check(toolkit):
    """Call ``toolkit prompts check``; returns exit code, standard output and standard error."""
    return lambda *arguments: toolkit("prompts", "check", *arguments)


@pytest.fixture(scope="module")
def prompts():
    return load_dataset("demo").prompts[:6]


def changed(prompts, number, **fields):
    return tuple(replace(p, **fields) if i == number else p for i, p in enumerate(prompts))


def test_the_demo_has_no_problem(check):
    """Counts in one line and exit code 0; the same as one JSON object."""
    code, out, err = check("demo")
    assert (code, err) == (0, "")
    last = "dataset demo, version 20261121_demo_v1: bases 12, prompts 36 (S 12, M 12, L 12), problems 0"
    assert out.splitlines()[-1] == last
    code, out, err = check("demo", "--json")
    found = json.loads(out)
    assert (code, err, found["problems"], found["version"]) == (0, "", [], "20261121_demo_v1")
    assert (found["bases"], found["prompts"], found["length_bins"]) == (12, 36, {"S": 12, "M": 12, "L": 12})


def test_kinds_come_with_counts_and_examples_first(check, tmp_path, prompts):
    """A hundred lines say less than a kind and its count; all of them are one option away."""
    path = write_prompts(
        tmp_path / "short.csv", tuple(replace(p, text=f"Isolate {p.prompt_id}.") for p in prompts)
    )
    code, out, _ = check(path)
    lines = out.splitlines()
    assert (code, lines[0]) == (1, "range: 6 problems, token count outside of its length bin")
    assert lines[1].startswith("  academic_soc_001_s: ")
    assert lines[4] == "  and 3 more; --all shows them"
    assert lines[5].startswith("containment: 1 problem, ")
    everything = check(path, "--all")[1]
    assert everything.count("a study refuses it as it is, by its o200k_base tokens") == 6
    assert "a study takes it" not in everything  # what both encodings count is one problem of one prompt
    assert "in 4 of 4 pairs the longer prompt lacks lines of the shorter one, 4 in all" in everything
    found = json.loads(check(path, "--json")[1])
    assert found["kinds"] == {"range": 6, "containment": 1}
    assert [problem["kind"] for problem in found["problems"]].count("range") == 6


def test_a_line_of_text_is_cut_and_whole_in_json(check, tmp_path, prompts):
    """A prompt may be one line of 1,000 tokens, and what it holds does not act on the terminal."""
    lost = "Look \x1b[2J at it, " * 20 + "and end."
    path = write_prompts(tmp_path / "mine.csv", changed(prompts, 0, text=f"{prompts[0].text}\n{lost}"))
    line = next(line for line in check(path)[1].splitlines() if "lacks this line" in line)
    assert "Look [U+001B][2J at it" in line
    assert "…; say it there too" in line
    assert "and end" not in line
    said = [problem["what"] for problem in json.loads(check(path, "--json")[1])["problems"]]
    assert f"lacks this line of academic_soc_001_s: {lost}" in said


def test_what_is_no_dataset_is_bad_input(check, tmp_path):
    """One line on standard error and exit code 2, never a traceback and never `no problem`."""
    (tmp_path / "header.csv").write_text(",".join(COLUMNS) + "\n")
    for name in ("header.csv", "nowhere.csv"):
        code, out, err = check(tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)
        assert str(tmp_path / name) in err


@pytest.mark.usefixtures("no_pictures")
def test_a_study_goes_on_with_flaws_that_it_accepts_and_says_so(tmp_path, study_file):
    """Out of range is refused with the way out; accepted, every caption counts it. A kind nobody knows is refused."""
    short = tuple(
        replace(p, text=f"Name the first step for {p.prompt_id} and give a reason.") if p.level == "S" else p
        for p in load_dataset("demo").prompts
        if p.scenario == "CTI_ANALYSIS"
    )
    write_prompts(tmp_path / "short.csv", short)
    path = study_file(settings='dataset = "short.csv"\n')
    with pytest.raises(InputError, match=r'accept_flaws = \["range"\]'):
        Study.load(path).estimate()
    path = study_file(settings='dataset = "short.csv"\naccept_flaws = ["rang"]')
    with pytest.raises(
        StudyError,
        match=r"accept_flaws: unknown flaw 'rang', did you mean range\? allowed are range, length_bins",
    ):
        Study.load(path)
    with Study.load(study_file(settings='dataset = "short.csv"\naccept_flaws = ["range"]')) as study:
        study.run()
        files = study.figures(only=["quality_by_length"])
    captions = [
        file.read_text()
        for file in files
        if file.suffix == ".txt" and file.stem.isidentifier() and file.stem != "left_out"
    ]
    assert captions
    for caption in captions:
        assert "Flaws of the dataset accepted in the study file: range (2)." in caption
