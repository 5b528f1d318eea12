"""Tables as files: all CSV is written here, and all tables of people are read here.

A spreadsheet takes a text that begins with ``=``, ``+``, ``-`` or ``@`` for a formula and runs it, and replies, names
of models and captures are chosen by strangers. Such a text, and one that begins with a tab, a line end, NUL or an
apostrophe, gets an apostrophe in front, which spreadsheets take for "this is text"; reading takes it away again.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.files.hub import is_hub, read_hub
from toolkit.files.reading import (
    DAMAGED_ZIP,
    distinct_keys,
    member_size,
    parsed,
    read_json,
    read_text,
    similar_file,
)
from toolkit.words import one_line, visible_name

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]

ROW_FILES = (".csv", ".tsv", ".xlsx", ".jsonl")
# The wide signs too, which some spreadsheets take for the others, and NUL, which some leave out.
_RISKY = "=+-@\t\r\n\x00＝＋－＠'"
_CLASS = "[" + "".join(rf"\x{ord(sign):02x}" if sign < "\x7f" else sign for sign in _RISKY) + "]"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
"""What people and programs write, in small letters, where there is no score."""
_SEPARATORS = (",", ";", "\t")
_SEP_LINE = re.compile(r'"?sep=(.)"?\r?\n?', re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_CUT = 200


def guard(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] and text[0] in _RISKY else text


def unguard(text: str) -> str:
    """Return the text that ``guard`` was called with."""
    return text[1:] if text[:1] == "'" and text[1:2] and text[1] in _RISKY else text


def number_of(text: str) -> float | None:
    """Return what people write as a number; Python's float also takes ``1_0`` and full-width digits: slips."""
    return float(text) if _NUMBER.fullmatch(text) else None


