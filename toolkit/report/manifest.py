"""Manifests: what a study was made from, the SHA-256 of every file of its bundle, and what differs from them."""

from __future__ import annotations

import json
import platform
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import InputError
from toolkit.files.digests import sha256_of
from toolkit.files.reading import parsed
from toolkit.files.writing import write_atomically
from toolkit.store.writer import sealed
from toolkit.words import CROSSED, LENGTH_BINS

if TYPE_CHECKING:
    from toolkit.plan import Plan

MANIFEST = "manifest.json"
DOCUMENT = "bundle"
"""Stem of the document that a bundle compiles into."""
PACKAGES = (
    "llm-security-toolkit", "openai", "anthropic", "tiktoken", "mongoengine", "numpy", "pandas", "pingouin",
    "scipy", "seaborn", "matplotlib", "papermill",
)  # fmt: skip


def manifest(plan: Plan, path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a study as plain JSON types; it holds no key and no path of the machine."""
    levels = {level for p in plan.dataset.prompts for level in (p.level, p.metadata.get(CROSSED))}
    of_length = {} if levels & {*LENGTH_BINS} else {"length_bins": True, "length_arms": True}
    study = plan.study.model_dump(
        mode="json",
        exclude={"output": True, "dataset": True, "judges": {"rubric"}, **of_length},
        exclude_none=True,
    )
    rubric = plan.rubric
    return {
        "study": plan.study.name,
        "inputs": {
            "study_file": {"name": path.name, "sha256": sha256_of(path)},
            "dataset": {"version": plan.dataset.version, "sha256": plan.dataset.digest},
            "rubric": {"name": rubric.name, "version": rubric.version, "sha256": rubric.digest},
        },
        "settings": study,
        "parameters": _parameters(parameters),
        "seed": plan.study.seed,
        "models": {name: f"{spec.provider}:{spec.model}" for name, spec in plan.models.items()},
        "judges": {role: f"{spec.provider}:{spec.model}" for role, spec in plan.judge_models.items()},
        "exchange": str(plan.exchange),
        **_code(),
    }


def scores_manifest(
    name: str, sources: Mapping[str, str], settings: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the manifest of somebody's scores: the SHA-256 of each file, what was taken for what, and versions."""
    facts = {"settings": dict(settings), "parameters": _parameters(parameters)}
    return {"study": name, "kind": "Scores", "inputs": dict(sources), **facts, **_code()}


def _parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters without their folders: a path is a fact of this machine; its last part names the file."""
    return {
        name: Path(value).name if isinstance(value, str) and "/" in value else value
        for name, value in parameters.items()
    }


def _code() -> dict[str, Any]:
    versions = {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}
    return {"versions": versions, "commit": toolkit_commit()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def toolkit_commit() -> str | None:
    """Return the commit of the toolkit's own clone, marked when files differ from it; None outside a clone."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        head = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    return head.stdout.strip() or None


def write_manifest(folder: Path, facts: Mapping[str, Any], files: Iterable[Path]) -> Path:
    """Write what a bundle was made from and the SHA-256 of its files; unchanged files of an earlier one go."""
    sums = {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}
    path = folder / MANIFEST
    for name, sha256 in read_sums(path).items() if path.is_file() else ():
        obsolete = _inside(folder, name)
        if name not in sums and obsolete and obsolete.is_file() and sha256_of(obsolete) == sha256:
            obsolete.unlink()
    text = json.dumps(
        sealed({**facts, "files": sums}), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    return write_atomically(path, f"{text}\n".encode())


def read_sums(manifest: Path) -> dict[str, str]:
    """Return path and SHA-256 of every file that a manifest names."""
    return _read(manifest)[1]


def write_own(path: Path, content: bytes, mark: bytes) -> Path:
    """Write a file in the place of nothing but an earlier one of its kind, which has a mark in it."""
    if path.exists() and mark not in path.read_bytes():
        raise InputError(
            f"{path}: is there, and none of this kind that was written before; name another file"
        )
    return write_atomically(path, content)


def claim_folder(owner: str, *folders: Path) -> None:
    """Claim folders that are empty or carry a manifest of the same owner, a study or a batch; refuse others."""
    for folder in folders:
        path = folder / MANIFEST
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file; name a folder for what is written of {owner}")
        # Hidden ones are drafts, or of the system. The manifest is looked for last: another process may just begin.
        if (foreign := sorted(entry.name for entry in folder.glob("[!.]*"))) and not path.is_file():
            advice = f"not of {owner}, such as {foreign[0]}; name an empty or a new folder"
            raise InputError(f"{folder}: has files that are {advice}")
        if not path.is_file():
            write_atomically(path, json.dumps({"study": owner, "files": {}}).encode())
        if (holder := _read(path)[0]) != owner:
            raise InputError(f"{folder}: holds files of {holder}; choose another folder for those of {owner}")
        if links := [entry for entry in folder.rglob("*") if entry.is_symlink()]:
            raise InputError(
                f"{links[0]}: is a link, which leads elsewhere; remove it or choose another folder"
            )


def _read(manifest: Path) -> tuple[str, dict[str, str]]:
    try:
        content = parsed(json.loads, manifest.read_text(encoding="utf-8"))
        return str(content["study"]), {str(name): str(sha256) for name, sha256 in content["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{manifest}: is no manifest of a study; remove it or choose another folder"
        ) from None


def differing_files(folder: Path, noun: str = DOCUMENT) -> list[str]:
    """Return a line for every file of a bundle or an export that is not what its manifest says."""
    sums = read_sums(folder / MANIFEST)
    present = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    # What LaTeX makes of the document has its name, and is no file that was added.
    compiled = f"{DOCUMENT}."
    lines = [
        f"{name}: is no file of the {noun}"
        for name in present
        if name not in sums and name != MANIFEST and not name.startswith(compiled)
    ]
    for name, sha256 in sorted(sums.items()):
        path = _inside(folder, name)
        if path is None:
            lines.append(f"{name}: lies outside of the {noun}")
        elif not path.is_file():
            lines.append(f"{name}: is missing")
        elif sha256_of(path) != sha256:
            lines.append(f"{name}: was changed after the {noun} was written")
    return lines


def _inside(folder: Path, name: str) -> Path | None:
    """Return a file that a manifest names; a manifest from elsewhere must not reach out of its folder."""
    path = folder / name
    return path if path.resolve().is_relative_to(folder.resolve()) else None
