"""Runs a notebook template with papermill for every cell of a grid of parameters, several notebooks at a time."""

import sys

# nbformat imports jsonschema, which spends 1.7 s on a grammar of addresses that no notebook has. It works without it.
_GRAMMAR = "rfc3987_syntax"
if _GRAMMAR not in sys.modules:
    sys.modules[_GRAMMAR] = None  # type: ignore[assignment]
    import papermill  # noqa: F401 - before our engine, which it loads during its own import

    del sys.modules[_GRAMMAR]

from toolkit.batch.result import BatchResult, CellResult  # noqa: E402
from toolkit.batch.run import run_batch, run_templates  # noqa: E402

__all__ = ["BatchResult", "CellResult", "run_batch", "run_templates"]
