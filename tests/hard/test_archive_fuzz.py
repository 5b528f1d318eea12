"""Damaged and forged archives: each is refused whole with one line, or imported whole; never half, no other error."""

from __future__ import annotations

import hashlib
import io
import json
import math
import random
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import mongoengine as me
import pytest
from small_study import finished_study

from toolkit.errors import InputError
from toolkit.store import embedded
from toolkit.store.archive import CONTENTS, KEYS, add_archive, check_archive, write_archive
from toolkit.store.connection import Store, open_store
from toolkit.store.documents import DOCUMENTS, fault_of

Members = list[tuple[str, bytes]]
WRONG: tuple[Any, ...] = (
    *(None, True, -1, 7, 2.5, "", "x", [], ["a"], {}, {"a": 1}, [[[]]], "\0", "‮"),
    *({"$numberLong": "9" * 25}, {"$numberDouble": "NaN"}, {"$numberDouble": "Infinity"}, {"$date": "x"}),
    *({"$oid": "1"}, {"$binary": {"base64": "AA==", "subType": "00"}}, {"$date": {"$numberLong": "1"}}),
    *(
        {"$where": "1"},
        {"a.b": 1},
        {"$set": 1},
        {"": 1},
        {"$regularExpression": {"pattern": "a", "options": ""}},
    ),
    *({"$minKey": 1}, {"$undefined": True}, {"$symbol": "a"}, {"$timestamp": {"t": 1, "i": 1}}),
    *({"$numberLong": str(2**63 - 1)}, {"$numberInt": "1"}, {"$numberDecimal": "1"}, {"$code": "x"}),
)


def members_of(whole: bytes) -> Members:
    """Return names and contents of what an archive holds."""
    with zipfile.ZipFile(io.BytesIO(whole)) as file:
        return [(name, file.read(name)) for name in file.namelist()]


def packed(members: Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return members as an archive, also where a name is there twice."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", method) as file:
        warnings.simplefilter("ignore")
        for name, content in members:
            file.writestr(name, content)
    return buffer.getvalue()


def summed(members: Members) -> Members:
    """Return members with sums and counts that are right again, as whoever knows how it is made would write them."""
    about = json.loads(dict(members)[CONTENTS])
    for name, content in members:
        part = about["parts"].get(name.removesuffix(".jsonl"))
        if part:
            part |= {"sha256": hashlib.sha256(content).hexdigest(), "documents": content.count(b"\n")}
    return [(name, json.dumps(about).encode() if name == CONTENTS else content) for name, content in members]


def of_bytes(whole: bytes, dice: random.Random) -> bytes:
    """Flip bits, cut, overwrite, put in or take out a piece."""
    content, where = bytearray(whole), dice.randrange(len(whole))
    if dice.random() < 0.4:  # where the table of contents is
        where = len(whole) - 1 - dice.randrange(900)
    match dice.randrange(5):
        case 0:
            for _ in range(dice.randint(1, 4)):
                content[(where + dice.randrange(40)) % len(content)] ^= 1 << dice.randrange(8)
        case 1:
            del content[where:]
        case 2:
            content[where : where + dice.randint(1, 60)] = dice.randbytes(dice.randint(0, 60))
        case 3:
            content += dice.randbytes(dice.randint(1, 2000))
        case _:
            content[0:0] = dice.randbytes(dice.randint(1, 2000))
    return bytes(content)


def of_members(whole: bytes, dice: random.Random) -> bytes:
    """Drop, double, rename, swap, empty or add members, also with names that lead out of the folder."""
    members = members_of(whole)
    at = dice.randrange(len(members))
    name, content = members[at]
    names = ("../x", "../../etc/passwd", "/tmp/x.jsonl", "C:\\x", "calls.JSONL", "owners.jsonl", "a" * 300)
    match dice.randrange(8):
        case 0:
            del members[at]
        case 1:
            members.append((name, content))
        case 2:
            members.append((name, content + b"\n"))
        case 3:
            members[at] = (dice.choice(names), content)
        case 4:
            other = dice.randrange(len(members))
            members[at], members[other] = (name, members[other][1]), (members[other][0], content)
        case 5:
            members[at] = (name, b"")
        case 6:
            members.append((dice.choice(names), b"x"))
        case _:
            members[at] = (name, bytes(dice.choice((10_000, 120_000_000))))
            members = summed(members) if name != CONTENTS else members
    return packed(members, dice.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2)))


