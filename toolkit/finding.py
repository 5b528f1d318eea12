"""Find the test that a study names: one that ships, one of an installed package, or one in the user's own file."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from toolkit.errors import StudyError, ToolkitError
from toolkit.prompt_test import PromptResponseTest

SHIPPED: Final[Mapping[str, str]] = {
    "rubric_study": "toolkit.protocols.rubric_study:RubricStudy",
    "one_shot": "toolkit.protocols.one_shot:OneShotTest",
    "stereotypes": "toolkit.protocols.stereotypes:Stereotypes",
}
ENTRY_POINTS: Final = "toolkit.tests"
"""A package offers a test under this group: ``[project.entry-points."toolkit.tests"] mine = "package:MyTest"``."""


def find_test(name: str, folder: Path) -> type[PromptResponseTest]:
    """Return the class of the test that a study names."""
    target = SHIPPED.get(name, name)
    for offered in entry_points(group=ENTRY_POINTS, name=name):
        target = offered.value
    where, separator, class_name = target.rpartition(":")
    if not separator:
        where, _, class_name = target.rpartition(".")
    if not where or not class_name:
        raise StudyError(
            f"test: {name!r} is not known; use {', '.join(SHIPPED)}, file.py:Class or package.module:Class"
        )
    try:
        module = _from_file(folder / where) if where.endswith(".py") else _from_path(where, folder)
    except ToolkitError:
        raise
    except Exception as error:  # whatever the user's file raises while it is imported
        raise StudyError(f"test: {name!r} cannot be imported: {type(error).__name__}: {error}") from error
    found = getattr(module, class_name, None)
    if not (inspect.isclass(found) and issubclass(found, PromptResponseTest)):
        raise StudyError(f"test: {name!r}: {where} has no class {class_name} that is a PromptResponseTest")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise StudyError(f"test: {name!r}: {class_name} lacks {missing}")
    return found


def make_test(
    test: type[PromptResponseTest], options: Mapping[str, Any], given: Mapping[str, Any]
) -> PromptResponseTest:
    """Return a test made with the study's options and with what the study knows, where the test asks for it."""
    parameters = parameters_of(test)
    allowed = [name for name in parameters if name not in given]
    unknown = [name for name in options if name not in allowed]
    if unknown:
        raise StudyError(
            f"options.{unknown[0]}: test {test.__name__} has no such option; "
            f"{'its options are ' + ', '.join(allowed) if allowed else 'it has none'}"
        )
    missing = [n for n in allowed if parameters[n].default is inspect.Parameter.empty and n not in options]
    if missing:
        raise StudyError(f"options.{missing[0]}: test {test.__name__} needs this option")
    wanted = {name: value for name, value in given.items() if name in parameters}
    try:
        return test(**wanted, **options)
    except ToolkitError:
        raise
    except Exception as error:  # the user's own code
        raise StudyError(f"test {test.__name__}: {type(error).__name__}: {error}") from error


def parameters_of(test: type[PromptResponseTest]) -> dict[str, inspect.Parameter]:
    """Return what a test's constructor takes, by name."""
    if test.__init__ is object.__init__:
        return {}
    found = list(inspect.signature(test.__init__).parameters.values())[1:]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {parameter.name: parameter for parameter in found if parameter.kind in named}


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise StudyError(f"test: {path.name}: no such file beside the study")
    # Named by its place and content: two studies may each have a tests.py, and a notebook edits and loads again.
    digest = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"toolkit_user_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StudyError(f"test: {path.name}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while it is made
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_path(name: str, folder: Path) -> ModuleType:
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
