"""The command line: each command is one call of a function that stands elsewhere.

Heavy packages are imported inside the commands, so that help is instant. Exit codes: 0 done, 1 done but some runs
failed, 2 bad input, 3 budget reached, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import takewhile
from pathlib import Path

import click

from toolkit import __version__
from toolkit.commands.batch import batch
from toolkit.commands.common import STUDY, finish, json_option
from toolkit.commands.export import export, import_
from toolkit.commands.hallucination import hallucination
from toolkit.commands.judges import judges
from toolkit.commands.prompts import prompts
from toolkit.commands.ratings import ratings
from toolkit.commands.samples import samples
from toolkit.commands.verify import verify
from toolkit.errors import ToolkitError
from toolkit.summary import Summary
from toolkit.viewer.visible import visible

_EPILOG = """STUDY is a study file such as templates/demo.toml. Exit codes: 0 done, 1 some runs failed or differ,
2 bad input, 3 budget reached, 130 stopped by Ctrl-C. With --json an error is one object too: error and exit_code."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(__version__, prog_name="toolkit")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Evaluate language models on security work: ask, keep, judge, analyse."""


@cli.command(short_help="Run a whole study with a local model, no key needed.")
@click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N of the 36 runs.")
@json_option
def demo(limit: int | None, as_json: bool) -> int:
    """Run a whole study with a local model, without a key, under results/demo/."""
    from toolkit.demo import run_demo

    return finish(run_demo(limit=limit, progress=True), as_json)


@cli.command(short_help="Check this machine and say what to do.")
@json_option
def doctor(as_json: bool) -> int:
    """Check what the toolkit needs on this machine and say what to do about it."""
    from toolkit.doctor import examine

    return finish(examine(), as_json)


@cli.command()
@STUDY
@json_option
def estimate(study: Path, as_json: bool) -> int:
    """Say what STUDY will cost in AUD before anything is spent."""
    from toolkit.runs.estimate import estimate_summary
    from toolkit.study import Study

    return finish(estimate_summary(Study.load(study).estimate()), as_json)


@cli.command(short_help="Ask and judge what is missing in STUDY.")
@STUDY
@click.option("--yes", is_flag=True, help="Spend more than budget.confirm_above_aud without being asked.")
@click.option("--limit", type=click.IntRange(min=1), help="Ask only the first N planned runs.")
@click.option(
    "--replay", is_flag=True, help="Make all runs and judgements again from the ledger, without a network."
)
@json_option
def run(study: Path, yes: bool, limit: int | None, replay: bool, as_json: bool) -> int:
    """Ask and judge what is missing in STUDY; resumes where it stopped."""
    from toolkit.runs.estimate import confirm_needed
    from toolkit.study import Study

    loaded = Study.load(study)
    if not (yes or replay):
        confirm_needed(loaded.estimate(), loaded.file.budget.confirm_above_aud)
    return finish(loaded.execute(limit=limit, replay=replay).summary(), as_json)


@cli.command(short_help="Fill the judgements that STUDY lacks.")
@STUDY
@json_option
def judge(study: Path, as_json: bool) -> int:
    """Fill the judgements that STUDY still lacks, without asking any run again."""
    from toolkit.study import Study

    return finish(Study.load(study).execute(only_judge=True).summary(), as_json)


@cli.command(short_help="Say how far STUDY is and what was spent.")
@STUDY
@click.option(
    "--watch",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Look again every SECONDS until no process works on STUDY.",
)
@json_option
def status(study: Path, watch: float | None, as_json: bool) -> int:
    """Say how far STUDY is: done, failed, in flight, missing, time left, and what was spent."""
    from toolkit.runs.status import status_summary, statuses
    from toolkit.study import Study

    found = statuses(Study.load(study).status, watch)
    for look in list(found)[-1:] if as_json else found:
        if watch:
            click.clear()  # does nothing where standard output is no terminal
        code = finish(status_summary(look), as_json)
    return code


@cli.command(short_help="Settle what STUDY may have been billed for calls without a reply.")
@STUDY
@click.option("--billed/--not-billed", required=True, default=None, help="What the provider's bill says.")
@click.option("--note", required=True, help="How that is known; kept with the settlement.")
@json_option
def settle(study: Path, billed: bool, note: str, as_json: bool) -> int:
    """Count what STUDY may have been billed for calls without a reply as spent, or take it off the budget."""
    from toolkit.runs.settling import settle
    from toolkit.study import Study

    loaded = Study.load(study)
    return finish(settle(loaded.store, loaded.name, billed=billed, note=note), as_json)


