"""The demo: a study of planted truth, and the whole main job with a local model and no key, within a budget of time."""

import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pandas as pd

from toolkit.files.shipped import workspace
from toolkit.runs.measure import Outcome
from toolkit.stats.result import Estimate
from toolkit.study import Study
from toolkit.words import LENGTH_BINS, Summary, money

_STEPS = {"M-S": "m_minus_s", "L-M": "l_minus_m"}
_BASE = len(LENGTH_BINS)
"""Runs of one base; a part of a base says nothing of prompt length."""
TEMPLATES = ("run_study", "judge_reliability", "conditions")


def run_demo(*, limit: int | None = None, minutes: float = 5.0, progress: bool = True) -> Summary:
    """Run the planted study, then the demo study as far as the time allows, and everything that follows from both."""
    started = monotonic()
    templates = workspace() / "templates"
    _run_planted(templates / "planted.toml", progress, started)
    study = Study.load(templates / "demo.toml")
    planned = len(study.plan.runs)
    size = f"{planned} runs, {len(study.plan.judges)} judges"
    _say(f"study {study.name}, a real model: {size}; asking what is missing, for {minutes:g} minutes at most")
    outcome, new_calls = ask_within(study, 60 * minutes, limit=limit, progress=progress)
    _say("figures and tables")
    files = study.figures()
    _say(f"notebooks: {', '.join(TEMPLATES)} (papermill, a real kernel each)")
    target, jobs = study.output / "notebooks", []
    for name in TEMPLATES:
        parameters: dict[str, Any] = {"study": str(study.path)}
        if name == "run_study":  # else it would ask the runs that were left out
            parameters["limit"] = outcome.planned
        jobs.append((templates / f"{name}.ipynb", target / f"{name}.ipynb", parameters))
    from toolkit.batch import run_templates

    notebooks = run_templates(jobs)
    status = study.status()
    seconds = monotonic() - started
    kinds = {suffix: sum(path.suffix == suffix for path in files) for suffix in (".pdf", ".png", ".tex")}
    fields: dict[str, Any] = {"new_calls": new_calls, "asked": outcome.planned, "planned": planned}
    fields |= {"status": status, "seconds": seconds, "files": [str(path) for path in (*files, *notebooks)]}
    tool = ".venv/bin/toolkit" if Path(".venv/bin/toolkit").is_file() else "toolkit"
    judgements, store = status["judgements"], _short(study.plan.store_folder)
    more = "" if outcome.planned == planned else "; the same command goes on with the next"
    text = f"""
The demo is done in {seconds:.0f} s.

  asked  {outcome.planned} of {planned} runs{more}
  made   {status["runs"]["succeeded"]} runs and {judgements["done"]} judgements, {judgements["scored"]} with scores;
         {new_calls} calls were asked just now
         {kinds[".pdf"]} figures as PDF, SVG and PNG, {kinds[".tex"]} LaTeX tables, {len(notebooks)} executed notebooks
  where  {_short(study.output)}/ (figures/, tables/, notebooks/); every reply is kept in {store}/
         {_short(study.output.parent / "planted")}/ is a study whose truth is known: no language model answered
  cost   {money(status["spent_aud"])}: the model ran on this machine
  note   {study.note}

  next   {tool} lab   opens notebooks/00_start_here.ipynb
         {tool} status templates/demo.toml
         copy templates/gpt4o_claude.toml, put your keys in .env, then
         {tool} estimate YOUR.toml   before a cent is spent
"""
    return Summary({**outcome.to_dict(), **fields}, text, outcome.exit_code)


