"""The demo: the whole main job with a local model and no key, ending in notebooks, figures and tables."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from toolkit.batch import run_templates
from toolkit.errors import InputError
from toolkit.study import Study
from toolkit.words import Summary

TEMPLATES = ("run_study", "judge_reliability", "prompt_length")


def run_demo(*, limit: int | None = None, progress: bool = True) -> Summary:
    """Run the demo study and everything that follows from it."""
    started = time.monotonic()
    templates = Path(__file__).resolve().parent.parent / "templates"
    if not (templates / "demo.toml").is_file():
        raise InputError(f"{templates}: no demo study here; run the demo from a clone of the project")
    study = Study.load(templates / "demo.toml")
    size = f"{len(study.plan.runs)} runs, {len(study.plan.judges)} judges"
    _say(f"study {study.name}: {size}; asking what is missing")
    outcome = study.execute(progress=progress, limit=limit)
    _say("figures and tables")
    files = study.figures()
    _say(f"notebooks: {', '.join(TEMPLATES)} (papermill, a real kernel each)")
    notebooks = run_templates(
        [
            (
                templates / f"{name}.ipynb",
                study.output / "notebooks" / f"{name}.ipynb",
                # Without the limit run_study would ask the runs that were left out.
                {"study": str(study.path)} | ({"limit": limit} if name == "run_study" else {}),
            )
            for name in TEMPLATES
        ]
    )
    status = study.status()
    seconds = time.monotonic() - started
    kinds = {suffix: sum(path.suffix == suffix for path in files) for suffix in (".pdf", ".png", ".tex")}
    said = {"status": status, "seconds": seconds, "files": [str(path) for path in (*files, *notebooks)]}
    text = _last_screen(study, status, outcome.new_calls, kinds, len(notebooks), seconds)
    return Summary({**outcome.to_dict(), **said}, text, outcome.exit_code)


def _last_screen(
    study: Study, status: dict, new_calls: int, kinds: dict[str, int], notebooks: int, seconds: float
) -> str:
    where = _short(study.output)
    runs, judgements = status["runs"]["succeeded"], status["judgements"]
    return f"""
The demo is done in {seconds:.0f} s.

  made   {runs} runs and {judgements["done"]} judgements, {judgements["scored"]} with scores;
         {new_calls} calls were asked just now
         {kinds[".pdf"]} figures as PDF, SVG and PNG, {kinds[".tex"]} LaTeX tables, {notebooks} executed notebooks
  where  {where}/ (figures/, tables/, notebooks/); every reply is kept in {_short(study.plan.store_folder)}/
  cost   {status["spent_aud"]:.2f} AUD: the model ran on this machine
  note   {study.note}

  next   make lab                               open notebooks/00_start_here.ipynb
         .venv/bin/toolkit status templates/demo.toml
         copy templates/gpt4o_claude.toml, put your keys in .env, then
         .venv/bin/toolkit estimate YOUR.toml   before a cent is spent
"""


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)
