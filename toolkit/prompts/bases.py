"""Bases in TOML: one file a base, its facts written once, its S, M and L prompts composed from them.

The S prompt states ``facts_s``, M adds ``facts_m`` and L adds ``facts_l``; opening and task are the same in
all three. So the same work is asked at every length, and a longer prompt contains a shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from toolkit.errors import InputError
from toolkit.files import read_toml
from toolkit.words import LENGTH_BINS, SCENARIOS

INDEX: Final = "dataset.toml"
"""Optional file of a folder that gives the dataset its name and its version."""
_TEXTS: Final = ("base", "scenario", "category", "opening", "task")
_LISTS: Final = ("data_sources", *(f"facts_{length_bin.lower()}" for length_bin in LENGTH_BINS))


def compose(opening: str, facts: list[str], task: str) -> str:
    r"""Return the text of a prompt: the role, the facts as a list, the task.

    Parameters
    ----------
    opening
        One sentence that gives the model its role.
    facts
        The facts in the order in which they are stated.
    task
        The request, word for word the same at every length.

    Returns
    -------
    str
        The prompt, without a line break at its end.

    Examples
    --------
    >>> compose("You are an analyst.", ["Host A is down."], "Say why.")
    'You are an analyst.\n\nFacts:\n- Host A is down.\n\nTask:\nSay why.'
    """
    listed = "\n".join(f"- {fact}" for fact in facts)
    return f"{opening}\n\nFacts:\n{listed}\n\nTask:\n{task}"


def read_folder(folder: Path) -> tuple[str, str, list[tuple[str, dict[str, Any]]]]:
    """Return the name, the version and the rows of a folder of bases.

    Parameters
    ----------
    folder
        Folder with one ``.toml`` file a base, and perhaps a ``dataset.toml`` with ``name`` and ``version``;
        without it both are the name of the folder.

    Returns
    -------
    tuple
        Name, version, and for every prompt where it comes from and its fields; by scenario, base and length.

    Raises
    ------
    InputError
        There is no base, or a file is not TOML, lacks a key, has an unknown one, or one of the wrong type.
    """
    index = {"name": folder.resolve().name, "version": folder.resolve().name}
    if (folder / INDEX).is_file():
        index |= read_toml(folder / INDEX)
        _check_keys(folder / INDEX, index, texts=("name", "version"), lists=())
    bases = []
    for path in sorted(folder.glob("*.toml")):
        if path.name != INDEX:
            base = read_toml(path)
            _check_keys(path, base, texts=_TEXTS, lists=_LISTS)
            bases.append((path, base))
    if not bases:
        raise InputError(f"{folder}: no dataset here, expected one .toml file a base")
    rank = {scenario: i for i, scenario in enumerate(SCENARIOS)}
    # An unknown scenario sorts last and is refused with every other bad value when the prompts are made.
    bases.sort(key=lambda item: (rank.get(item[1]["scenario"], len(rank)), item[1]["base"]))
    return index["name"], index["version"], [row for path, base in bases for row in _rows(path, base)]


def _rows(path: Path, base: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    facts: list[str] = []
    for length_bin in LENGTH_BINS:
        facts = [*facts, *base[f"facts_{length_bin.lower()}"]]
        yield (
            f"{path}, length bin {length_bin}",
            {
                "prompt_id": f"{base['base']}_{length_bin.lower()}",
                "text": compose(base["opening"], facts, base["task"]),
                "scenario": base["scenario"],
                "category": base["category"],
                "length_bin": length_bin,
                "base": base["base"],
                "data_sources": base["data_sources"],
            },
        )


def _check_keys(path: Path, found: dict[str, Any], *, texts: tuple[str, ...], lists: tuple[str, ...]) -> None:
    allowed = texts + lists
    for key in found:
        if key not in allowed:
            raise InputError(f"{path}: unknown key '{key}', allowed are {', '.join(allowed)}")
    for key in allowed:
        if key not in found:
            raise InputError(f"{path}: key '{key}' is missing, needed are {', '.join(allowed)}")
    for key in texts:
        if not _is_text(found[key]):
            raise InputError(f"{path}: key '{key}' must be a text that is not empty")
    for key in lists:
        if not isinstance(found[key], list) or not found[key] or not all(map(_is_text, found[key])):
            raise InputError(f"{path}: key '{key}' must be a list of one or more texts that are not empty")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