def of_contents(whole: bytes, dice: random.Random) -> bytes:
    """Change what the archive says of itself: format, study, parts, sums and counts."""
    members = dict(members_of(whole))
    about = json.loads(members[CONTENTS])
    part = dice.choice(list(about["parts"]))
    place: Any = dice.choice((about, about["parts"], about["parts"][part]))
    key = dice.choice(list(place))
    if dice.random() < 0.3:
        del place[key]
    elif dice.random() < 0.2:
        place[dice.choice(("dreams", "owners", "../x"))] = place[key]
    else:
        place[key] = dice.choice((*WRONG, "0" * 64, 10**30, "other"))
    members[CONTENTS] = json.dumps(about).encode()
    return packed(list(members.items()))


def of_records(whole: bytes, dice: random.Random) -> bytes:
    """Change, drop, double, move or break single records, most often with sums that are right again."""
    members = dict(members_of(whole))
    name = dice.choice([name for name, content in members.items() if name != CONTENTS and content])
    lines = members[name].splitlines(keepends=True)
    at = dice.randrange(len(lines))
    document = json.loads(lines[at])
    inside = [value for value in document.values() if isinstance(value, dict) and value]
    place = dice.choice(inside) if inside and dice.random() < 0.3 else document
    field = dice.choice(list(place))
    no_records = (b"\n", b"[]\n", b"1\n", b"{}\n", b'{"_id": \n', b"\xff\n", b"[" * 9999 + b"\n")
    texts = [key for key, value in document.items() if isinstance(value, str) and len(value) > 40]
    match kind := dice.choice((*[0] * 6, 1, 1, 2, 3, 4, 5, 6, 7, 8)):
        case 0:
            place[field] = dice.choice(WRONG)
        case 1:
            del place[field]
        case 2:
            del lines[at]
        case 3:
            lines.insert(at, lines[at])
        case 4:
            document[field] = dice.choice(("other", 1, None))
            lines.append(json.dumps(document).encode() + b"\n")
        case 5:
            dice.shuffle(lines)
        case 6:
            lines[at] = dice.choice(no_records)
        case 7:
            place[dice.choice(("$set", "a.b", "", "\0", "é"))] = 1
        case _:
            document[[*texts, field][0]] = "another"
    if kind in (0, 1, 7, 8):
        lines[at] = json.dumps(document).encode() + b"\n"
    members[name] = b"".join(lines)
    changed = list(members.items())
    return packed(summed(changed) if dice.random() < 0.9 else changed)


KINDS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(of_bytes, of_members, of_contents),
    *(of_records, of_records, of_records),
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The archive of a finished study of six runs and eighteen judgements."""
    folder = tmp_path_factory.mktemp("home")
    with finished_study(folder) as study:
        write_archive(study.store, study.name, folder / "small.zip")
    return (folder / "small.zip").read_bytes()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with nothing in it."""
    folder = tmp_path_factory.mktemp("away") / ".store"
    store = open_store(folder)
    yield store
    store.close()
    embedded.stop(folder)


def counts_of(store: Store) -> dict[str, int]:
    """Return how many documents a store has of each collection."""
    return {name: store.database[name].count_documents({}) for name in KEYS}


