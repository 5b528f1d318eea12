"""Faults planted in a finished study, its figures and bundle: `toolkit verify` names each, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import UTC, datetime
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

import pytest
from cases import cases
from small_study import executed

from toolkit.audit.verify import verify_study
from toolkit.people.rating import next_reply, open_round, rate
from toolkit.store.record_files import KEYS
from toolkit.store.writer import sealed
from toolkit.study import Study
from toolkit.words import DIMENSIONS

pytestmark = pytest.mark.usefixtures("no_pictures")

PRICE = "usd_per_million_input = 2.0, usd_per_million_output = 8.0"
FILE = f"""
name = "planted"
scenarios = ["CTI_ANALYSIS"]
output = "results/planted"
models = [
  {{ name = "model-a", provider = "scripted", {PRICE}, planted = {{ level = 3.0, m_minus_s = 0.5 }} }},
  {{ name = "model-b", provider = "scripted", {PRICE}, planted = {{ level = 2.5 }} }},
]
[judges]
repair = false
primary = {{ name = "judge-a", provider = "scripted", {PRICE}, planted = {{}} }}
secondary = {{ name = "judge-b", provider = "scripted", {PRICE}, planted = {{ severity = 0.5 }} }}
[judges.tertiary]
name = "judge-c"
provider = "scripted"
usd_per_million_input = 2.0
usd_per_million_output = 8.0
structured = false
replies = ["I would rather not say.", '{json.dumps(dict.fromkeys(DIMENSIONS, 4.0) | {"reasons": ""})}']
"""
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Place(NamedTuple):
    """The study as it lies on the disk, and its documents as they were."""

    study: Study
    kept: Mapping[str, list[dict[str, Any]]]

    def repair(self, name):
        """Put the documents of a collection back as they were."""
        self.study.store.database[name].delete_many({})
        self.study.store.database[name].insert_many(self.kept[name])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Twelve runs, judged by three of whom one cannot always be read; one reply is rated by a person."""
    path = tmp_path_factory.mktemp("planted") / "planted.toml"
    path.write_text(FILE)
    with executed(path) as study:
        round_ = open_round(study.plan, study.store, "anna")
        reply = next_reply(round_)
        assert reply is not None
        rate(study.plan, study.store, round_, reply, dict.fromkeys(DIMENSIONS, 4.0), "Well said.")
        names = [kind._meta["collection"] for kind in KEYS]
        kept = {name: list(study.store.database[name].find({}, sort=[("_id", 1)])) for name in names}
        yield Place(study, kept)


Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def sets(**fields):
    """Return a change that gives fields of a document other values; ``a__b`` is a part of one."""

    def change(document):
        for name, value in fields.items():
            *above, last = name.split("__")
            place = reduce(getitem, above, document)
            place[last] = value(place[last]) if callable(value) else value
        return document

    return change


def gone(_):
    """Delete the document."""


def twice(document):
    """Add the run once more, as another test would have asked it."""
    del document["_id"]
    return document | {"run_id": "01JB0000000000000000000000", "test": "another"}


def resealed(change):
    """Make a change and seal the call again, as whoever knows the toolkit would."""
    return lambda document: sealed(change(document) or {})


CASES = cases(__file__)
IN_STORE = {
    **{fault: (*at, sets(**fields), said) for fault, (*at, fields, said) in CASES["fields"].items()},
    **{
        fault: (*at, resealed(sets(**fields)), said)
        for fault, (*at, fields, said) in CASES["sealed_again"].items()
    },
    **{fault: (*at, gone, said) for fault, (*at, said) in CASES["gone"].items()},
    "a score nudged": (
        "annotations",
        "scored",
        sets(scores__clarity=lambda score: score + 0.1),
        r"judgement .*: scores differ",
    ),
    "a mean nudged": (
        "runs",
        "run",
        sets(scores__clarity=lambda score: score + 0.1),
        r"run of .*: scores differ",
    ),
    "a judgement before its run": (
        "annotations",
        "scored",
        sets(created_at=LONG_AGO),
        r"judgement .*: created_at is before that of its run",
    ),
    "a run's moment": (
        "runs",
        "run",
        sets(created_at=LONG_AGO),
        r"run of .*: created_at is not the moment that its run id has",
    ),
    "a run doubled": ("runs", "run", twice, r"run of .*, repeat 0: is there twice"),
}
"""Of each fault: the collection, which document of it, what is done to it, and the line that names it."""

QUICK = ("a zero for a failed judge", "a judgement deleted", "a run's cost", "a person's score")
"""Of money, of what is lost and of what is a zero that is none; `make test-all` has every collection."""
assert set(QUICK) < IN_STORE.keys()


def test_a_clean_study_has_no_difference(place):
    assert verify_study(place.study).fields["differences"] == []


@pytest.mark.parametrize("fault", dict.fromkeys([*QUICK, *IN_STORE]))
def test_a_fault_in_the_store_is_named(place, fault):
    """One document is changed, taken away or doubled; the line says which and in what, and it is put back."""
    name, where, change, said = IN_STORE[fault]
    documents = place.study.store.database[name]
    found = documents.find_one(CASES["which"][where])
    changed = change(deepcopy(found))
    if changed is None:
        documents.delete_one({"_id": found["_id"]})
    elif "_id" in changed:
        documents.replace_one({"_id": found["_id"]}, changed)
    else:
        documents.insert_one(changed)
    try:
        differences = verify_study(place.study).fields["differences"]
    finally:
        place.repair(name)
    assert any(re.match(said, line) for line in differences), differences


def test_a_price_that_was_changed_is_one_line_a_model(place):
    """In the study file: what was paid is not what it would cost now."""
    dearer = place.study.path.with_name("dearer.toml")
    at, model_b = PRICE.replace("8.0", "9.0"), "planted = { level = 2.5"
    dearer.write_text(FILE.replace(f"{PRICE}, {model_b}", f"{at}, {model_b}"))
    with Study.load(dearer) as study:
        assert verify_study(study).fields["differences"] == [
            "calls of model-b: none of 6 cost its tokens at the price that the model has now"
        ]


def test_faults_in_files_are_named(place):
    """Figures, tables and bundle without a difference; then every fault at once, each with its own line.

    Without a change the file is taken away, and one that is not there comes.
    """
    study = place.study
    study.figures()
    study.bundle(supplement=True)
    assert verify_study(study).fields["differences"] == []
    runs = study.store.database["runs"]
    runs.update_one({"_id": place.kept["runs"][0]["_id"]}, {"$set": {"dataset_version": "2099.1"}})
    told = verify_study(study).fields["differences"]
    place.repair("runs")
    assert [line for line in told if "dataset_version differ" in line]
    assert [line for line in told if line.startswith("figures and tables cannot be made")]
    (study.output / "bundle" / "bundle.log").write_text("What LaTeX makes of it is no difference.")
    faults = CASES["files"]
    for name, change, _ in faults.values():
        path = study.output / name
        before = path.read_text("latin-1") if path.exists() else ""
        if change is None:
            path.unlink()
        else:
            path.write_text(re.sub(*CASES["changes"][change], before), "latin-1")
    differences = verify_study(study).fields["differences"]
    for fault, (name, _, said) in faults.items():
        where = rf"{re.escape(name)}: ({re.escape(said)}|.*{re.escape(said)})"
        assert any(re.match(where, line) for line in differences), (fault, differences)
    assert {line.split(": ")[0] for line in differences} <= {name for name, _, _ in faults.values()}
