"""Templates run by papermill, many at a time: checked first, each notebook once, and no end that is no end."""

from __future__ import annotations

from toolkit.batch.run import BatchResult, CellResult, run_batch, run_templates

__all__ = ["BatchResult", "CellResult", "run_batch", "run_templates"]
