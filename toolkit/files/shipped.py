"""Folders that ship beside the package, in the source tree or in a wheel, and the folder that a user works in."""

import shutil
from importlib.metadata import files
from pathlib import Path

from toolkit.errors import InputError


def shipped(name: str) -> Path:
    """Return a folder that ships beside the package: of the source tree, or of what a wheel installed."""
    folder = Path(__file__).resolve().parents[2] / name
    if (folder.parent / "pyproject.toml").is_file():
        return folder
    for path in files("llm-security-toolkit") or ():
        if path.parts[-3:-1] == ("llm-security-toolkit", name) and Path(str(path.locate())).is_file():
            return Path(str(path.locate())).resolve().parent
    raise InputError(f"{name}: this installation of the toolkit has none; install its wheel again")


def workspace() -> Path:
    """Return the folder that templates, notebooks and results of the shipped studies are in.

    The current folder where it has templates, else the source tree; of an installed wheel the current folder, where the
    templates are copied to.
    """
    current, templates = Path.cwd(), shipped("templates")
    if (current / "templates" / "demo.toml").is_file():
        return current
    if (templates.parent / "pyproject.toml").is_file():
        return templates.parent
    for folder in (templates, shipped("notebooks")):
        shutil.copytree(folder, current / folder.name, dirs_exist_ok=True, copy_function=_copied_once)
    return current


def _copied_once(source: str, target: str) -> None:
    if not Path(target).exists():  # what is there is somebody's
        shutil.copy2(source, target)
