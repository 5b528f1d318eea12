"""Write a dataset as it is published: python scripts/publish_dataset.py DATASET FOLDER.

Tables, licence, datasheet, and Croissant metadata that name each file.

Croissant (Akhtar et al. 2024, Croissant: A Metadata Format for ML-Ready Datasets, NeurIPS) is JSON-LD of schema.org
with the files, their SHA-256 and the columns that are read from them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from toolkit.errors import InputError
from toolkit.files.reading import read_json, read_toml
from toolkit.files.tables import csv_bytes
from toolkit.files.writing import write_atomically
from toolkit.prompts.dataset import SHIPPED, Dataset, load_dataset

_HERE = Path(__file__).resolve().parent
_DATA = _HERE.parent / "toolkit" / "prompts" / "data"
_LICENCE = "https://creativecommons.org/licenses/by/4.0/"
_CONTEXT = read_json(_HERE / "croissant_context.json")
_ASKS = {
    "DATASHEET.md": "say there who wrote the bases, how, and what for",
    "LICENSE": "put there on what terms others may use them",
}
_TYPES = {"tokens": "sc:Integer", "number": "sc:Integer"}
_TABLES: Mapping[str, Mapping[str, str]] = read_toml(_HERE / "published.toml")
"""Tables of a published dataset: column and description."""


def publish_dataset(source: str | Path, folder: Path) -> list[Path]:
    """Write tables, licence, datasheet and Croissant metadata of a dataset into a folder.

    A folder of bases has ``DATASHEET.md`` and ``LICENSE`` beside its bases: who wrote it, how, and for whom, cannot be
    made up. The datasets that ship have the licence CC-BY-4.0.
    """
    dataset = load_dataset(source, length_arms=True)
    documents = _documents(source)
    contents = {f"{name}.csv": table for name in _TABLES if (table := _table(dataset, name))} | documents
    title = documents["LICENSE"].decode().split("\n", 1)[0].strip()
    croissant = metadata(dataset, contents, _LICENCE if str(source) in SHIPPED else title)
    # The metadata first: a folder that was written in part is known by them.
    files = {"croissant.json": json.dumps(croissant, indent=2, ensure_ascii=False).encode()} | contents
    _check_place(folder, dataset.name)
    return [write_atomically(folder / name, content) for name, content in files.items()]


def _check_place(folder: Path, name: str) -> None:
    """Make sure that a folder is empty, or has an earlier publication of the dataset."""
    path = folder / "croissant.json"
    present = sorted(folder.iterdir()) if folder.is_dir() else [folder] if folder.exists() else []
    published = read_json(path) if path.is_file() else None
    if present and not (isinstance(published, dict) and published.get("name") == name):
        message = f"has files that are not of dataset {name}, such as {present[0].name}"
        raise InputError(f"{folder}: {message}; name an empty or a new folder")


def metadata(dataset: Dataset, contents: dict[str, bytes], licence: str) -> dict[str, Any]:
    """Return the Croissant metadata of a dataset and the content of its files."""
    files = [
        {
            "@type": "cr:FileObject", "@id": name, "name": name, "contentUrl": name,
            "encodingFormat": "text/csv" if name.endswith(".csv") else "text/markdown",
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        for name, content in contents.items()
        if name != "LICENSE"
    ]  # fmt: skip
    # Croissant asks for three numbers; the date of a version is that, and its name is what to cite.
    day = dataset.date
    version = f"{day.year}.{day.month}.{day.day}" if day else dataset.version
    return {
        "@context": _CONTEXT, "@type": "sc:Dataset", "name": dataset.name,
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "description": dataset.focus or f"Prompts of the dataset {dataset.name}.",
        "license": licence, "version": version,
        "citeAs": f"{dataset.name}, version {dataset.version}, content SHA-256 {dataset.digest}.",
        **({"datePublished": day.isoformat()} if day else {}),
        "distribution": files,
        "recordSet": [_record_set(name) for name in _TABLES if f"{name}.csv" in contents],
    }  # fmt: skip


def _record_set(name: str) -> dict[str, Any]:
    fields = [
        {
            "@type": "cr:Field", "@id": f"{name}/{column}", "name": f"{name}/{column}", "description": description,
            "dataType": _TYPES.get(column, "sc:Text"),
            "source": {"fileObject": {"@id": f"{name}.csv"}, "extract": {"column": column}},
        }
        for column, description in _TABLES[name].items()
    ]  # fmt: skip
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


def _documents(source: str | Path) -> dict[str, bytes]:
    """Return datasheet and licence of a dataset: those beside its bases, or those that ship."""
    shipped = str(source) in SHIPPED
    folder = _DATA / str(source) if shipped else Path(source).expanduser()
    files = {"DATASHEET.md": folder / "DATASHEET.md", "LICENSE": (_DATA if shipped else folder) / "LICENSE"}
    for name, path in files.items():
        if not path.is_file():
            raise InputError(f"{folder}: no {name} in it; {_ASKS[name]}")
    return {name: path.read_bytes() for name, path in files.items()}


def _table(dataset: Dataset, name: str) -> bytes:
    """Return a table as CSV; nothing where it has no row."""
    rows = pd.DataFrame(list(_rows(dataset, name)), columns=list(_TABLES[name]))
    return b"" if rows.empty else csv_bytes(rows)


def _rows(dataset: Dataset, name: str) -> Iterable[Sequence[Any]]:
    if name == "prompts":
        for prompt in dataset.prompts:
            csf, arm = (prompt.metadata.get(key, "") for key in ("csf", "length_arm"))
            labels = (prompt.prompt_id, prompt.base, prompt.scenario, prompt.category, csf, prompt.level)
            yield (*labels, arm, prompt.token_count, prompt.text)
        return
    for base, prompt in {prompt.base: prompt for prompt in reversed(dataset.prompts)}.items():
        if name == "elements":
            for number, element in enumerate(prompt.metadata.get("elements", ()), 1):
                yield base, number, element
        elif "reference" in prompt.metadata:
            yield base, prompt.metadata["reference"]


if __name__ == "__main__":
    print("\n".join(str(path) for path in publish_dataset(sys.argv[1], Path(sys.argv[2]))))
