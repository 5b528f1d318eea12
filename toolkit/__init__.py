"""Research toolkit for theses about language models in security work.

``from toolkit import Study`` is the way in; everything heavy is loaded when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolkit.words import VERSION as __version__

if TYPE_CHECKING:
    from toolkit.errors import ToolkitError
    from toolkit.study import Study

__all__ = ["Study", "ToolkitError", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Study":
        from toolkit.study import Study

        return Study
    if name == "ToolkitError":
        from toolkit.errors import ToolkitError

        return ToolkitError
    raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