def usual_columns(names: Iterable[str], usual: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the columns that have a usual name of each role, whatever their capitals, the plainest name first."""
    plain = {name: visible_name(name).casefold() for name in names}
    return {
        role: sorted(
            (name for name in plain if plain[name] in known), key=lambda name: known.index(plain[name])
        )
        for role, known in usual.items()
    }


def csv_bytes(frame: pd.DataFrame) -> bytes:
    """Return a frame as UTF-8 CSV with the same line ends on every system; no cell and no name is a formula."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    def cell(value: Any) -> Any:
        # Texts, and whatever else is written as its text: a list or a path begins as its text does.
        return value if value is None or isinstance(value, Number) else guard(str(value))

    safe = frame.copy()
    for column, dtype in enumerate(frame.dtypes):
        if not (is_numeric_dtype(dtype) or is_bool_dtype(dtype)):
            cells = frame.iloc[:, column].astype(object).map(cell, na_action="ignore")
            safe.isetitem(column, cells.to_list())
    safe.columns = [guard(str(name)) for name in frame.columns]
    sink = _Lines()
    safe.to_csv(sink, index=False, lineterminator="\r\n")
    # A lone surrogate, which JSON may hold, has no UTF-8: it is written as the escape that it came as.
    return sink.getvalue().encode(errors="backslashreplace")


class _Lines(io.StringIO):
    """Rows that end in a line feed; a writer told so would leave a carriage return in a cell unquoted."""

    def __init__(self) -> None:
        super().__init__(newline="")

    def write(self, row: str) -> int:
        return super().write(row.removesuffix("\r\n") + "\n")


def frame_of_csv(path: Path | str) -> pd.DataFrame:
    """Return a CSV file that the toolkit wrote as a frame, its texts as they were."""
    import pandas as pd

    frame = pd.read_csv(path).rename(columns=unguard)
    texts = frame.select_dtypes(["object", "str"])
    for name in texts:
        frame[name] = texts[name].map(unguard, na_action="ignore")
    return frame


def csv_text(rows: Iterable[Sequence[str]], texts: Collection[int]) -> str:
    """Return rows of cells as CSV; those in the columns at `texts` are guarded, the others are numbers."""
    sink = _Lines()
    lines = csv.writer(sink, lineterminator="\r\n")
    lines.writerows([guard(cell) if at in texts else cell for at, cell in enumerate(row)] for row in rows)
    return sink.getvalue()


def arrow_csv(table: pa.Table, texts: Sequence[str]) -> bytes:
    """Return a table of pyarrow as CSV, floats to the last bit and a missing text apart from an empty one."""
    from pyarrow import compute
    from pyarrow import csv as arrow

    for name in texts:
        changed = compute.replace_substring_regex(table[name], pattern=rf"\A({_CLASS})", replacement=r"'\1")
        table = table.set_column(table.column_names.index(name), name, changed)
    buffer = io.BytesIO()
    arrow.write_csv(table, buffer)
    return buffer.getvalue()


def table_rows(source: str | Path) -> tuple[str, list[tuple[int, dict[str, Any]]]]:
    """Return the name of a table, with its commit at the hub, and its rows, each with its line or number in a list."""
    if is_hub(source):
        name, rows = read_hub(str(source))
        return name, list(enumerate(rows, 1))
    path = Path(source)
    if path.suffix.lower() in ROW_FILES:
        return path.name, list(read_rows(path))
    if path.suffix.lower() != ".json":
        raise InputError(
            f"{path}: is no table that is read (.json, {', '.join(ROW_FILES)}); save it as one of them"
        )
    content = read_json(path)
    if isinstance(content, Mapping):
        lists = [
            name
            for name, part in content.items()
            if isinstance(part, list) and isinstance((part or [0])[0], Mapping)
        ]
        if len(lists) > 1:
            raise InputError(f"{path}: has lists of objects in {', '.join(lists)}; a table is one of them")
        content = content[lists[0]] if lists else None
    if not isinstance(content, list) or not all(isinstance(row, Mapping) for row in content):
        raise InputError(f"{path}: is no list of objects; a table has an object for each row")
    return path.name, list(enumerate(content, 1))


def read_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line and cells of each row: of CSV, TSV or Excel with a header, else of a file with one JSON object a line.

    Not by pandas, which fills short rows and renames doubled columns without a word, and knows no line of a cell.
    """
    return _tabled(path) if path.suffix.lower() in (".csv", ".tsv", ".xlsx") else _json_rows(path)


def read_texts(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line and cells, as texts without blanks around them, of each row below the header of a table."""
    for line, row in _tabled(path):
        yield line, {name: "" if cell is None else str(cell).strip() for name, cell in row.items()}


def _tabled(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    records = read_records(path)
    columns = next(records, (1, []))[1]
    for line, cells in records:
        yield line, dict(zip(columns, cells, strict=True))


def read_records(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the header of a table and its rows, each with its line, its cells as many as the header has.

    Rows without a cell are left out, and so are columns without name and cells: spreadsheets write both. Texts of CSV
    are separated by what a line ``sep=`` says, else by what the header has most of: commas, semicolons or tabs.
    """
    excel = path.suffix.lower() == ".xlsx"
    records = _excel_records(path) if excel else csv_records(path, table_text(path))
    nothing = (None, "")
    header: list[str] = []
    named = []
    for line, record in records:
        # One look at the first sign, and a look at all cells only where they may be empty: tables have 200,000 rows.
        cells = [unguard(cell) if isinstance(cell, str) and cell[:1] == "'" else cell for cell in record]
        if not any(cells) and all(cell in nothing for cell in cells):
            continue
        if not header:
            header = ["" if cell is None else visible_name(str(cell)) for cell in cells]
            if twice := [name for name, count in Counter(header).items() if name and count > 1]:
                raise InputError(
                    f"{path}, line {line}, column {one_line(twice[0], 80)!r}: is there twice; name each column once"
                )
            named = [at for at, name in enumerate(header) if name.strip() or at == 0]
            yield line, [header[at] for at in named]
            continue
        cells += [None] * (len(header) - len(cells)) if excel else []
        if len(cells) != len(header) and (
            len(cells) < len(header) or any(cell not in nothing for cell in cells[len(header) :])
        ):
            raise InputError(
                f"{path}, line {line}: has {len(cells)} cells where the header has {len(header)}; write 4.5 with a "
                "point, and put text that holds a comma between quotes"
            )
        if len(named) < len(header) and (
            odd := [cells[at] for at in {*range(len(header))}.difference(named) if cells[at] not in nothing]
        ):
            raise InputError(
                f"{path}, line {line}: {one_line(str(odd[0]), 80)!r} stands in a column without a name; name it in "
                "the header"
            )
        yield line, [cells[at] for at in named]


def table_text(path: Path) -> str:
    """Return the text of a table, perhaps in UTF-16; without the mark of UTF-16 it is refused."""
    text = read_text(path, wide=True)
    if text[:_CUT].count("\0") * 3 > len(text[:_CUT]):
        raise InputError(f"{path}: its first line is not UTF-8; save the file as UTF-8")
    return text


def csv_records(path: Path, text: str) -> Iterator[tuple[int, list[Any]]]:
    """Yield every record of CSV with its line, its cells as they stand in the file."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a reply may have over 131,072 signs
    skipped, start = 0, text.lstrip("\r\n")
    if stated := _SEP_LINE.match(start):
        separator, skipped = stated[1], stated.end()
    else:
        header = re.sub(r'"[^"]*"', "", start.partition("\n")[0])
        separator = max(_SEPARATORS, key=header.count)
    skipped += len(text) - len(start)
    before = text[:skipped].count("\n")
    line = before + 1
    try:
        reader = csv.reader(io.StringIO(text[skipped:], newline=""), delimiter=separator, strict=True)
        for cells in reader:
            yield line, cells
            line = before + reader.line_num + 1
    except (csv.Error, TypeError, ValueError) as error:  # the last two: a separator that no CSV has
        raise InputError(f"{path}, line {line}: is not valid CSV ({error}); correct the row") from None


def _excel_records(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of the one sheet of a workbook that has any, as Excel last calculated them."""
    try:
        import openpyxl  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise InputError(
            f"{path}: Excel files need openpyxl: pip install 'llm-security-toolkit[excel]', or save it as CSV"
        ) from None

    def load_rows(*, values: bool) -> dict[str, list[tuple[int, list[Any]]]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and extensions that are not read
            book = openpyxl.load_workbook(path, read_only=True, data_only=values)
            sheets = {}
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # some programs write wrong ones
                rows = enumerate(sheet.iter_rows(values_only=True), 1)
                sheets[sheet.title] = [(line, list(cells)) for line, cells in rows if set(cells) - {None}]
            book.close()
        return {title: rows for title, rows in sheets.items() if rows}

    try:
        with zipfile.ZipFile(path) as file:
            for name in file.namelist():
                member_size(file, name)
        sheets, formulas = load_rows(values=True), load_rows(values=False)
    except FileNotFoundError:
        raise InputError(
            f"{path}: cannot be read: there is no such file; {similar_file(path)}check the path"
        ) from None
    except (*DAMAGED_ZIP, SyntaxError) as error:  # of XML: a ParseError is a SyntaxError
        raise InputError(
            f"{path}: cannot be read as Excel ({one_line(str(error), _CUT)}); save it as .xlsx or CSV, without a "
            "password"
        ) from None
    if len(formulas) > 1:
        raise InputError(
            f"{path}: has several sheets ({', '.join(formulas)}); save the one to be read as a file of its own"
        )
    calculated = {line: cells for rows in sheets.values() for line, cells in rows}
    for line, cells in next(iter(formulas.values()), []):
        results = calculated.get(line, [None] * len(cells))
        for at, cell in enumerate(cells):
            if isinstance(cell, str) and cell[:1] == "=" and results[at] is None:
                raise InputError(
                    f"{path}, line {line}: {one_line(cell, 80)} was not calculated; save it again with Excel"
                )
        yield line, results


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    # Not splitlines: JSON text may hold U+2028, which splitlines takes for the end of a line.
    for line, written in enumerate(table_text(path).split("\n"), start=1):
        if not written.strip():
            continue
        try:
            row = parsed(json.loads, written, object_pairs_hook=distinct_keys)
        except ValueError as error:
            raise InputError(
                f"{path}, line {line}: is not valid JSON ({one_line(str(error), _CUT)}); one object a line"
            ) from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {line}: is no JSON object; write one object a line")
        yield line, row
