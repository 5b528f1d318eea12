"""Templates run by papermill, many at a time: checked first, each notebook once, and no end that is no end."""

from __future__ import annotations

import sys

# nbformat imports jsonschema, and that, only to check addresses of a kind no notebook has, builds a grammar for 1.7 s
# of work. jsonschema does without when it is not there.
_GRAMMAR = "rfc3987_syntax"
if _GRAMMAR not in sys.modules:
    sys.modules[_GRAMMAR] = None  # type: ignore[assignment]
    import nbformat  # noqa: F401

    del sys.modules[_GRAMMAR]

from toolkit.batch.result import BatchResult, CellResult  # noqa: E402
from toolkit.batch.run import run_batch, run_templates  # noqa: E402

__all__ = ["BatchResult", "CellResult", "run_batch", "run_templates"]
