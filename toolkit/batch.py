"""Templates run by papermill, checked first, each in a process of its own.

papermill only warns about unknown parameters and a missing ``parameters`` tag, is not safe in threads, and a dead
kernel leaves a notebook that claims completion; so we check before, use processes, and trust the process's exit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import InputError, ToolkitError

_CHILD = "import json, sys; from toolkit.batch import _execute; _execute(**json.load(sys.stdin))"


@dataclass(frozen=True)
class Job:
    """One template to execute into one output notebook."""

    template: Path
    output: Path
    parameters: Mapping[str, Any]


def run_templates(jobs: Sequence[Job], *, at_once: int = 2) -> tuple[Path, ...]:
    """Execute templates in bounded processes and return the executed notebooks.

    Parameters
    ----------
    jobs
        What to execute; checked all before the first is started.
    at_once
        How many kernels run at the same time.

    Raises
    ------
    InputError
        When a template has no ``parameters`` cell or a parameter is unknown.
    ToolkitError
        When an execution failed; the partly executed notebook stays beside the output as ``.failed.ipynb``.
    """
    from concurrent.futures import ThreadPoolExecutor

    for job in jobs:
        check_parameters(job.template, job.parameters)
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        return tuple(pool.map(_run, jobs))


def check_parameters(template: Path, parameters: Mapping[str, Any]) -> None:
    """Refuse a template without a ``parameters`` cell and parameters it does not know.

    Raises
    ------
    InputError
        Naming the template, the parameter and the allowed ones.
    """
    from papermill.inspection import inspect_notebook

    if not template.is_file():
        raise InputError(f"{template}: no such template")
    known = inspect_notebook(str(template))
    if not known:
        raise InputError(f"{template}: no cell is tagged `parameters`; tag the cell with the defaults")
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        raise InputError(
            f"{template}: unknown parameter {unknown[0]!r}; this template takes {', '.join(sorted(known))}"
        )


def _run(job: Job) -> Path:
    import json

    job.output.parent.mkdir(parents=True, exist_ok=True)
    draft = job.output.with_name(job.output.stem + ".running.ipynb")
    request = {"template": str(job.template), "output": str(draft), "parameters": dict(job.parameters)}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        cwd=job.output.parent,
        # The kernel inherits this and shows plain progress lines instead of widgets.
        env={**os.environ, "TOOLKIT_BATCH": "1"},
        check=False,
    )
    if done.returncode == 0:
        draft.replace(job.output)
        return job.output
    failed = job.output.with_name(job.output.stem + ".failed.ipynb")
    if draft.exists():
        draft.replace(failed)
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {done.returncode}"
    raise ToolkitError(f"{job.template.name}: did not run to its end: {last[:300]}; see {failed}")


def _execute(template: str, output: str, parameters: dict[str, Any]) -> None:
    """Execute one template in this process; called in the child only."""
    import logging

    import papermill

    logging.getLogger("papermill").setLevel(logging.ERROR)
    papermill.execute_notebook(
        template,
        output,
        parameters=parameters,
        progress_bar=False,
        kernel_name="python3",
        cwd=str(Path(output).parent),
    )
