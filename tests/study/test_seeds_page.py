"""Every name that the page on the seeds gives as the place of a requirement opens."""

import importlib
import re
import tomllib

import click
import pytest
from places import DOCS, ROOT

from toolkit import Study
from toolkit.cli import cli

PAGE = DOCS / "explain" / "seeds.md"
KEYS = tomllib.loads((DOCS / "study_keys.toml").read_text(encoding="utf-8"))


def rows(page):
    """Return what was asked, where it is, and why it differs, of each line of the lists."""
    return re.findall(r"^- \*\*(.+?)\*\*: ((?:`[^`]+`(?:, )?)*)(?:; )?(.*)$", page, re.MULTILINE)


def opens(name):
    """Return whether a name is a file, a key of the study file, a method of Study, a command, or importable."""
    if key := re.fullmatch(r"study\.toml: (?:(\w+)\.)?(\w+)", name):
        return key[2] in KEYS[key[1] or "study"]
    if name.startswith("Study."):
        return bool(getattr(getattr(Study, name.removeprefix("Study."), None), "__doc__", None))
    if name.startswith("toolkit "):
        command = cli
        for word in name.split()[1:]:
            command = command.get_command(click.Context(command), word)
        return command is not None
    if "/" in name:
        return (ROOT / name).is_file()
    return importable(name)


def importable(name):
    """Return whether a dotted name is a module, or something in one."""
    try:
        return bool(importlib.import_module(name))
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        try:
            return hasattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError:
            module, _, holder = module.rpartition(".")
            return hasattr(getattr(importlib.import_module(module), holder, None), attribute)


@pytest.mark.parametrize("row", rows(PAGE.read_text(encoding="utf-8")), ids=lambda row: row[0][:50])
def test_each_requirement_has_a_place_that_opens(row):
    """After what was asked stands at least a name, and each is there."""
    asked, where, _ = row
    names = re.findall(r"`([^`]+)`", where)
    assert asked
    assert names
    assert [name for name in names if not opens(name)] == []


@pytest.mark.parametrize(
    "name",
    [
        "toolkit.scoring.nothing",
        "docs/how_to/nothing.md",
        "study.toml: judges.nothing",
        "Study.nothing",
        "toolkit nothing",
    ],
)
def test_a_name_that_is_not_there_does_not_open(name):
    """A missing file, key, method, command and function."""
    assert not opens(name)