def ask_within(
    study: Study, seconds: float, *, limit: int | None = None, progress: bool = True
) -> tuple[Outcome, int]:
    """Ask and judge base after base until all is done or the next would not fit into the time; one base at least.

    Returns the outcome of all that is asked by then (``planned`` says how far that is) and the number of new calls.
    """
    ends, total = monotonic() + seconds, len(study.plan.runs[:limit])
    status, judges = study.status(), len(study.plan.judges)
    # A study that was stopped may have more replies than judged ones.
    judged = min(status["runs"]["succeeded"], status["judgements"]["done"] // judges)
    count, new_calls = judged // _BASE * _BASE, 0
    while True:
        begun = monotonic()
        count = min(total, count + _BASE)
        outcome = study.execute(progress=progress, limit=count)
        new_calls += outcome.new_calls
        now = monotonic()
        if count == total or now + (now - begun) > ends or not outcome.succeeded:
            return outcome, new_calls


def _run_planted(path: Path, progress: bool, started: float) -> None:
    _say("study planted, whose truth is known: no language model answers in it")
    with Study.load(path) as study:
        new_calls = study.execute(progress=progress).new_calls
        # Rounded before zero is added, so that none is printed as -0.00.
        for row in (planted_and_found(study).set_index("what").round(2) + 0.0).reset_index().itertuples():
            interval = f"[{row.low:.2f}, {row.high:.2f}]"
            _say(f"  {row.what}: planted {row.planted:.2f}, found {row.found:.2f} {interval}")
        _say(f"{_short(study.output)}/ has its figures next; {monotonic() - started:.0f} s so far")
        if new_calls or not (study.output / "figures").is_dir():
            study.figures()


def planted_and_found(study: Study) -> pd.DataFrame:
    """Return what a study file plants beside what the study finds: one row a value, with its interval.

    The columns are what, planted, found, low, high (score points, or a share of runs), and inside: whether the interval
    has what is planted. No rows where nothing is planted.

    Examples
    --------
    >>> study = Study.load("templates/planted.toml")  # doctest: +SKIP
    >>> planted_and_found(study)[["what", "planted", "found"]].round(2).head(3)  # doctest: +SKIP
                        what  planted  found
    0                    M-S      0.3   0.34
    1                    L-M      0.0  -0.01
    2  planted-a - planted-b      0.0  -0.03
    """
    truths = {entry.label: entry.planted for entry in study.file.under_test if entry.planted}
    rows: list[tuple[str, float, Estimate]] = []
    if len(truths) == len(study.file.models) and study.answers("length"):
        contrasts = {estimate.name: estimate for estimate in study.length().contrasts}
        for name, key in _STEPS.items():
            if name in contrasts:
                added = sum(getattr(truth, key) for truth in truths.values()) / len(truths)
                rows.append((name, added, contrasts[name]))
        for estimate in study.compare_models().differences if len(truths) > 1 else ():
            first, second = (truths[name] for name in estimate.name.split(" - "))
            rows.append((estimate.name, first.level - second.level, estimate))
        ensemble = study.file.judges.by_role()
        judges = {role: judge.planted for role, judge in ensemble.items() if judge.planted}
        leniency = study.reliability().leniency[study.file.analysis.score]
        for role, estimate in leniency.items() if len(judges) == len(ensemble) else ():
            severities = [judge.severity for name, judge in judges.items() if name != role]
            rows.append((estimate.name, sum(severities) / len(severities) - judges[role].severity, estimate))
        failures = sum(truth.failures for truth in truths.values()) / len(truths)
        rows.append(("runs without a score", failures, study.missing().overall[0]))
    table = [(name, planted, result.estimate, result.low, result.high) for name, planted, result in rows]
    numbers = ["planted", "found", "low", "high"]
    frame = pd.DataFrame(table, columns=["what", *numbers]).astype(dict.fromkeys(numbers, "float64"))
    return frame.assign(inside=frame["planted"].between(frame["low"], frame["high"]))


def _short(path: Path) -> str:
    return str(path.relative_to(cwd) if path.is_relative_to(cwd := Path.cwd()) else path)


def _say(text: str) -> None:
    print(f"demo: {text}", file=sys.stderr, flush=True)
