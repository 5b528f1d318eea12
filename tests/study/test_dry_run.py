"""What a study file asks for is run to the end on a few items, by scripts, before its estimate is believed."""

import re
import shutil
import tomllib

import pytest
from places import DOCS, ROOT

from toolkit.getting_started.folder import init_folder
from toolkit.runs.unsaved import UNSAVED
from toolkit.store.documents import Call, Run
from toolkit.study import Study

JUDGES = """[judges]
primary = { name = "a", provider = "scripted", family = "f" }
secondary = { name = "b", provider = "scripted", family = "g" }
tertiary = false
"""
TWO = (
    'models = [{ name = "m", provider = "scripted", family = "f" }, { name = "n", provider = "scripted" }]\n'
)
OWN = """
from toolkit.prompt_test import Measurement, Prompt, PromptResponseTest, PromptWithContext, ResultType
from toolkit.prompt_test import TestItem, mean_result


class Own(PromptResponseTest):
    name = "own"

    def make_test_items(self):
        return tuple(TestItem(n, (PromptWithContext(Prompt("Say " + n, n)),)) for n in "abcd")

    def measure_quality(self, answered):
        return [Measurement("words", len(answered.replies[0].text.split()) / WORDS)]

    def aggregate_measurements(self, measured):
        return [mean_result("words", measured, "words")]

    def result_types(self):
        return (ResultType("words", "words"),)
"""
LOCAL = "Quality and cost: the runs cost nothing, so there is no quality per AUD"
COST = r'provider = "scripted"(?=[, ])'
PRICED = 'provider = "scripted", usd_per_million_input = 1.0, usd_per_million_output = 2.0'


def lines_of(folder, text, *, priced=True):
    """Return what a study will have no result of."""
    path = folder / "s.toml"
    path.write_text(f'name = "s"\n{re.sub(COST, PRICED, text) if priced else text}', encoding="utf-8")
    with Study.load(path) as study:
        return study.estimate().attrs["without_result"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (TWO + JUDGES, []),
        (f'selection = "adaptive"\ntarget_width = 1.0\n{TWO}{JUDGES}', []),
        (f'{TWO}{JUDGES}mode = "both"\nrepeats = 5\nexpected_scores = true\nshuffle_dimensions = true', []),
        (f'repeats = 30\n{TWO}{JUDGES}[bias_controls]\nfsp_enabled = true\nfsp_mode = "per_sentence"', []),
        (f'{TWO}{JUDGES}rubric = "seed-v1"\n[sampling]\nreasoning_effort = "low"', []),
        (TWO.replace(', { name = "n", provider = "scripted" }', "") + JUDGES,
         ["Models, compared in pairs within prompts: one model"]),
        (TWO + JUDGES.replace("secondary = {", "secondary = false #"),
         ["Agreement of the judges; Variance components and generalizability; Judges, each beside the others: one "
          "judge (a): not estimable"]),
        (f'length_bins = ["M"]\n{TWO}{JUDGES}',
         ["Prompt length, compared within bases; What this study can tell apart: one prompt length"]),
        (f'{TWO}{JUDGES}related = "exclude"', ["m (by 1 of 2 judges): 0"]),
        (f'{TWO}{JUDGES}mode = "pairs"', ["Judges, each beside the others: judges compare replies in pairs here"]),
        (f"bases = 1\n{TWO}{JUDGES}", ["within bases: 1 base with a score"]),
        ('test = "own.py:Own"\n' + TWO, ["a few items do not run to the end: test own: measure_quality failed"]),
    ],
)  # fmt: skip
def test_what_will_have_no_result_is_said_before_it_is_paid_for(tmp_path, store_folder, text, lines):
    """A line a reason; a study that has all it asks for has none."""
    (tmp_path / "own.py").write_text(OWN.replace("WORDS", "0"))
    found = lines_of(tmp_path, text)
    assert (len(found) >= len(lines), bool(found)) == (True, bool(lines)), found
    for line in lines:
        assert line in "\n".join(found)


def test_nobody_is_asked_and_the_store_of_the_study_stays_as_it_is(server, open_study, monkeypatch):
    """Nor is anything written beside it; where something is paid the study itself shows what it gives."""
    study = open_study()
    assert not study.store.has(Call, {})  # it is open before another server is named
    study.output.mkdir()
    (study.output / UNSAVED).write_text("a reply that was paid for while the store was away")
    before = {path for path in study.path.parent.rglob("*") if ".store" not in path.parts}
    monkeypatch.setenv("MONGODB_URI", "mongodb://127.0.0.1:9/never")
    assert "Models, compared in pairs within prompts: one model" in study.estimate().attrs["without_result"]
    assert server.count == 0
    assert (study.store.has(Call, {}), study.store.has(Run, {})) == (False, False)
    assert {path for path in study.path.parent.rglob("*") if ".store" not in path.parts} == before
    (study.output / UNSAVED).unlink()
    study.execute(progress=False, limit=1)
    assert study.estimate().attrs["without_result"] == []


ALLOWED = {
    "adaptive": {LOCAL},
    "demo": {LOCAL, "Models, compared in pairs within prompts: one model"},
    "compare": {LOCAL, "one model"},
    "choose_models.md": {LOCAL},
    "ollama": {LOCAL, "one judge (ollama/gemma3:12b): not estimable"},
    "vllm": {LOCAL, "one judge (gemma3-12b): not estimable"},
    # With the one base that shows how bases are written; the file says that three are needed.
    "local": {
        LOCAL,
        "one model",
        "1 base",
        "1 bases",
        "do not determine it",
        "0 bases with the scores of all models",
        "needs two of them",
    },
    "own_server.md": {LOCAL},
    "try_design.md": {LOCAL},
    "pairs.md": {"judges compare replies in pairs here"},
    "set_prices.md": {"one model"},
}
"""What a shipped file or page does without, because it is not what it is for."""


def write_studies_of_pages(folder):
    """Write the studies that pages print, whose datasets ship; the lines of a part stand in a study of two models."""
    for page in (DOCS / "how_to").glob("*.md"):
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            table = tomllib.loads(block)
            if {
                "product",
                "base",
                "question",
                "dimensions",
                "test",
                "options",
            } & table.keys() or "reference" in block:
                continue
            head = "" if "name" in table else 'name = "page"\n'
            head += "" if "models" in table else 'models = ["gpt-6-luna", "gemini-4-argon"]\n'
            (folder / f"{page.name}.{len(block)}").write_text(head + block, encoding="utf-8")


@pytest.mark.parametrize("names", ["*.toml", "templates/*.toml", "*.md.*"])
def test_no_shipped_study_ends_without_the_result_that_it_is_for(tmp_path, names):
    """Of a new thesis folder, of the templates and of the pages."""
    folder = tmp_path / "thesis"
    init_folder(folder)
    if not names.endswith("toml"):
        shutil.copy(ROOT / "templates" / "rubrics" / "example.toml", folder / "incident.toml")
        write_studies_of_pages(folder)
    paths = sorted(folder.glob(names))
    assert paths
    for path in paths:
        with Study.load(path) as study:
            lines = study._without_result()
        allowed = ALLOWED.get(path.name.rpartition(".")[0], ())
        assert [line for line in lines if not any(part in line for part in allowed)] == [], path
