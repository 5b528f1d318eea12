"""The manifest of a bundle: SHA-256 of every file, written last, and what differs from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.files import write_atomically

MANIFEST: Final = "manifest.json"


def write_manifest(folder: Path, about: Mapping[str, Any], files: Iterable[Path]) -> Path:
    """Write what a bundle was made from and the SHA-256 of its files, and remove files of an earlier bundle.

    Only what the manifest before names and nobody has changed since is removed.
    """
    sums = {path.relative_to(folder).as_posix(): _sum(path) for path in files}
    place = folder / MANIFEST
    if place.is_file():
        for name, known in read_sums(place).items():
            old = _inside(folder, name)
            if name not in sums and old is not None and old.is_file() and _sum(old) == known:
                old.unlink()
    text = json.dumps({**about, "files": sums}, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return write_atomically(place, f"{text}\n".encode())


def read_sums(manifest: Path) -> dict[str, str]:
    """Return path and SHA-256 of every file that a manifest names."""
    return _read(manifest)[1]


def check_is_of(folder: Path, study: str) -> None:
    """Make sure that a folder holds no bundle of another study, which a new one would take the place of."""
    place = folder / MANIFEST
    if place.exists() and (other := _read(place)[0]) != study:
        raise InputError(
            f"{folder}: holds the bundle of study {other}; choose another folder for that of {study}"
        )


def _read(manifest: Path) -> tuple[str, dict[str, str]]:
    """Return the study of a manifest, and path and SHA-256 of its files."""
    try:
        found = json.loads(manifest.read_text(encoding="utf-8"))
        return str(found["study"]), {str(name): str(known) for name, known in found["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{manifest}: is no manifest of a bundle; remove it or choose another folder"
        ) from None


def differing_files(folder: Path) -> list[str]:
    """Return a line for every file of a bundle that is not what its manifest says."""
    found = []
    for name, known in sorted(read_sums(folder / MANIFEST).items()):
        path = _inside(folder, name)
        if path is None:
            found.append(f"{name}: lies outside of the bundle")
        elif not path.is_file():
            found.append(f"{name}: is missing")
        elif _sum(path) != known:
            found.append(f"{name}: was changed after the bundle was written")
    return found


def _inside(folder: Path, name: str) -> Path | None:
    """Return a file that a manifest names; a manifest from elsewhere must not reach out of its folder."""
    path = folder / name
    return path if path.resolve().is_relative_to(folder.resolve()) else None


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
