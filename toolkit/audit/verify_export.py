"""Verify a folder of `toolkit export` with nothing else: no store, no network, no key.

The sums of its files and of the fields of its records say what was edited. Then the records are put into a temporary
store, the study is made again from its ledger there, and every file is written again and compared cell by cell: that
finds an edit whose sums were written again, too.
"""

import json
import math
import tempfile
from collections.abc import Collection, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

from toolkit.audit.export import DICTIONARY, STUDY_FOLDER, export_study, named_inputs
from toolkit.audit.verify import record_differences, verified
from toolkit.errors import InputError
from toolkit.files.reading import read_json, read_toml
from toolkit.files.tables import arrow_csv, csv_records
from toolkit.prompt_test import names_code
from toolkit.report.manifest import MANIFEST, differing_files
from toolkit.store.connection import temporary_store
from toolkit.store.frame_files import FORMATS, KINDS
from toolkit.store.record_files import differing_records, load_records
from toolkit.store.writer import is_as_sealed
from toolkit.study import Study
from toolkit.study_file import load_study_file
from toolkit.words import Summary, one_line

_CELL = 60  # signs of a cell that a line shows
_CLOSE = 1e-9
_MOST = 10_000_000  # rows


def verify_export(folder: Path) -> Summary:
    """Name every edited, added or missing file, record and cell of a folder that `toolkit export` wrote."""
    if not (folder / MANIFEST).is_file():
        message = f"holds no {MANIFEST}; name a study file, or a folder that `toolkit export` wrote"
        raise InputError(f"{folder}: {message}")
    lines, versions = differing_files(folder, "export"), None
    with tempfile.TemporaryDirectory() as name:
        workplace = Path(name)
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if not is_as_sealed(manifest):
                lines.append(f"{MANIFEST}: was changed after it was written")
            path = folder / STUDY_FOLDER / Path(manifest["inputs"]["study_file"]["name"]).name
            changed = [*differing_records(folder)]
            reason = "its records were changed" if changed else _foreign(path)
            lines += changed if reason else _made_again(folder, path, workplace)
            versions = manifest["versions"]
        except Exception as error:  # whatever edited records and study files lead to
            reason = one_line(str(error) or type(error).__name__, 200)
            lines.append("its frames cannot be made again from its records")
        lines += _differing_frames(folder, workplace / "again", lines, versions)
    differences = [f"{folder.name}/{line}" for line in dict.fromkeys(lines)]
    note = f"CSV and Parquet are compared with each other alone: {reason}" if reason else None
    text = f"{note}\n" if note else ""
    fields = {"export": folder.name, "note": note}
    return verified(differences, f"{text}export {folder.name}: ", "all as its records give", fields)


def _foreign(path: Path) -> str | None:
    """Return why a study is not made again: nothing outside of its folder is read, and no code in it is run."""
    content = read_toml(path)
    if names_code(content.get("test", "rubric_study"), content.get("options", {})):
        return f"the test or scorer of {path.name} is code of its own, which is not run"
    for name in named_inputs(path):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            return f"{path.name} names {name}, which is outside of its folder"
    return None


def _made_again(folder: Path, path: Path, workplace: Path) -> list[str]:
    """Return what differs in the records of a study, and write the export anew from them."""
    file, path = load_study_file(path)
    study = Study(file.model_copy(update={"output": workplace / "results" / "study"}), path)
    with temporary_store() as study.store:  # what is in the folder must not meet what is stored
        load_records(folder, study.store)
        differences = record_differences(study)
        export_study(study, workplace / "again")
        if (workplace / "again" / DICTIONARY).read_bytes() != (folder / DICTIONARY).read_bytes():
            differences.append(f"{DICTIONARY}: is not that of this study")
        return differences


def _differing_frames(folder: Path, again: Path, changed: Collection[str], versions: Any) -> Iterator[str]:
    """Yield every cell of the CSV and Parquet files that is not as in those made again, or else as in each other."""
    names = {line.partition(": ")[0] for line in changed}
    # Other versions of packages calculate the last digits of a number otherwise.
    own = again / MANIFEST
    is_exact = not own.is_file() or read_json(own)["versions"] == versions
    for kind in KINDS:
        files = [folder / f"{kind}{suffix}" for suffix in FORMATS if (folder / f"{kind}{suffix}").is_file()]
        source = again / f"{kind}.csv"
        if not source.is_file():
            source = min(files, key=lambda path: path.name in names, default=source)
        try:
            expected = _rows(source) if files else []
            for path in files:
                twin = again / path.name
                if path != source and not (twin.is_file() and twin.read_bytes() == path.read_bytes()):
                    exported = _rows(path, len(expected))
                    yield from _differing_cells(path.name, exported, expected, is_exact or path.name in names)
        except Exception as error:  # a damaged file of either format
            yield f"{kind}: is no whole table ({one_line(str(error), 200)})"


def _rows(path: Path, count: int = _MOST) -> list[list[str]]:
    """Return the rows of a file as texts; a Parquet file that claims to have many more than ``count`` is not read."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    content = path.read_bytes()
    if path.suffix == ".parquet":
        with parquet.ParquetFile(path) as file:
            if file.metadata.num_rows > 2 * count + 1000:
                raise InputError(f"{path.name} has {file.metadata.num_rows} rows")
            table = file.read()
        for number, field in enumerate(table.schema):
            if pa.types.is_dictionary(field.type):
                table = table.set_column(number, field.name, table[number].cast(pa.string()))
        content = arrow_csv(
            table, [field.name for field in table.schema if str(field.type).endswith("string")]
        )
    return [cells for _, cells in csv_records(path, content.decode())]


def _differing_cells(
    name: str, rows: list[list[str]], expected: list[list[str]], is_exact: bool
) -> Iterator[str]:
    """Yield a line for every cell that differs, with its row below the header and its column."""
    matcher = SequenceMatcher(None, [*map(tuple, rows)], [*map(tuple, expected)], autojunk=False)
    for _, start, end, first, last in (code for code in matcher.get_opcodes() if code[0] != "equal"):
        for number, row in zip_longest(range(start, end), range(first, last)):
            if row is None:
                yield f"{name}: row {number} is not among those of the records"
            elif number is None:
                yield f"{name}: row {row} of the records is missing"
            else:
                cells = zip_longest(expected[0], rows[number], expected[row], fillvalue="")
                for column, cell, value in cells:
                    if cell != value and (is_exact or not _are_close(cell, value)):
                        shown = f"{one_line(cell, _CELL)!r} and not {one_line(value, _CELL)!r}"
                        yield f"{name}: row {number}, column {column}: {shown}"


def _are_close(cell: str, value: str) -> bool:
    try:
        return math.isclose(float(cell), float(value), rel_tol=_CLOSE)
    except ValueError:
        return False
