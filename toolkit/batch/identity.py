"""What a notebook of a batch depends on, as one hash: template, parameters, code and data, and the store it reads.

Two notebooks with the same identity would come to the same, so the second is not run.

What the store holds counts for those templates alone that say in their metadata that they only show it:
``{"toolkit": {"reads": "store"}}``. After more runs, judgements or ratings of a study they are run again, or a thesis
would get old figures in silence. A template that asks models itself does not say so: it changes the store, so its
second call would never find what its first began with; it asks for what is missing by itself. What counts is the store
as it was when the batch began. When another batch writes to it meanwhile, a notebook may show more than it claims, and
is run again by the next call: once too often, but never too seldom.

What we cannot see is not part of it: other packages, and files that a template names in its own code. A file that a
notebook writes and a parameter names is data from then on, so that the next call runs it once more: name its folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.batch.parameters import Parameter
from toolkit.batch.sources import Source


def effective(known: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters a notebook sees: the given ones and the template's plain defaults for the others."""
    defaults = {name: parameter.default for name, parameter in known.items() if parameter.default is not None}
    return defaults | dict(given)


def identities(
    notebook: Any, parameters: Sequence[Mapping[str, Any]], sources: Sequence[Mapping[str, Source]]
) -> list[str]:
    """Return the identity of each notebook of a batch, as a SHA-256 in hex."""
    cells = [[c.cell_type, c.source, sorted(c.metadata.get("tags", ()))] for c in notebook.cells]
    same = {"template": cells, "code": code_hash()}
    head = hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()
    found = []
    for given, named in zip(parameters, sources, strict=True):
        data = {name: source.digests for name, source in named.items()}
        parts = [head, dict(given), data]
        found.append(hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest())
    return found


def code_hash() -> str:
    """Return the SHA-256 of the toolkit's own files.

    Not its version and commit: a commit that touches the thesis only changes nothing, and an edit that is not
    committed yet does. Read anew for every batch: a notebook's kernel may live while its user edits them.
    """
    import toolkit

    root = Path(toolkit.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()
