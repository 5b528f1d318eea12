"""Describe an exported folder: RO-Crate 1.1 metadata, and sums that ``sha256sum -c`` checks.

Nothing in it is of the clock or the machine: the same files of the same study are the same bytes, wherever and whenever
they are written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from toolkit.errors import InputError
from toolkit.files import write_atomically

METADATA: Final = "ro-crate-metadata.json"
SUMS: Final = "sha256sums.txt"
_PROFILE: Final = "https://w3id.org/ro/crate/1.1"
# The context of RO-Crate 1.1 is older than this term of schema.org.
_CONTEXT: Final = [f"{_PROFILE}/context", {"sha256": "https://schema.org/sha256"}]
_TYPES: Final[Mapping[str, str]] = {
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".zip": "application/zip",
    ".md": "text/markdown",
    ".json": "application/json",
}
_NO_LICENCE: Final = {
    "@id": "#no-licence",
    "@type": "CreativeWork",
    "name": "No licence given",
    "description": "Those who made the study have named no licence for its data; ask them before it is used.",
}
_LINE: Final = re.compile(r"([0-9a-f]{64})  ([^/\\]+)")


def write_crate(
    folder: Path, files: Sequence[Path], dataset: Mapping[str, str], licence: str | None
) -> list[Path]:
    """Write metadata about the files of an exported folder, then the sums of all of them, and return both paths.

    ``dataset`` describes the root dataset: name, description, and datePublished, which is no day of the clock.
    """
    sums = {path.name: sum_of(path) for path in files}
    terms = _NO_LICENCE
    if licence:
        link = licence if "://" in licence else f"https://spdx.org/licenses/{licence}"
        terms = {"@id": link, "@type": "CreativeWork", "name": licence, "description": f"Licence: {licence}"}
    root = {
        "@id": "./",
        "@type": "Dataset",
        **dataset,
        "license": {"@id": terms["@id"]},
        "hasPart": [{"@id": path.name} for path in files],
    }
    itself = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "conformsTo": {"@id": _PROFILE},
        "about": {"@id": "./"},
    }
    entities = [
        {
            **{"@id": path.name, "@type": "File", "name": path.name, "sha256": sums[path.name]},
            **{"encodingFormat": _TYPES[path.suffix], "contentSize": str(path.stat().st_size)},
        }
        for path in files
    ]
    graph = [itself, root, terms, *entities]
    text = json.dumps({"@context": _CONTEXT, "@graph": graph}, indent=1, ensure_ascii=False)
    metadata = write_atomically(folder / METADATA, f"{text}\n".encode())
    lines = sorted(f"{digest}  {name}\n" for name, digest in {**sums, METADATA: sum_of(metadata)}.items())
    return [metadata, write_atomically(folder / SUMS, "".join(lines).encode())]


def sum_of(path: Path) -> str:
    """Return the SHA-256 of a file, which is never in memory as a whole."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def differing_export(folder: Path) -> Iterator[str]:
    """Yield a line for every file of an exported folder that is not what its sums say, or is not among them."""
    try:
        lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise InputError(
            f"{folder}: holds no {SUMS} of `toolkit export`; name a folder that it wrote"
        ) from None
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if match := _LINE.fullmatch(line):
            sums[match[2]] = match[1]
        else:
            yield f"{SUMS}: line {number} was changed after the export was written"
    existing = {path.name for path in folder.iterdir()}
    for name in sorted({*sums, *existing} - {SUMS}):
        if name not in sums:
            yield f"{name}: is no file of the export"
        elif not (folder / name).is_file():
            yield f"{name}: is missing"
        elif sum_of(folder / name) != sums[name]:
            yield f"{name}: does not have its sum, so it or its line in {SUMS} was changed"
