"""The demo: the whole main job with a local model and no key, and a study of planted truth beside it."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Final

import pandas as pd

from toolkit.batch import run_templates
from toolkit.files import workspace
from toolkit.stats.result import Estimate
from toolkit.study import Study
from toolkit.words import Summary

_STEPS: Final = {"M-S": "m_minus_s", "L-M": "l_minus_m"}
TEMPLATES = ("run_study", "judge_reliability", "prompt_length")


def run_demo(*, limit: int | None = None, progress: bool = True) -> Summary:
    """Run the demo study and everything that follows from it."""
    started = time.monotonic()
    templates = workspace() / "templates"
    study = Study.load(templates / "demo.toml")
    size = f"{len(study.plan.runs)} runs, {len(study.plan.judges)} judges"
    _say(f"study {study.name}: {size}; asking what is missing")
    outcome = study.execute(progress=progress, limit=limit)
    _say("the same with a planted truth: no language model answers in it")
    with Study.load(templates / "planted.toml") as planted:
        if planted.execute(progress=progress).new_calls or not (planted.output / "figures").is_dir():
            planted.figures()
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


def planted_and_found(study: Study) -> pd.DataFrame:
    """Return what a study file plants beside what the study finds: one row a value, with its interval.

    Parameters
    ----------
    study
        A study whose models and judges are scripted with a ``planted`` truth.

    Returns
    -------
    DataFrame
        what, planted, found, low, high (score points, or a share of runs), and inside: whether the interval has what
        is planted. No rows where nothing is planted.

    Examples
    --------
    ``planted_and_found(Study.load("templates/planted.toml"))``
    """
    truths = {entry.name: entry.planted for entry in study.file.models if entry.planted}
    rows: list[tuple[str, float, Estimate]] = []
    if len(truths) == len(study.file.models):
        contrasts = {one.name: one for one in study.length().contrasts}
        added = {
            key: sum(getattr(one, key) for one in truths.values()) / len(truths) for key in _STEPS.values()
        }
        rows += [(name, added[key], contrasts[name]) for name, key in _STEPS.items() if name in contrasts]
        for found in study.compare_models().differences if len(truths) > 1 else ():
            one, other = (truths[name] for name in found.name.split(" - "))
            rows.append((found.name, one.level - other.level, found))
        ensemble = study.file.judges.by_role()
        judges = {role: judge.planted for role, judge in ensemble.items() if judge.planted}
        leniency = study.reliability().details.severity[study.file.analysis.score].leniency
        for role, found in leniency.items() if len(judges) == len(ensemble) else ():
            others = [one.severity for name, one in judges.items() if name != role]
            rows.append((found.name, sum(others) / len(others) - judges[role].severity, found))
        failures = sum(one.failures for one in truths.values()) / len(truths)
        rows.append(("runs without a score", failures, study.missing().overall[0]))
    table = [(what, planted, one.estimate, one.low, one.high) for what, planted, one in rows]
    numbers = ["planted", "found", "low", "high"]
    frame = pd.DataFrame(table, columns=["what", *numbers]).astype(dict.fromkeys(numbers, "float64"))
    return frame.assign(inside=frame["planted"].between(frame["low"], frame["high"]))


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
         {_short(study.output.parent / "planted")}/ is a study whose truth is known: no language model answered
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
