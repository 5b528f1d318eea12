"""``toolkit prompts check``: a line for each flaw of a dataset, the counts in the last one, JSON on request."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from toolkit.errors import InputError, StudyError
from toolkit.prompts.dataset import Prompt, load_dataset
from toolkit.study import Study

COLUMNS = ("prompt_id", "text", "scenario", "category", "length_bin", "base")


@pytest.fixture
def check(toolkit: Callable) -> Callable[..., tuple[int, str, str]]:
    """Call ``toolkit prompts check``; returns exit code, standard output and standard error."""
    return partial(toolkit, "prompts", "check")


@pytest.fixture(scope="module")
def prompts() -> tuple[Prompt, ...]:
    return load_dataset("demo").prompts[:6]


def write_csv(path: Path, prompts: tuple[Prompt, ...], encoding: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=encoding) as sink:
        writer = csv.writer(sink)
        writer.writerow(COLUMNS)
        writer.writerows([getattr(prompt, column) for column in COLUMNS] for prompt in prompts)
    return path


def changed(prompts: tuple[Prompt, ...], number: int, **fields: str) -> tuple[Prompt, ...]:
    return tuple(replace(p, **fields) if i == number else p for i, p in enumerate(prompts))


def test_the_demo_has_no_problem(check: Callable) -> None:
    """Counts in one line and exit code 0; the same as one JSON object."""
    assert check("demo") == (
        0,
        "dataset demo, version 20261121_demo_v1: bases 12, prompts 36 (S 12, M 12, L 12), problems 0\n",
        "",
    )
    code, out, err = check("demo", "--json")
    found = json.loads(out)
    assert (code, err, found["problems"], found["version"]) == (0, "", [], "20261121_demo_v1")
    assert (found["bases"], found["prompts"], found["length_bins"]) == (12, 36, {"S": 12, "M": 12, "L": 12})


def test_every_kind_of_problem_is_a_line_with_what_to_do(
    check: Callable, tmp_path: Path, prompts: tuple[Prompt, ...]
) -> None:
    """Range, bins, labels, containment, same text and filler, each from a file as a user writes it."""
    first = prompts[0].text
    cases = {
        "range": (
            changed(prompts, 0, text="Isolate the host."),
            "academic_soc_001_s: 5 o200k_base tokens, length bin S has 150 to 250; make it longer; a study refuses",
        ),
        "missing": (prompts[:5], "has no prompt in length bin L; write it"),
        "twice": (
            changed(prompts, 5, length_bin="M"),
            "has 2 prompts in length bin M; give it a base of its own",
        ),
        "scenario": (
            changed(prompts, 1, scenario="CTI_ANALYSIS"),
            "academic_soc_001_m: base academic_soc_001 has scenario CTI_ANALYSIS here and SOC_INCIDENT in",
        ),
        "category": (changed(prompts, 2, category="other"), "; give all prompts of a base one category"),
        "line": (
            changed(prompts, 0, text=f"{first}\nSay it in two sentences."),
            "academic_soc_001_m: lacks this line of academic_soc_001_s: Say it in two sentences.; say it there too",
        ),
        "same": (
            changed(prompts, 3, text=first),
            "academic_soc_002_s: has the same text as academic_soc_001_s; write another text",
        ),
        "filler": (
            changed(
                prompts, 2, text=f"{prompts[2].text}\nBe very careful with this.\nBe very careful with this."
            ),
            "academic_soc_001_l: says 2 times: be very careful with this; say it once",
        ),
    }
    for name, (wrong, says) in cases.items():
        path = write_csv(tmp_path / f"{name}.csv", wrong)
        code, out, err = check(path, "--all")
        lines = [line for line in out.splitlines() if line.startswith(("  ", "dataset"))]
        assert (code, err) == (1, "")
        assert any(says in line for line in lines[:-1]), (name, out)
        assert lines[-1].startswith(f"dataset {name}, version {name}: bases 2, prompts {len(wrong)} (")
        assert lines[-1].endswith(f", problems {len(lines) - 1}")
        found = json.loads(check(path, "--json")[1])
        assert len(found["problems"]) == sum(found["kinds"].values()) == len(lines) - 1


def test_kinds_come_with_counts_and_examples_first(
    check: Callable, tmp_path: Path, prompts: tuple[Prompt, ...]
) -> None:
    """A hundred lines say less than a kind and its count; all of them are one option away."""
    path = write_csv(
        tmp_path / "short.csv", tuple(replace(p, text=f"Isolate {p.prompt_id}.") for p in prompts)
    )
    code, out, _ = check(path)
    lines = out.splitlines()
    assert (code, lines[0]) == (1, "range: 12 problems, token count outside of its length bin")
    assert lines[1].startswith("  academic_soc_001_s: ")
    assert lines[4] == "  and 9 more; --all shows them"
    assert lines[5].startswith("containment: 4 problems")
    everything = check(path, "--all")[1]
    assert everything.count("o200k_base tokens") == 6
    found = json.loads(check(path, "--json")[1])
    assert found["kinds"] == {"range": 12, "containment": 4}
    assert [problem["kind"] for problem in found["problems"]].count("range") == 12


def test_a_line_of_text_is_cut_and_whole_in_json(
    check: Callable, tmp_path: Path, prompts: tuple[Prompt, ...]
) -> None:
    """A prompt may be one line of 1,000 tokens, and what it holds does not act on the terminal."""
    lost = "Look \x1b[2J at it, " * 20 + "and end."
    path = write_csv(tmp_path / "mine.csv", changed(prompts, 0, text=f"{prompts[0].text}\n{lost}"))
    line = next(line for line in check(path)[1].splitlines() if "lacks this line" in line)
    assert "Look [U+001B][2J at it" in line
    assert "...; say it there too" in line
    assert "and end" not in line
    said = [problem["what"] for problem in json.loads(check(path, "--json")[1])["problems"]]
    assert f"lacks this line of academic_soc_001_s: {lost}" in said


def test_a_table_of_excel_and_json_lines_are_the_same_dataset(
    check: Callable, tmp_path: Path, prompts: tuple[Prompt, ...]
) -> None:
    """A byte order mark at the beginning is not part of the first column's name."""
    plain = write_csv(tmp_path / "mine.csv", prompts)
    code, of_csv, _ = check(plain, "--json")
    assert (code, plain.read_bytes()[:3]) == (0, b"pro")
    marked = write_csv(tmp_path / "mine.csv", prompts, encoding="utf-8-sig")
    assert marked.read_bytes()[:3] == b"\xef\xbb\xbf"
    assert check(marked, "--json") == (0, of_csv, "")
    lines = [json.dumps({column: getattr(p, column) for column in COLUMNS}) for p in prompts]
    (tmp_path / "mine.jsonl").write_text("\n".join(lines) + "\n")
    assert check(tmp_path / "mine.jsonl", "--json") == (0, of_csv, "")


