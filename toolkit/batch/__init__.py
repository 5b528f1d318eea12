"""Templates run by papermill, many at a time: checked first, each notebook once, and no end that is no end.

papermill only warns about unknown parameters and a missing ``parameters`` tag, is not safe in threads, and a dead
kernel leaves a notebook that claims completion. `run_batch` runs a template over a grid, `run_templates` a few
notebooks for the demo.
"""

from __future__ import annotations

from toolkit.batch.jobs import Job, run_templates
from toolkit.batch.parameters import check_parameters
from toolkit.batch.result import BatchResult, CellResult
from toolkit.batch.run import run_batch

__all__ = ["BatchResult", "CellResult", "Job", "check_parameters", "run_batch", "run_templates"]