@cli.command(short_help="Write figures and tables, or the thesis bundle.")
@STUDY
@click.option(
    "--bundle",
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Write the thesis bundle, which compiles as it is: into DIR, or bundle/ in the output folder.",
)
@json_option
def figures(study: Path, bundle: str | None, as_json: bool) -> int:
    """Write every figure and table of STUDY into its output folder."""
    from toolkit.study import Study

    loaded = Study.load(study)
    files = loaded.figures() if bundle is None else loaded.bundle(bundle or None)
    paths = [str(path) for path in files]
    return finish(Summary({"files": paths}, "\n".join(paths)), as_json)


@cli.command(short_help="ICC, alpha and Pearson of a file of ratings.")
@click.argument("ratings", type=click.Path(path_type=Path))
@json_option
def reliability(ratings: Path, as_json: bool) -> int:
    """Print ICC (six forms), Cronbach's alpha and Pearson for RATINGS (columns target, judge, score[, dimension])."""
    from toolkit.report.text import reliability_text
    from toolkit.stats.agreement.ratings import read_ratings
    from toolkit.stats.agreement.reliability import reliability as analyse

    result = analyse(read_ratings(ratings))
    return finish(Summary(result.to_dict(), reliability_text(result)), as_json)


@cli.command(short_help="Score a one-shot test, with its interval.")
@click.argument("expected", metavar="I1", type=int)
@click.argument("unexpected", metavar="I0", type=int)
@click.argument("hallucinated", metavar="H", type=int)
@json_option
def score(expected: int, unexpected: int, hallucinated: int, as_json: bool) -> int:
    """Score a one-shot test with I1 expected, I0 unexpected and H hallucinated answers."""
    from toolkit.scoring.one_shot import one_shot_score

    result = one_shot_score(expected, unexpected, hallucinated)
    return finish(Summary(result.to_dict(), result.sentence()), as_json)


@cli.command()
def lab() -> int:
    """Open JupyterLab on the notebooks."""
    import subprocess

    root = Path(__file__).resolve().parent.parent
    folder = root if (root / "notebooks").is_dir() else Path.cwd()
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # whoever is root in a container has no other account to use
    if (folder / "notebooks" / "00_start_here.ipynb").is_file():
        command.append("--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb")
    return subprocess.call(command)


cli.add_command(batch)
cli.add_command(export)
cli.add_command(import_)
cli.add_command(hallucination)
cli.add_command(judges)
cli.add_command(prompts)
cli.add_command(ratings)
cli.add_command(samples)
cli.add_command(verify)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: an error is one line, a traceback only with ``--debug``.

    With ``--json`` an error is also an object on standard output, with ``error`` and ``exit_code``.
    """
    given = sys.argv[1:] if arguments is None else arguments
    # After the name of the command it is not ours: of `samples capture OUT -- COMMAND` it is the command's.
    debug = "--debug" in takewhile(lambda argument: argument.startswith("-"), given)
    try:
        code = cli.main(args=given, prog_name="toolkit", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # `toolkit` alone: what it says is help, in lines
        code = error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        if debug and not isinstance(error, click.ClickException):
            raise
        line, code = _line(error), _exit_code(error)
        click.echo(line, err=True)
        if "--json" in takewhile(lambda argument: argument != "--", given):
            click.echo(json.dumps({"error": line.removeprefix("toolkit: "), "exit_code": code}))
    sys.exit(code or 0)


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))  # servers and files may have had a hand in it


def _line(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        where = f"{error.ctx.command_path} --help shows how" if error.ctx else "toolkit --help"
        return f"toolkit: {_one_line(error.format_message())} ({where})"
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "toolkit: stopped; what was answered is kept, run the same command again to go on"
    if isinstance(error, click.ClickException):
        return f"toolkit: {_one_line(error.format_message())}"
    if isinstance(error, ToolkitError):
        return f"toolkit: {_one_line(str(error))}"
    if (
        isinstance(error, Exception) and type(error).__module__ == "pymongo.errors"
    ):  # imported where it comes from
        from toolkit.store.writer import reason_of, what_to_do

        return f"toolkit: the store failed ({_one_line(reason_of(error))}); {what_to_do(error)}"
    if (
        isinstance(error, OSError) and error.strerror
    ):  # a full disk, a folder that is not ours: the user's to mend
        place = f"{error.filename}: " if error.filename else ""
        return (
            f"toolkit: {_one_line(place + error.strerror)}; what was kept before stays, mend it and run again"
        )
    said = f"unexpected {type(error).__name__}: {_one_line(str(error))}"
    return f"toolkit: {said}; `toolkit --debug COMMAND ...` shows where"


def _exit_code(error: BaseException) -> int:
    if isinstance(error, ToolkitError):
        return error.exit_code
    return 130 if isinstance(error, click.Abort | KeyboardInterrupt) else 2


if __name__ == "__main__":
    main()