def test_what_is_no_dataset_is_bad_input(
    check: Callable, tmp_path: Path, prompts: tuple[Prompt, ...]
) -> None:
    """One line on standard error and exit code 2, never a traceback and never `no problem`."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "header.csv").write_text(",".join(COLUMNS) + "\n")
    (tmp_path / "zero.csv").write_bytes(b"")
    (tmp_path / "bytes.csv").write_bytes(b"prompt_id,caf\xe9\n")
    (tmp_path / "excel.csv").write_text(";".join(COLUMNS) + "\na;b;c;d;S;e\n")
    (tmp_path / "half.jsonl").write_text('{"prompt_id": ')
    (tmp_path / "notes.md").write_text("# notes")
    write_csv(tmp_path / "bin.csv", changed(prompts, 4, length_bin="XL"))
    write_csv(tmp_path / "again.csv", (*prompts, prompts[0]))
    for name, says in {
        "empty": "expected one .toml file a base",
        "folder.csv": "expected one .toml file a base",
        "header.csv": "no prompt in it",
        "zero.csv": "'prompt_id' is missing",
        "bytes.csv": "not UTF-8",
        "excel.csv": "separated by semicolons; save it with commas",
        "half.jsonl": "row 1: not valid JSON",
        "notes.md": "no such dataset, give 'demo'",
        "nowhere.csv": "no such dataset, give 'demo'",
        "bin.csv": "row 5: key 'length_bin': unknown value 'XL', allowed are S, M, L",
        "again.csv": "row 7: key 'prompt_id': 'academic_soc_001_s' is already used in",
    }.items():
        code, out, err = check(tmp_path / name)
        assert (code, out, err.count("\n")) == (2, "", 1), (name, err)
        assert str(tmp_path / name) in err
        assert says in err


def test_a_thousand_prompts(check: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text is counted once an encoding: a large dataset takes seconds."""
    from toolkit.models import tokens

    demo = load_dataset("demo").prompts
    asked: list[str] = []
    monkeypatch.setattr(tokens, "count_tokens", lambda text, encoding: asked.append(encoding) or 200)
    monkeypatch.setattr(tokens.platformdirs, "user_cache_dir", lambda *_: str(tmp_path / "cache"))
    many = tuple(
        replace(p, prompt_id=f"{i}_{p.prompt_id}", base=f"{i}_{p.base}", text=f"{p.text}\nThis is case {i}.")
        for i in range(28)
        for p in demo
    )
    code, out, _ = check(write_csv(tmp_path / "many.csv", many))
    wrong = sum(p.length_bin != "S" for p in many) * 2  # the counts are made up: 200 tokens fit S only
    assert code == 1
    assert out.splitlines()[-1].endswith(f"bases 336, prompts 1008 (S 336, M 336, L 336), problems {wrong}")
    assert sorted(asked) == ["cl100k_base"] * len(many) + ["o200k_base"] * len(many)


def test_a_study_goes_on_with_flaws_that_it_accepts_and_says_so(
    tmp_path: Path, study_file: Callable[..., Path]
) -> None:
    """Out of range is refused with the way out; accepted, every caption counts it. A kind nobody knows is refused."""
    short = tuple(
        replace(p, text=f"Name the first step for {p.prompt_id} and give a reason.")
        if p.length_bin == "S"
        else p
        for p in load_dataset("demo").prompts
        if p.scenario == "CTI_ANALYSIS"
    )
    write_csv(tmp_path / "short.csv", short)
    path = study_file(settings='dataset = "short.csv"\n')
    with pytest.raises(InputError, match=r'accept_flaws = \["range"\]'):
        Study.load(path).estimate()
    text = path.read_text()
    path.write_text(text.replace('dataset = "short.csv"', 'dataset = "short.csv"\naccept_flaws = ["rang"]'))
    with pytest.raises(StudyError, match="accept_flaws: unknown flaw 'rang', allowed are range, length_bins"):
        Study.load(path)
    path.write_text(text.replace('dataset = "short.csv"', 'dataset = "short.csv"\naccept_flaws = ["range"]'))
    study = Study.load(path)
    study.run()
    files = study.figures(only=["quality_by_length", "judge_agreement"])
    captions = [file.read_text() for file in files if file.suffix == ".txt" and file.stem != "left_out"]
    assert captions
    assert all(
        "Flaws of the dataset accepted in the study file: range (4)." in caption for caption in captions
    )
    study.store.close()
