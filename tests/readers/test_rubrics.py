"""Rubrics are data: the seed's prompt to the letter, checked files, and a hash that sees every change."""

from __future__ import annotations

from importlib import resources

import pytest

from toolkit.errors import InputError
from toolkit.judges.rubric import fill, load_rubric
from toolkit.words import DIMENSIONS

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


@pytest.fixture(scope="module")
def default():
    return load_rubric("default")


@pytest.fixture(scope="module")
def seed_v1():
    return load_rubric("seed-v1")


@pytest.fixture
def shipped_text() -> str:
    return (resources.files("toolkit.judges") / "data" / "default.toml").read_text("utf-8")


def test_seed_v1_is_the_prompt_of_the_seed_word_for_word(seed_v1):
    assert seed_v1.template == SEED_PROMPT
    assert seed_v1.instructions == ""
    assert not seed_v1.shows_task
    assert not seed_v1.asks_reasons


def test_the_dimensions_of_seed_v1_repeat_its_prompt(seed_v1):
    for number, dimension in enumerate(seed_v1.dimensions, 1):
        assert f"{number}. {dimension.title} (0-5): {dimension.question}\n" in SEED_PROMPT


@pytest.mark.parametrize("name", ["default", "seed-v1"])
def test_shipped_rubrics_score_the_seven_dimensions_from_0_to_5(name):
    rubric = load_rubric(name)
    assert rubric.names == DIMENSIONS
    assert rubric.scale == (0, 5)
    assert rubric.name == name


def test_the_default_rubric_has_an_anchor_for_every_whole_score(default):
    for dimension in default.dimensions:
        assert list(dimension.anchors) == [0, 1, 2, 3, 4, 5]
        assert all(dimension.anchors.values())


def test_the_default_instructions_are_short_because_they_are_paid_for_every_time(default):
    from toolkit.models.tokens import count_tokens

    text = fill(default.instructions, {"criteria": "\n".join(d.line() for d in default.dimensions)})
    assert 250 <= count_tokens(text, "o200k_base") <= 420


def test_a_digest_is_stable_and_sees_every_change(default):
    assert default.digest == load_rubric("default").digest
    assert len(default.digest) == 64
    changed = [
        default.model_copy(update={"template": default.template + " "}),
        default.model_copy(update={"version": "other"}),
        default.model_copy(update={"asks_reasons": False}),
        default.model_copy(update={"dimensions": default.dimensions[::-1]}),
        default.model_copy(
            update={
                "dimensions": (
                    default.dimensions[0].model_copy(update={"anchors": {}}),
                    *default.dimensions[1:],
                )
            }
        ),
    ]
    assert len({default.digest, *(rubric.digest for rubric in changed)}) == 6


def test_what_is_put_in_is_never_read_as_a_placeholder():
    values = {"task": "{response_content}", "response_content": "{task} {nonce}", "nonce": "x"}
    assert fill("{task}|{response_content}", values) == "{response_content}|{task} {nonce}"


def test_braces_that_name_nothing_stay():
    assert fill('{\n  "clarity": 4.6\n} {unknown} {}', {"task": "x"}) == '{\n  "clarity": 4.6\n} {unknown} {}'


def test_a_rubric_of_ones_own_is_read_from_its_file(tmp_path, shipped_text, default):
    path = tmp_path / "mine.toml"
    path.write_text(shipped_text, encoding="utf-8")
    assert load_rubric(path) == default
    assert load_rubric(str(path)).digest == default.digest


def test_the_content_decides_the_digest_and_not_the_layout_of_the_file(tmp_path, shipped_text, default):
    path = tmp_path / "mine.toml"
    path.write_text("# another comment\n" + shipped_text.replace(" = ", "="), encoding="utf-8")
    assert load_rubric(path).digest == default.digest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("shows_task = true", "shows_task = true\ncolour = 1", "unknown key 'colour'"),
        ("shows_task = true", 'shows_task = "yes"', "shows_task: Input should be a valid boolean"),
        ('version = "2"', "version = 2", "version: Input should be a valid string"),
        ('version = "2"', "", "key 'version' is missing"),
        ("scale = [0, 5]", "scale = [1, 10]", "scale must be"),
        ('name = "clarity"', 'name = "beauty"', "must have each of these dimensions once"),
        ('name = "clarity"', 'name = "relevance"', "must have each of these dimensions once"),
        ('title = "Clarity"', 'title = "Clarity"\nweight = 2', "dimensions.7: unknown key 'weight'"),
        ('"unreadable", ', "", "dimensions.7: anchors must be six texts"),
        ('"unreadable"', "0", "dimensions.7.anchors.1: Input should be a valid string"),
        ("{response_content}", "", "template lacks {response_content}"),
        ("{task}", "", "template lacks {task}"),
        ("shows_task = true", "shows_task = false", "template cannot hold {task}"),
        ("<<<TASK {nonce}>>>", "{date}", "template cannot hold {date}"),
        ("{criteria}", "{criteria} {task}", "instructions cannot hold {task}"),
        ("scale = [0, 5]", "scale = [0, 5", "not valid TOML"),
    ],
)
def test_a_rubric_that_cannot_be_used_is_refused_in_one_line(tmp_path, shipped_text, old, new, said):
    assert old in shipped_text
    path = tmp_path / "mine.toml"
    path.write_text(shipped_text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_rubric(path)
    assert said in str(caught.value)
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value).replace("\\n", "")


def test_a_dimension_that_is_no_table_is_refused(tmp_path, shipped_text):
    path = tmp_path / "mine.toml"
    head = shipped_text.split("[[dimensions]]", maxsplit=1)[0]
    path.write_text(head + "\ndimensions = [3]\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"dimensions\.1: must be a table"):
        load_rubric(path)


def test_an_unknown_name_says_which_there_are():
    with pytest.raises(InputError, match="'seed-v9' is unknown: use default or seed-v1"):
        load_rubric("seed-v9")


def test_a_file_that_is_not_there_or_not_text_says_so(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        load_rubric(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        load_rubric(tmp_path / "binary.toml")