def written_in(content: bytes) -> dict[str, int]:
    """Return how many records an archive holds of each collection, as its lines have them."""
    lines = {name.removesuffix(".jsonl"): text.count(b"\n") for name, text in members_of(content)}
    return {name: lines.get(name, 0) for name in KEYS}


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 500), marks=pytest.mark.full)], ids=("some", "rest")
)
def test_no_damaged_archive_is_imported_by_half(whole, empty, tmp_path, seeds) -> None:
    """Into an empty store, whose documents are counted before and after; what was imported is taken out again."""
    path, ended, wrong = tmp_path / "fuzzed.zip", Counter[str](), []
    nothing = dict.fromkeys(KEYS, 0)
    for seed in seeds:
        dice = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        path.write_bytes(kind(whole, dice))
        try:
            add_archive(empty, check_archive(path))
        except InputError as refused:
            ended["refused"] += 1
            right = "\n" not in str(refused) and counts_of(empty) == nothing
            said = f"{refused} {counts_of(empty)}"
        except Exception as error:
            right, said = False, f"{type(error).__name__}: {error}"
        else:
            ended["imported"] += 1
            right = counts_of(empty) == written_in(path.read_bytes())
            said = f"imported {counts_of(empty)}"
        if not right:
            wrong.append(f"{seed} {kind.__name__}: {said[:300]}")
        for name in KEYS:
            empty.database[name].delete_many({})
    assert not wrong, "\n".join([f"{len(wrong)} of {len(seeds)}", *wrong])
    assert ended["refused"] > len(seeds) / 2
    assert ended["imported"] > len(seeds) / 20


TABLES: dict[tuple[str, str], tuple[Any, tuple[Any, ...]]] = {
    **{
        (kind, "scores"): ({"clarity": 3.0, "relevance": None}, ({"clarity": 2e6}, {"clarity": "4"}, {"clarity": -2e6}))
        for kind in ("Run", "Judgement", "HumanRating", "Drift")
    },
    ("Judgement", "expected"): ({"clarity": 3.2}, ({"clarity": 2e6},)),
    ("Judgement", "expected_mass"): ({"clarity": 1.0}, ({"clarity": 1.1},)),
    ("Run", "judge_calls"): ({"primary": "c"}, ({"primary": 1},)),
    ("Run", "ensemble_evaluation"): (
        {"aggregated": {"mean_scores": {"clarity": 2.0}, "judge_count": 2, "judged": True}, "judge_results": {"a": {}}},
        (
            {"aggregated": {"mean_scores": {"clarity": 2e6}}}, {"aggregated": {"judge_count": "two"}},
            {"aggregated": []}, {"judge_results": {"a": {"scores": {"clarity": 2e6}}}}, {"judge_results": {"a": 1}},
        ),
    ),
    ("Call", "request"): (
        {"messages": [{"role": "user", "content": "x"}]}, ({}, {"messages": [1]}, {"messages": [{"role": 1}]}),
    ),
    ("Call", "failure"): ({"reason": "timeout", "message": "x"}, ({"reason": 1},)),
    ("Call", "attempts"): ([{"ms": 1.0, "outcome": "answered"}], ([1], [{"ms": "1"}], [{"ms": -1}], [{"outcome": 1}])),
    ("Anchor", "replies"): (
        [{"run_id": "r", "blob_id": "b", "calls": {"primary": "c"}}],
        ([{"run_id": "r"}], [1], [{"run_id": "r", "blob_id": "b", "calls": {"primary": 1}}]),
    ),
    ("Settlement", "calls"): ([{"call_id": "a", "aud": 1.0}], ([{}], [{"call_id": "a", "aud": "1"}])),
    ("Account", "grants"): ([{"owner": "a"}], ([{}], [1])),
    ("Prompt", "metadata"): ({"base_scenario": "b"}, ({"base_scenario": 1},)),
    ("OutputBlob", "metadata"): ({"content_length": 1}, ({"content_length": "1"}, {"fsp_sentences": [1]})),
}  # fmt: skip
"""Tables and lists of the documents: one that is right, and some that are not."""


