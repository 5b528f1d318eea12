"""What somebody who wrote the seeds types first runs as it stands there: items, formulas, documents, result types."""

import inspect
import json
import re
from datetime import datetime

import pytest
from bson import json_util
from cases import cases
from places import TEMPLATES

import toolkit
from toolkit import OutputBlob, Prompt, PromptWithContext, Run, prompt_test, scoring
from toolkit.errors import InputError
from toolkit.prompt_test import PromptReply, TestItemAnnotations, find_test
from toolkit.store import documents

SEED = cases(__file__)
FORMULAS = (
    "calculate_composite_score", "aggregate_ensemble_scores", "calculate_ci", "calculate_efficiency",
    "analyze_length_bias", "one_shot_score",
)  # fmt: skip


@pytest.mark.parametrize("prompt", ["Alice is a", None, 5, Prompt(), prompt_test.Prompt(5)])
def test_what_is_no_prompt_with_a_text_is_one_line(prompt):
    with pytest.raises(InputError, match=r"^[^\n]*is no Prompt; write PromptWithContext\(Prompt\(text\)\)$"):
        PromptWithContext(prompt)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_is_imported_by_the_name_of_the_seed_with_help(name):
    formula = getattr(toolkit, name)
    assert formula is getattr(scoring, name)
    assert name in dir(toolkit)
    headings = set(re.findall(r"^(\w+)\n-+$", inspect.getdoc(formula), re.MULTILINE))
    assert headings >= {"Parameters", "Returns", "Raises", "Examples"}


FORMS = {"plain": r'"\2"', "extended": r'{"$\1": "\2"}'}


def printed(kind, form="plain"):
    """Return a document of seed 002 as JSON: with plain strings, or in the extended JSON of MongoDB."""
    text = SEED[kind].replace("{ /* 7-dimension scores */ }", '{"clarity": 4.6, "relevance": null}')
    if form == "extended":
        text = text.replace('ObjectId("...")', f'ObjectId("{"65a0c0ff" * 3}")')
    text = text.replace("ObjectId", "oid").replace("ISODate", "date")
    return re.sub(r'\b(oid|date)\("(.*?)"\)', FORMS[form], text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["Prompt", "Run", "OutputBlob"])
def test_a_document_of_the_seed_is_read_with_every_field(kind, form):
    """By its name, with its value; times are times; saved and read again it is the same."""
    text = printed(kind, form)
    document = getattr(toolkit, kind).from_json(text)
    stored = document.to_mongo().to_dict()
    fields = json.loads(printed(kind))
    assert (stored.pop("_id", None) is not None) == (form == "extended")
    for name in ("created_at", "updated_at"):
        if name in fields:
            assert getattr(document, name) == datetime.fromisoformat(fields[name])
            fields[name] = stored[name]
    del fields["_id"]
    for name, value in fields.items():
        held = {part: stored[name][part] for part in value} if isinstance(value, dict) else stored[name]
        assert held == value, name
    assert getattr(toolkit, kind).from_json(json_util.dumps(stored)).to_mongo() == stored


@pytest.mark.parametrize(("kind", "change", "says"), SEED["faults"])
def test_a_wrong_field_is_one_clear_line(kind, change, says):
    """Unknown, missing, of another type, not among the choices, no time; no object at all."""
    changed = change if isinstance(change, str) else json.dumps(json.loads(printed(kind)) | change)
    with pytest.raises(InputError) as caught:
        getattr(toolkit, kind).from_json(changed)
    assert str(caught.value).startswith(kind)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_document_of_a_store_is_read_from_its_json(study):
    """What mongoexport writes of a study that was run here."""
    for document in (documents.Prompt, Run, OutputBlob):
        stored = study.store.get(document, {})
        read = document.from_json(json_util.dumps(stored)).to_mongo()
        assert {name: read.get(name) for name in stored} == stored


@pytest.mark.parametrize(("texts", "counts"), cases(__file__, "test_typed_as_in_seeds.json")["counts"])
def test_a_refusal_is_counted_and_is_no_stereotype(texts, counts):
    test = find_test("stereotypes.py:Stereotypes", TEMPLATES)()
    hospital = test.make_test_items()[0]
    replies = [
        PromptReply(prompt, text, "run", "m", failure=None if text else "timeout")
        for prompt, text in zip(hospital.prompts, texts, strict=True)
    ]
    names = ("gender_stereotype_count", "refuse_to_answer_count")
    measured = test.measure_quality(TestItemAnnotations(hospital, tuple(replies)))
    assert [(number.name, number.value) for number in measured] == list(zip(names, counts, strict=True))
