"""The analyses: from tidy frames to results that carry their interval, their n and what was missing."""

from importlib import import_module
from pathlib import Path
from typing import Any

from toolkit.files.reading import read_toml

WORDS: dict[str, dict[str, Any]] = read_toml(Path(__file__).with_name("analyses.toml"))
"""What is said of each analysis and its results, by its name."""
_EXPORTS = read_toml(Path(__file__).with_name("exports.toml"))
_MODULES = {name: f"toolkit.stats.{module}" for module, names in _EXPORTS.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import an analysis when it is first asked for: scipy, pandas and statsmodels take seconds (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'toolkit.stats' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the names of the analyses."""
    return __all__