def right(kind: str, field: Any) -> Any:
    """Return a value that a field takes."""
    if (kind, field.name) in TABLES:
        return TABLES[kind, field.name][0]
    match field:
        case me.EmbeddedDocumentField():
            inner = field.document_type
            return {name: right(inner.__name__, part) for name, part in inner._fields.items()}
        case me.ListField():
            return [right(kind, field.field)]
        case me.DictField():
            return {}
        case me.StringField():
            return field.choices[0] if field.choices else "a" * (field.min_length or 1)
        case me.BooleanField():
            return True
        case me.DateTimeField():
            return datetime(2026, 1, 1, tzinfo=UTC)
    return 1 if isinstance(field, me.IntField) else 1.0


def wrong(kind: str, field: Any) -> list[Any]:
    """Return values that a field does not take, out of its range, of another type, and null."""
    values: list[Any] = [] if field.null or isinstance(field, me.StringField) else [None]
    if isinstance(field, me.StringField) and field.required:
        values.append(None)
    values += TABLES[kind, field.name][1] if (kind, field.name) in TABLES else ()
    match field:
        case me.EmbeddedDocumentField():
            inner = field.document_type
            good = right(kind, field)
            parts = inner._fields.items()
            bad = [{**good, name: value} for name, part in parts for value in wrong(inner.__name__, part)]
            return [*values, 1, [], *bad]
        case me.ListField():
            return [*values, 1, {}, "x", *([bad] for bad in wrong(kind, field.field))]
        case me.DictField():
            return [*values, 1, [], "x"]
        case me.StringField():
            odd = ["x"] if field.choices else []
            return [*values, 1, [], {}, True, *odd, *(["a"] if field.min_length else [])]
        case me.BooleanField():
            return [*values, 2, "true", [], 0.5]
        case me.DateTimeField():
            return [*values, 1, "2026-01-01", {}]
    edges = [field.max_value * 2, field.min_value - 1 - abs(field.min_value)]
    return [*values, *edges, math.nan, math.inf, "1", [], True, *([0.5] * isinstance(field, me.IntField))]


@pytest.mark.parametrize("kind", DOCUMENTS, ids=lambda kind: kind.__name__)
def test_every_field_of_every_document_is_checked(kind: Any) -> None:
    """A right document passes; with any field out of its range, of another type or null it is refused by its name."""
    stored = kind._db_field_map
    fields = {stored[n]: f for n, f in kind._fields.items() if not isinstance(f, me.ObjectIdField)}
    whole = {name: right(kind.__name__, field) for name, field in fields.items()}
    assert fault_of(kind, whole) is None
    passed = [
        f"{name}: {value!r}"
        for name, field in fields.items()
        for value in wrong(kind.__name__, field)
        if not str(fault_of(kind, {**whole, name: value})).startswith(f"{name} ")
    ]
    assert not passed


@pytest.mark.parametrize(
    ("part", "field", "value", "reason"),
    [
        (
            "judgements",
            "scores",
            {"clarity": 5.5},
            "rubrics [0-9a-f]{40}: a judgement by it is off its scale",
        ),
        ("runs", "attempts", None, "attempts is missing, or not what it must be"),
        ("calls", "attempts", None, "attempts is missing, or not what it must be"),
    ],
)
def test_a_value_out_of_range_is_refused_at_import(whole, tmp_path, part, field, value, reason) -> None:
    """In one line that says what is wrong, though every sum is right."""
    members = dict(members_of(whole))
    lines = members[f"{part}.jsonl"].splitlines(keepends=True)
    lines[0] = json.dumps({**json.loads(lines[0]), field: value}).encode() + b"\n"
    members[f"{part}.jsonl"] = b"".join(lines)
    (tmp_path / "a.zip").write_bytes(packed(summed(list(members.items()))))
    with pytest.raises(InputError, match=reason) as error:
        check_archive(tmp_path / "a.zip")
    assert "\n" not in str(error.value)
