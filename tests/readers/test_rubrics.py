"""Rubrics are data: the seed's prompt to the letter, checked files, and a hash that sees every change."""

import re
from importlib import resources

import pytest
from cases import cases
from refusals import refusal

from toolkit.errors import InputError
from toolkit.judges.rubric import fill, load_rubric
from toolkit.models.tokens import count_tokens
from toolkit.words import DIMENSIONS

CASES = cases(__file__)

SEED_PROMPT = """You are an expert cybersecurity evaluator assessing LLM responses for SOC/GRC tasks.

RESPONSE TO EVALUATE:
{response_content}

EVALUATION CRITERIA:
1. Technical Accuracy (0-5): Factual correctness in cybersecurity context
2. Actionability (0-5): Can analysts act on this response?
3. Completeness (0-5): Covers all aspects of the prompt
4. Compliance Alignment (0-5): Aligns with regulatory frameworks
5. Risk Awareness (0-5): Acknowledges risks and limitations
6. Relevance (0-5): Stays on-task without digressions
7. Clarity (0-5): Clear, structured, unambiguous writing

FOCUS SENTENCES (if FSP enabled):
{key_sentences}

Please provide scores for each dimension as a JSON object:
{
  "technical_accuracy": 4.2,
  "actionability": 4.5,
  "completeness": 4.1,
  "compliance_alignment": 4.3,
  "risk_awareness": 4.0,
  "relevance": 4.4,
  "clarity": 4.6
}"""
"""Seed 002, section 4.3, copied from the seed."""
DEFAULT, SEED_V1 = load_rubric("default"), load_rubric("seed-v1")
TEXT = (resources.files("toolkit.judges") / "data" / "default.toml").read_text("utf-8")


def own(folder, text):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def scoped(**scopes):
    text = TEXT
    for name, scope in scopes.items():
        text = text.replace(f'name = "{name}"', f'name = "{name}"\nscope = "{scope}"')
    return text


def test_seed_v1_is_the_prompt_of_the_seed_word_for_word():
    assert (SEED_V1.template, SEED_V1.instructions) == (SEED_PROMPT, "")
    assert not SEED_V1.shows_task
    assert not SEED_V1.asks_reasons
    for number, dimension in enumerate(SEED_V1.dimensions, 1):
        assert f"{number}. {dimension.title} (0-5): {dimension.question}\n" in SEED_PROMPT


def test_shipped_rubrics_score_the_seven_dimensions_and_the_default_is_short_with_an_anchor_for_every_score():
    """It is paid for every time."""
    for rubric in (DEFAULT, SEED_V1):
        assert (rubric.names, rubric.scale) == (DIMENSIONS, (0, 5))
        whole = ["actionability", "completeness", *(["compliance_alignment"] if rubric is DEFAULT else [])]
        assert [d.name for d in rubric.dimensions if d.scope == "whole"] == whole
        # Where no rule applies this dimension is null, and scenarios with and without rules compare.
        assert rubric.scheme.optional == (("compliance_alignment",) if rubric is DEFAULT else ())
    for dimension in DEFAULT.dimensions:
        assert list(dimension.anchors) == [0, 1, 2, 3, 4, 5]
        assert all(dimension.anchors.values())
    text = fill(DEFAULT.instructions, {"criteria": "\n".join(d.line() for d in DEFAULT.dimensions)})
    assert 250 <= count_tokens(text) <= 420


def test_the_content_decides_the_digest_and_not_the_layout_of_the_file(tmp_path):
    assert load_rubric(own(tmp_path, TEXT)) == DEFAULT
    assert load_rubric(own(tmp_path, "# a comment\n" + TEXT.replace(" = ", "="))).digest == DEFAULT.digest
    assert load_rubric(own(tmp_path, scoped(completeness="whole", clarity="local"))).digest == DEFAULT.digest
    # Halves on 0-5 ask another thing than the default's whole steps: two rubrics never share a digest.
    halves = load_rubric(own(tmp_path, TEXT.replace("step = 1\n", "", 1)))
    assert len(halves.steps) == 11
    assert len(DEFAULT.steps) == 6
    assert halves.digest != DEFAULT.digest
    bare = DEFAULT.dimensions[0].model_copy(update={"anchors": {}})
    changes = [
        {"template": DEFAULT.template + " "}, {"version": "other"}, {"asks_reasons": False},
        {"dimensions": DEFAULT.dimensions[::-1]}, {"dimensions": (bare, *DEFAULT.dimensions[1:])},
    ]  # fmt: skip
    assert len({DEFAULT.digest, *(DEFAULT.model_copy(update=change).digest for change in changes)}) == 6
    assert len(DEFAULT.digest) == 64


def test_what_is_put_in_is_never_read_as_a_placeholder_and_other_braces_stay():
    values = {"task": "{response_content}", "response_content": "{task} {nonce}", "nonce": "x"}
    assert fill("{task}|{response_content}", values) == "{response_content}|{task} {nonce}"
    assert fill('{\n  "clarity": 4.6\n} {unknown} {}', values) == '{\n  "clarity": 4.6\n} {unknown} {}'


HEAD = TEXT.split("[[dimensions]]", maxsplit=1)[0]
FAULTS = CASES["faults"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((TEXT.replace(old, new, 1), said) for old, new, said in FAULTS),
        (HEAD + "\ndimensions = [3]\n", "dimensions.1: must be a table"),
        (scoped(clarity="global"), "dimensions.7.scope: Input should be 'local' or 'whole'"),
        (HEAD + "\ndimensions = []\n", "has 0 dimensions; write 1 to 12 of them"),
    ],
)
def test_a_rubric_that_cannot_be_used_is_refused_in_one_line(tmp_path, text, said):
    assert text != TEXT
    with pytest.raises(InputError) as caught:
        load_rubric(own(tmp_path, text))
    assert said in str(caught.value)
    assert all("mine.toml" in line for line in str(caught.value).split("\n"))


def test_all_faults_of_a_rubric_are_told_at_once(tmp_path):
    """Those of keys first, and then those of what they hold."""
    text = (
        TEXT.replace('name = "clarity"', 'name = "relevance"')
        .replace("{task}", "{tusk}")
        .replace("{focus}", "")
    )
    text = re.sub(
        r"(Is it clear.*\nanchors = ).*", r'\1{ 9 = "best" }', text.replace("step = 1\n", "step = 0.7\n")
    )
    with pytest.raises(InputError) as caught:
        load_rubric(own(tmp_path, text))
    pieces = (
        "step: 0.7 does not lead",
        "'relevance' is there twice",
        "9 is off the scale",
        "template lacks {task}",
    )
    told = str(caught.value).split("\n")
    for piece in (*pieces, "template cannot hold {tusk}", "focus and its place"):
        assert sum(piece in line for line in told) == 1, (piece, told)
    assert len(told) == 6
    with pytest.raises(InputError) as caught:
        load_rubric(own(tmp_path, text.replace("shows_task = true", 'shows_task = "no"\nversoin = 2')))
    assert [
        line for line in ("shows_task: Input should", "unknown key 'versoin'") if line in str(caught.value)
    ]


def test_a_rubric_that_is_not_there_or_not_text_says_so(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for source, words in (
        ("seed-v9", r"'seed-v9' is unknown: did you mean seed-v1. use one of default, seed-v1"),
        (tmp_path / "none.toml", "cannot be read"),
        (tmp_path / "binary.toml", "line 1: is not UTF-8"),
    ):
        refusal(words, load_rubric, source)
