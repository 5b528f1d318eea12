"""Odd files of scores: each is read, or refused by one line that names the file; nothing else comes out."""

import io
import json
import random
import zipfile
from collections import Counter

import pandas as pd
import pytest
from cases import FULL
from openpyxl import Workbook
from test_score_files import FOREIGN

from toolkit import Scores
from toolkit.errors import InputError

ODD = (
    *(None, True, -1, 0.5, 10**310, -(10**400), 1e308, float("nan"), float("inf"), 2**63, ""),
    *("x", " ", "1_0", "４", "٣", "1e999", "0x10", "\ud800", "a\nb", "\0", "=1+1", "x" * 200_000, "nan"),
    *([], ["a"], [[]], {}, {"a": 1}, {"value": [1]}, [None], "C", "85%", "1,5", "1,234"),
)


def changed(value, rng):
    """Return JSON with something in it replaced, taken out or put in; the deeper, the more often."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {name: inner for name, inner in value.items() if name != key}
        if rng.random() < 0.1:
            return {**value, rng.choice([key.upper(), f" {key}", "", "base", "composite"]): rng.choice(ODD)}
        return {**value, key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        return [*value[:at], changed(value[at], rng), *value[at + 1 :]]
    return rng.choice(ODD)


def damaged(content, rng):
    """Flip, cut, double or put in bytes."""
    at = rng.randrange(len(content))
    piece = rng.choice((b'"', b"\0", b"\xff", b",,", b"\r", b"[" * 100_000, rng.randbytes(9), content[:at]))
    return rng.choice(
        (content[:at], content[:at] + piece + content[at:], content[:at] + piece + content[at + 9 :])
    )


def rows_of(rng):
    """Return a small table of scores, most often with a few odd values in it."""
    rows = [
        {"item": f"i{i}", "judge": judge, "dimension": part, "score": (i * 7 + len(judge)) % 5, "repeat": 0}
        for i in range(4)
        for judge in ("a", "bb")
        for part in ("x", "y")
    ]
    for _ in range(rng.randrange(3)):
        rows = changed(rows, rng)
        rows = rows if isinstance(rows, list) else [rows]
    return rows


def text_of(value):
    """Return a cell of a spreadsheet."""
    return "" if value is None else str(value).encode(errors="replace").decode()


def cells_of(rng):
    """Return header and cells of a table; some rows may be short, and names of columns doubled."""
    rows = [row if isinstance(row, dict) else {"item": row} for row in rows_of(rng)]
    names = list(dict.fromkeys(name for row in rows for name in row)) or ["item"]
    if rng.random() < 0.2:
        names[rng.randrange(len(names))] = rng.choice(["Score", "score ", "item", "", "_line", "score"])
    cells = [names, *([text_of(row.get(name)) for name in names] for row in rows)]
    if rng.random() < 0.2:
        cells[rng.randrange(len(cells))] = cells[-1][:-1]
    return cells


def csv_file(rng):
    """Return CSV with any separator, quoting, encoding and line ends."""
    separator = rng.choice(",,;\t|")
    quoted = [
        ['"' + cell.replace('"', '""') + '"' if rng.random() < 0.3 else cell for cell in row]
        for row in cells_of(rng)
    ]
    text = rng.choice(("\n", "\r\n", "\r")).join(separator.join(row) for row in quoted)
    text = rng.choice(("", "", "", f"sep={separator}\n", "sep=\n", "\n\n")) + text
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp500")), "replace")


def excel_file(rng):
    """Return a workbook, now and then with a formula or a second sheet."""
    book, sink = Workbook(), io.BytesIO()
    for row in cells_of(rng):
        clean = ["".join(sign for sign in cell if sign.isprintable())[:32_000] for cell in row]
        book.active.append([float(cell) if cell.isdecimal() and cell.isascii() else cell for cell in clean])
    if rng.random() < 0.2:
        book.create_sheet("more").append(["x"])
    book.save(sink)
    return sink.getvalue()


def parquet_file(rng):
    """Return Parquet of one column of odd values among plain ones."""
    frame = pd.DataFrame([("a", "j", 1.0), ("b", "j", 2.0)], columns=["item", "judge", "score"])
    odd = rng.choice([b"4", True, 10**18, "1_0", "x", 1e300, [1], {"a": 1}, pd.Timestamp(0), None])
    column = rng.choice(list(frame))
    frame = frame.assign(**{column: pd.Series([odd, odd], dtype="object")})
    if rng.random() < 0.2:
        frame = frame.set_index(rng.choice(list(frame)))
    return frame.to_parquet()


def doubled(text, rng):
    """Return JSON text in which now and then a key stands twice."""
    return text.replace('"score":', '"score": 1, "score":', 1) if rng.random() < 0.15 else text


def json_lines(rng):
    """Return rows as JSON lines."""
    return doubled("\n".join(json.dumps(row) for row in rows_of(rng)), rng).encode()


def json_list(rng):
    """Return rows as a JSON list."""
    return doubled(json.dumps(rows_of(rng)), rng).encode()


def promptfoo(rng):
    """Return results of promptfoo with something changed."""
    rows = [
        {"testIdx": i, "promptIdx": 0, "provider": {"id": name}, "score": i % 2, "gradingResult": {"pass": True}}
        for i in range(3)
        for name in ("a", "b")
    ]  # fmt: skip
    return json.dumps(changed({"results": {"version": 3, "results": rows}}, rng)).encode()


def inspect_json(rng):
    """Return a log of inspect_ai with something changed."""
    log = json.loads((FOREIGN / "inspect_sums.json").read_text())
    whole = {"status": log["status"], "eval": log["eval"], "samples": log["samples"]}
    inside = {**whole, "samples": changed(whole["samples"], rng)}
    return json.dumps(inside if rng.random() < 0.7 else changed(whole, rng)).encode()


def inspect_zip(rng):
    """Return a packed log with a member changed, encrypted, or of a size that it has not."""
    log, sink = json.loads((FOREIGN / "inspect_sums.json").read_text()), io.BytesIO()
    with zipfile.ZipFile(
        sink, "w", rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA))
    ) as file:
        file.writestr(
            "header.json", json.dumps({"eval": log["eval"]} if rng.random() < 0.8 else changed(log, rng))
        )
        for at, sample in enumerate(log["samples"]):
            odd = rng.random() < 0.2
            file.writestr(f"samples/{at}.json", json.dumps(changed(sample, rng) if odd else sample))
    content = bytearray(sink.getvalue())
    if rng.random() < 0.3:
        entry = content.index(b"PK\x01\x02")
        content[entry + rng.choice((8, 10, 24, 27))] ^= rng.choice((1, 64))
    return bytes(content)


def lm_eval(rng):
    """Return samples of lm-eval with something changed."""
    rows = [
        {"doc_id": i, "doc": {}, "filter": "none", "metrics": ["acc"], "acc": float(i % 2)} for i in range(4)
    ]
    rows = changed(rows, rng)
    return "\n".join(json.dumps(row) for row in (rows if isinstance(rows, list) else [rows])).encode()


FORMATS = {
    "a.csv": csv_file, "b.xlsx": excel_file, "c.parquet": parquet_file, "d.jsonl": json_lines, "e.json": json_list,
    "f.json": promptfoo, "g.json": inspect_json, "h.eval": inspect_zip, "samples_i_1.jsonl": lm_eval, "j.tsv": csv_file,
}  # fmt: skip


@pytest.mark.parametrize("seeds", [range(12), FULL(range(12, 250))], ids=("some", "rest"))
@pytest.mark.parametrize("name", FORMATS)
def test_an_odd_file_is_read_or_refused_by_one_line(tmp_path, name, seeds):
    """Whatever stands in it: the line names the file, and no value of it makes it long."""
    ends = Counter()
    wrong = []
    for seed in seeds:
        rng = random.Random(f"{name} {seed}")
        content = FORMATS[name](rng)
        content = damaged(content, rng) if content and rng.random() < 0.15 else content
        (tmp_path / name).write_bytes(content)
        try:
            assert Scores.load(tmp_path / name).summary().text
            ends["read"] += 1
        except InputError as error:
            ends["refused"] += 1
            line = str(error)
            if "\n" in line or "\r" in line or len(line) > 1500 or name not in line:
                wrong.append(f"seed {seed}: {line[:300]}")
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)
    assert ends["read"]
    assert ends["refused"]
