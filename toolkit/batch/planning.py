"""A batch made concrete before anything starts: every notebook of the grid, checked, with what it depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.batch.identity import effective, identities
from toolkit.batch.parameters import fitting, parameters_of, short
from toolkit.batch.sources import Sources
from toolkit.batch.template import notebook_of, read_bytes, reads_store
from toolkit.errors import InputError
from toolkit.files import write_atomically


@dataclass(frozen=True)
class Planned:
    """One notebook to be."""

    identity: str
    parameters: Mapping[str, Any]
    files: Mapping[str, str]


@dataclass(frozen=True)
class BatchPlan:
    """All notebooks of a batch."""

    template: Path
    content: bytes
    reads_store: bool
    cells: tuple[Planned, ...]

    def keep_template(self, folder: Path) -> Path:
        """Write the template as it was checked into a folder, and return its copy there."""
        name = f"{self.template.stem}_{hashlib.sha256(self.content).hexdigest()[:12]}.template.ipynb"
        return write_atomically(folder / name, self.content)


def plan_batch(template: Path, cells: Sequence[Mapping[str, Any]], folder: Path, where: str) -> BatchPlan:
    """Return what a batch will run."""
    content = read_bytes(template)
    notebook = notebook_of(content, str(template))
    known = parameters_of(notebook, str(template))
    values = [
        fitting(known, cell, f"{where}: cell {number}: {template.name}")
        for number, cell in enumerate(cells, 1)
    ]
    whole = [effective(known, given) for given in values]
    shown = reads_store(notebook, str(template))
    sources = Sources(folder, reads_store=shown)
    named = [sources.named_by(parameters) for parameters in whole]
    keys = identities(notebook, whole, named)
    first: dict[str, int] = {}
    for number, key in enumerate(keys, 1):
        if first.setdefault(key, number) != number:
            raise InputError(
                f"{where}: cells {first[key]} and {number} are the same notebook: {short(values[number - 1])}; "
                "remove one"
            )
    files = [
        {path: sha for source in found.values() for path, sha in source.files.items()} for found in named
    ]
    planned = tuple(Planned(*one) for one in zip(keys, values, files, strict=True))
    return BatchPlan(template, content, shown, planned)
