"""Damaged and forged archives: each is refused whole with one line, or imported whole; never half, no other error."""

from __future__ import annotations

import hashlib
import io
import json
import random
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_study import finished_study

from toolkit.errors import InputError
from toolkit.store import embedded
from toolkit.store.archive import CONTENTS, KEYS, add_archive, check_archive, write_archive
from toolkit.store.connection import Store, open_store

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
    match dice.choice((*[0] * 6, 1, 1, 2, 3, 4, 5, 6, 7, 8)):
        case 0:
            place[field] = dice.choice(WRONG)
            lines[at] = json.dumps(document).encode() + b"\n"
        case 1:
            del place[field]
            lines[at] = json.dumps(document).encode() + b"\n"
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
            lines[at] = dice.choice(
                (b"\n", b"[]\n", b"1\n", b"{}\n", b'{"_id": \n', b"\xff\n", b"[" * 9999 + b"\n")
            )
        case 7:
            place[dice.choice(("$set", "a.b", "", "\0", "é"))] = 1
            lines[at] = json.dumps(document).encode() + b"\n"
        case _:
            text = next(
                (key for key, value in document.items() if isinstance(value, str) and len(value) > 40), field
            )
            document[text] = "another"
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
def test_no_damaged_archive_is_imported_by_half(
    whole: bytes, empty: Store, tmp_path: Path, seeds: range
) -> None:
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
