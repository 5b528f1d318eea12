"""What a result was made from: inputs and their hashes, versions, commit, seed, parameters, models and judges."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.plan import Plan

PACKAGES = (
    "llm-security-toolkit",
    "openai",
    "anthropic",
    "tiktoken",
    "mongoengine",
    "numpy",
    "pandas",
    "pingouin",
    "scipy",
    "seaborn",
    "matplotlib",
    "papermill",
)


def manifest(plan: Plan, path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of a study as plain JSON types; it holds no key and no path of the machine."""
    study = plan.study.model_dump(
        mode="json", exclude={"output": True, "dataset": True, "judges": {"rubric"}}, exclude_none=True
    )
    return {
        "study": plan.study.name,
        "inputs": {
            "study_file": {"name": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
            "dataset": {"version": plan.dataset.version, "sha256": plan.dataset.digest},
            "rubric": {
                "name": plan.rubric.name,
                "version": plan.rubric.version,
                "sha256": plan.rubric.digest,
            },
        },
        "settings": study,
        # A path is a fact of this machine; its last part names the file.
        "parameters": {name: _without_folder(value) for name, value in parameters.items()},
        "seed": plan.study.seed,
        "models": {name: f"{spec.provider}:{spec.model}" for name, spec in plan.models.items()},
        "judges": {role: f"{spec.provider}:{spec.model}" for role, spec in plan.judge_models.items()},
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "commit": toolkit_commit(),
    }


def _without_folder(value: Any) -> Any:
    return Path(value).name if isinstance(value, str) and "/" in value else value


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
