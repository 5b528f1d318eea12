"""The command line: each command is one function here, which calls one of another room and prints its summary.

Heavy packages are imported inside the commands, so that help is instant. Exit codes: 0 done, 1 done but some runs
failed, 2 bad input, 3 budget reached, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from traceback import format_exception
from typing import TYPE_CHECKING, Any

import click

from toolkit.errors import ToolkitError, redacted, redacted_words
from toolkit.words import VERSION, Summary, template

if TYPE_CHECKING:
    from toolkit.hallucination.votes import Mode
    from toolkit.models.base import ModelRequest
    from toolkit.study import Study

    PaidJob = tuple[Callable[[], Iterable[ModelRequest]], Callable[[], Summary]]

MODES = ("boolean", "cot-seed", "cot", "score")  # spelled out: importing them would make --help slow
_EPILOG = """STUDY is a study file such as templates/demo.toml. Exit codes: 0 done, 1 some runs failed or differ,
2 bad input, 3 budget reached, 130 stopped by Ctrl-C. With --json an error is one object too: error and exit_code."""
_PATH = click.Path(path_type=Path)
_COUNT = click.IntRange(min=1)
_SECONDS = click.FloatRange(min=0, min_open=True)


def _read_study(ctx: click.Context, param: Any, path: str, looks: bool = False) -> Any:
    from toolkit.study import Study

    if ctx.resilient_parsing:  # the Tab key asks what may follow, and needs no study for that
        return None
    ctx.meta["study"] = path
    return Study.load(path, looks=looks)


_STUDY = click.argument("study", callback=_read_study, type=click.Path())  # a shell completes paths
_LOOKED_AT = click.argument("study", callback=functools.partial(_read_study, looks=True), type=click.Path())
_YES = click.option("--yes", is_flag=True, help="Spend beyond budget.confirm_above_aud without being asked.")
_STUDY_OPTION = functools.partial(
    click.option, "--study", required=True, callback=_read_study, type=click.Path(), metavar="PATH"
)
_NEXT = re.compile(r"(`toolkit \w+ )STUDY\b")
_JSON = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object on standard output.")


class _Apart(click.Group):
    """A group whose help names its commands, and its groups of commands apart from them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title in ("Commands", "Groups"):
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, command.get_short_help_str(100))
                        for name, command in sorted(self.commands.items())
                        if isinstance(command, click.Group) is (title == "Groups")
                    ]
                )


@click.group(cls=_Apart, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(VERSION, prog_name="toolkit")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Evaluate language models on security work: ask, keep, judge, analyse."""


@cli.group()
def judges() -> None:
    """Measure the judges of a study."""


@cli.group()
def prompts() -> None:
    """Check datasets of prompts, and compare them."""


@cli.group()
def ratings() -> None:
    """Have people rate replies, blind, or bring in ratings from a file."""


@cli.group()
def samples() -> None:
    """Record traffic, turn captures into the CSV of a sample, and score what a model read in it."""


def _command(group: click.Group = cli, **options: Any) -> Callable[..., Any]:
    """Make a command with ``--json`` of a function that returns a summary, or yields one after the other.

    The first sentence of its docstring is its line in the list of commands.
    """

    def register(function: Callable[..., Summary | Iterator[Summary]]) -> click.Command:
        @functools.wraps(function)
        def run(as_json: bool, **arguments: Any) -> int:
            result = function(**arguments)
            if isinstance(result, Summary):
                return _finish(result, as_json)
            return [_finish(summary, as_json) for summary in (list(result)[-1:] if as_json else result)][-1]

        # Click keeps them last first: --json stands behind all other options in the help.
        run.__dict__["__click_params__"] = [_JSON, *getattr(function, "__click_params__", [])]
        return group.command(**options)(run)

    return register


def _paid(function: Callable[..., PaidJob]) -> Any:
    """Make a command of judges from a function that returns what gives the requests of a job, and what does the job.

    It stops before requests that cost more than the study spends unasked, unless the user said ``--yes``.
    """

    @functools.wraps(function)
    def run(study: Study, yes: bool, **arguments: Any) -> Summary:
        from toolkit.pipeline import confirm_asking

        requests, execute = function(study=study, **arguments)
        if not yes:
            confirm_asking(study.plan, study.store, requests())
        return execute()

    return _command(judges)(_YES(run))


class _ManyValues(click.Command):
    """A command some of whose options take all up to the next option, as in shells of other languages."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread, many = [], ""
        for arg in args:
            if arg.startswith("-") and not (many and arg[1:2].isdigit()):  # -1= is a value
                many = arg if arg in ("--judges", "--values", "--only") else ""
            elif many:
                spread += [many, arg]
            if not many:
                spread.append(arg)
        return super().parse_args(ctx, spread)


def _choice(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that choose what is written, and how large it is."""
    for option in (
        click.option("--font", type=float, metavar="PT", help="Size of the type: 9 by default."),
        click.option("--width", type=float, metavar="MM", help="Of the text of a page: 160 by default."),
        click.option("--only", multiple=True, metavar="NAME...", help="These figures alone; name them last."),
        click.option(
            "--format",
            default="latex",
            show_default=True,
            type=click.Choice(("latex", "docx")),
            help="Of the bundle: a document for Word besides.",
        ),
    ):
        command = option(command)
    return command


def _check_choice(bundle: bool, figures: bool, format: str, choice: Mapping[str, Any]) -> None:
    if format != "latex" and not bundle:
        raise click.UsageError(f"--format {format} is of a bundle; add --bundle")
    if not figures and any(choice.values()):
        raise click.UsageError("--only, --width and --font are of --figures, and of no bundle")


def _finish(summary: Summary, as_json: bool) -> int:
    if as_json:
        # In ASCII, which every terminal, pipe and file takes, whatever is in a path or a text of a server.
        click.echo(redacted(json.dumps(summary.fields, default=str, allow_nan=False)))
    else:
        # A command that comes next can be typed as it is printed.
        path = shlex.quote(click.get_current_context().meta.get("study", "STUDY"))
        click.echo(_visible(_NEXT.sub(lambda match: f"{match[1]}{path}", summary.text)))
    return summary.exit_code


@_command()
@click.option("--limit", type=_COUNT, help="Ask only the first N of the 36 runs.")
@click.option(
    "--minutes", type=_SECONDS, default=5.0, show_default=True, help="Ask the model so long at most."
)
def demo(**limits: Any) -> Summary:
    """Run a whole study with a local model, no key needed. A planted study comes first; both are under results/."""
    from toolkit.getting_started.demo import run_demo

    return run_demo(**limits)


@_command()
def doctor() -> Summary:
    """Check this machine and say what to do. Everything that the toolkit needs is looked at."""
    from toolkit.getting_started.doctor import examine

    return examine()


@_command()
@click.argument("folder", type=_PATH)
def init(folder: Path) -> Summary:
    """Make a thesis folder that stands alone.

    FOLDER has two study files, notebooks, templates, a Makefile, references, README.
    """
    from toolkit.getting_started.folder import init_folder

    return init_folder(folder)


@cli.command()
def lab() -> None:
    """Open JupyterLab on the notebooks."""
    from toolkit.getting_started.doctor import open_lab

    open_lab()


@cli.command()
@_LOOKED_AT
def view(study: Study) -> None:
    """Read the answers of STUDY in a browser. Only this machine can open the page, until Ctrl-C; it changes nothing.

    Load the page again to see the runs that came since.
    """
    from toolkit.viewer.serve import serve_page

    with study:
        serve_page(study.plan, study.store, click.echo)


@_command()
def docs() -> Summary:
    """Open the documentation in the browser; nothing is loaded from the network."""
    from toolkit.getting_started.doctor import open_docs

    return open_docs()


@_command()
@_STUDY
@click.option(
    "--plan", type=_PATH, metavar="FILE.md", help="Write its plan on one page besides, for a supervisor."
)
@click.option("--pilot", metavar="STUDY", help="Study file of a pilot, for the power in the plan.")
def estimate(study: Study, plan: Path | None, pilot: str | None) -> Summary:
    """Say what STUDY will cost in AUD before anything is spent.

    The page of --plan has design, margin, power, cost and later changes, with the hash of what is decided.
    """
    from toolkit.reporting import needs_room
    from toolkit.runs.estimate import estimate_summary

    if plan:
        with needs_room():
            from toolkit.audit.registration import register
        return register(study, type(study).load(pilot) if pilot else None, plan)
    if pilot:
        raise click.UsageError("--pilot is for the power in the plan; add --plan FILE.md")
    return estimate_summary(study.estimate())


@_command()
@_STUDY
@_YES
@click.option("--limit", type=_COUNT, help="Ask only the first N planned runs.")
@click.option("--only-judge", is_flag=True, help="Fill the judgements that lack; no run is asked.")
@click.option("--replay", is_flag=True, help="Make runs and judgements again from the ledger, offline.")
def run(study: Study, yes: bool, **options: Any) -> Summary:
    """Ask and judge what is missing in STUDY. It resumes where it stopped."""
    from toolkit.runs.estimate import confirm_needed, estimate_frame
    from toolkit.runs.provenance import shared_replies

    if not (yes or options["replay"]):
        frame = estimate_frame(study.plan, study.store, only_judge=options["only_judge"])
        confirm_needed(frame, study.file.budget.confirm_above_aud)
    lines = template("runs", "lines.jinja").module
    click.echo(
        lines.shared(shared_replies(study.plan, study.store), len(study.plan.runs)), err=True, nl=False
    )
    return study.ending(study.execute(**options))


@_command()
@_LOOKED_AT
@click.option("--watch", type=_SECONDS, metavar="S", help="Look every S seconds until nobody works on STUDY.")
@click.option(
    "--settle",
    type=(click.Choice(("billed", "not-billed")), str),
    metavar="billed|not-billed NOTE",
    help="Settle what calls without a reply may have cost; NOTE says how it is known, and is stored.",
)
def status(study: Study, watch: float | None, settle: tuple[str, str] | None) -> Iterator[Summary]:
    """Say how far STUDY is and what was spent. That is done, failed, in flight, missing, and the time left.

    With --settle it does that alone: the amount counts as spent, or is taken off the budget, as the provider's bill
    says.
    """
    from toolkit.runs import budget
    from toolkit.runs.status import status_summary, statuses

    if settle:
        yield budget.settle(study.store, study.name, billed=settle[0] == "billed", note=settle[1])
        return
    for look in statuses(study.status, watch):
        if watch:
            click.clear()  # does nothing where standard output is no terminal
        yield status_summary(look)


@_command(cls=_ManyValues)
@_STUDY
@click.option("--figures", is_flag=True, help="Write every figure and table instead.")
@click.option("--bundle", is_flag=True, help="Write the thesis bundle instead, which compiles as it is.")
@click.option("--supplement", is_flag=True, help="Add all other figures, tables and statistics.")
@_choice
def report(
    study: Study, figures: bool, bundle: bool, supplement: bool, format: str, **choice: Any
) -> Summary:
    """Write the report, the thesis bundle or all figures.

    Findings of STUDY with at most five figures, as one HTML file to read and mail, in the output folder.
    """
    from toolkit.report.show import written_summary

    _check_choice(bundle, figures, format, choice)
    if figures:
        if bundle or supplement:
            raise click.UsageError("--figures writes all of them; leave --bundle and --supplement out")
        return written_summary(study.figures(**choice, progress=True))
    if bundle:
        return written_summary(study.bundle(format=format, supplement=supplement, progress=True))
    path = study.report(supplement=supplement)
    return Summary({"report": str(path)}, str(path))


@_command()
@click.argument("study", metavar="STUDY|FOLDER", type=_PATH)
def verify(study: Path) -> Summary:
    """Compare STUDY, or an exported FOLDER, with its ledger.

    Make runs, judgements, figures and bundle of STUDY again from its ledger and name every difference.

    Of a FOLDER that `toolkit export` wrote, every edited file, record and cell; nothing else is needed.
    """
    if study.is_dir():
        from toolkit.audit.verify_export import verify_export

        return verify_export(study)
    from toolkit.audit.verify import verify_study

    return verify_study(_read_study(click.get_current_context(), None, str(study)))


@_command()
@_STUDY
@click.argument("out", type=_PATH)
def export(study: Study, out: Path) -> Summary:
    """Write all frames and records of STUDY into a folder.

    Write every frame of STUDY into the folder OUT as CSV and Parquet, with dictionary, study file and all records.

    `toolkit verify OUT` names every later edit, on any machine.
    """
    from toolkit.audit.export import export_study

    return export_study(study, out)


@_command(cls=_ManyValues)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_PATH)
@click.option(
    "--column", "columns", multiple=True, metavar="OURS=THEIRS", help="item=doc; cluster= is no column."
)
@click.option("--judges", multiple=True, metavar="NAME...", help="Columns that are a judge each; after FILE.")
@click.option(
    "--values", multiple=True, metavar="A=4...", help="What texts and codes are worth; -1= is missing."
)
@click.option("--scale", nargs=2, type=float, metavar="LOW HIGH", help="Ends of the scale of the scores.")
@click.option("--metric", help="Metric, scorer, key of a score, dimension or judge to take alone.")
@click.option("--name", help="Of these scores; that of FILE by default.")
@click.option("--out", "output", type=_PATH, metavar="DIR", help="results/NAME by default.")
@click.option("--bundle", is_flag=True, help="Write the thesis bundle, not figures and tables alone.")
@_choice
def analyse(
    files: tuple[Path, ...],
    columns: tuple[str, ...],
    values: tuple[str, ...],
    bundle: bool,
    format: str,
    **options: Any,
) -> Iterator[Summary]:
    """Analyse anybody's scores: tables, logs of other tools.

    Say what each column of FILE was taken for and which questions it can answer; then write figures and tables.

    FILE is a CSV, TSV, Excel, Parquet or JSONL table, a log of inspect_ai (.eval, .json), samples of lm-eval or results
    of promptfoo (.json). Several are put one under the other.
    """
    from toolkit.report.show import written_summary
    from toolkit.scores.scores import Scores, parse_pairs

    choice = {name: options.pop(name) for name in ("only", "width", "font")}
    _check_choice(bundle, not bundle, format, choice)
    scores = Scores.load(
        *files,
        columns=parse_pairs(columns, "column", "OURS=THEIRS, e.g. item=doc"),
        values=parse_pairs(values, "value", "TEXT=NUMBER, e.g. A=4"),
        **options,
    )
    summary = scores.summary()
    yield summary
    written = (
        scores.bundle(format=format, progress=True) if bundle else scores.figures(**choice, progress=True)
    )
    yield written_summary(written, summary.fields)


@_command(samples)
@click.argument("expected", metavar="I1", type=int)
@click.argument("unexpected", metavar="I0", type=int)
@click.argument("hallucinated", metavar="H", type=int)
def score(**counts: Any) -> Summary:
    """Score a one-shot test, with its interval. It has I1 expected, I0 unexpected and H hallucinated answers."""
    from toolkit.scoring import one_shot_score

    result = one_shot_score(**counts)
    return Summary(result.to_dict(), result.sentence())


@_command()
@click.argument("template", type=_PATH)
@click.argument("grid", metavar="GRID.toml", type=_PATH)
@click.option("--workers", type=_COUNT, metavar="N", help="Notebooks at the same time; else one a core.")
@click.option("--retry", is_flag=True, help="Run those again that failed before.")
@click.option("--timeout", type=_SECONDS, metavar="S", help="Seconds that a notebook may take.")
@click.option("--cell-timeout", type=_SECONDS, metavar="S", help="Seconds that each of its cells may take.")
@click.option("--out", type=_PATH, metavar="DIR", help="By default results/batches/GRID beside the grid.")
@click.option("--cluster", metavar="ADDRESS", help="Run on the Dask cluster with this scheduler.")
def batch(template: Path, grid: Path, **options: Any) -> Summary:
    """Run a notebook template over a grid of parameters.

    TEMPLATE runs once for each cell of the grid GRID.toml; what is done is not run again.
    """
    from toolkit.batch import run_batch

    return run_batch(template, grid, **options).summary()


@_paid
@_STUDY
@click.option("--replies", default=12, show_default=True, type=_COUNT, help="Stored replies to alter.")
@click.option(
    "--attacks", default=3, show_default=True, type=click.IntRange(min=0), help="Attacks in each reply."
)
def probe(study: Study, **sizes: Any) -> PaidJob:
    """Ask the judges of STUDY about altered replies: padded, with an error, shuffled, with an attack inside."""
    from toolkit.probes.job import probe_judges, probe_requests, probe_targets

    plan, store = study.plan, study.store
    return (
        lambda: probe_requests(plan, probe_targets(plan, store, **sizes)),
        lambda: probe_judges(plan, store, **sizes).summary(),
    )


@_paid
@_STUDY
def elements(study: Study) -> PaidJob:
    """Look for the required elements of a good answer. The judges of STUDY do in each reply: a second instrument."""
    from toolkit.probes.job import ask_elements, element_requests, elements_summary

    plan, store = study.plan, study.store
    return (
        lambda: element_requests(plan, store),
        lambda: elements_summary(study, ask_elements(plan, store)),
    )


@_paid
@click.argument("file", metavar="[FILE]", required=False)
@_STUDY_OPTION(help="Whose judges are asked.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(MODES),
    help="Repeatable; cot by default, cot-seed for the replies of STUDY.",
)
@click.option("--k", default=5, show_default=True, type=click.IntRange(1, 1000), help="Votes on each answer.")
@click.option("--limit", type=_COUNT, help="Only N answers, labels as in FILE, drawn by the study's seed.")
@click.option("--figures", type=_PATH, help="Write figures, tables and verdicts into this folder.")
def hallucination(
    file: str | None,
    study: Study,
    modes: tuple[Mode, ...],
    k: int,
    limit: int | None,
    figures: Path | None,
) -> PaidJob:
    """Ask judges which answers are hallucinations.

    FILE has answers, with known labels or without, or is "security", which ships; without FILE they are the replies of
    STUDY.

    Answers with a label say how often each judge is right, those without one are counted: the share of yes.
    """
    from toolkit.hallucination import comparison
    from toolkit.hallucination.labelled import read_items, some_items

    plan = study.plan
    default: Mode = "cot" if file else "cot-seed"
    items = read_items(file) if file else comparison.reply_items(plan, study.runs(replies=True))
    items = some_items(items, limit, study.file.seed)
    tasks = comparison.hallucination_tasks(plan, items, modes or (default,))

    def execute() -> Summary:
        judged = comparison.compare_hallucination(plan, study.store, tasks, k)
        judged = judged if file else replace(judged, shares=study.hallucination())
        return judged.summary(judged.figures(figures) if figures else ())

    return lambda: comparison.comparison_requests(tasks, k), execute


@_paid
@_STUDY
@click.option("--size", default=30, show_default=True, type=_COUNT, help="Judged replies, drawn once.")
def drift(study: Study, size: int) -> PaidJob:
    """Ask the judges the same again on another day.

    Ask the judges of STUDY the same again, and say how far their scores have moved since they were asked first.

    The replies are drawn once and are the same on every later day. Asked twice on one day (UTC) nothing is paid twice.
    Exit code 1 where a composite is not shown to be within judges.drift_tolerance.
    """
    from toolkit.probes.drift import drift_job, measure_drift
    from toolkit.runs.stages import stage_requests

    job = drift_job(study.plan, study.store, size)
    return lambda: stage_requests(job.stage, study.plan, study.store), lambda: measure_drift(study, job)


@_command(prompts)
@click.argument("dataset", metavar="DATASET")
@click.option("--all", "show_all", is_flag=True, help="Show every problem, not three of each kind.")
def check(dataset: str, show_all: bool) -> Summary:
    """Name every flaw of a dataset of prompts.

    Check DATASET (a name, a folder of bases, a CSV, JSON or JSONL) for all that would confound prompt lengths.

    Kinds of problems with counts and examples: the prompt, what is wrong, what to do. Exit code 1 when there is one.
    """
    from toolkit.prompts.check import check_summary

    return check_summary(dataset, every=show_all)


@_command(prompts)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
def diff(before: str, after: str) -> Summary:
    """List what changed between two versions of a dataset.

    From dataset A to dataset B, prompt by prompt. Exit code 1 when they differ.
    """
    from toolkit.prompts.diff import diff_summary

    return diff_summary(before, after)


@ratings.command("desk")
@_STUDY
def rating_desk(study: Study) -> None:
    """Rate replies of STUDY in the browser, blind, as one of several raters. Only this machine can open it.

    Each rating is saved before the next reply is shown. Ctrl-C ends the desk; a rater goes on where she stopped.
    """
    from toolkit.people.desk import serve_desk

    with study:
        serve_desk(study.plan, study.store, click.echo)


@_command(ratings, name="import")
@_STUDY
@click.argument("file", metavar="FILE.csv", type=_PATH)
@click.option("--rater", help="Whose ratings these are, where FILE.csv has no column rater.")
def import_ratings(study: Study, file: Path, rater: str | None) -> Summary:
    """Keep the ratings in FILE.csv (run_id, rater, dimension and score, or a column each) as judgements of STUDY."""
    from toolkit.people.ratings_file import import_ratings

    return import_ratings(study.plan, study.store, file, rater)


@_command(samples, context_settings={"ignore_unknown_options": True})
@click.argument("target", metavar="OUT.pcapng", type=_PATH)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--interface", default="lo", show_default=True, help="As dumpcap -D lists it.")
@click.option("--filter", "bpf", default="tcp port 80", show_default=True, help="Capture filter.")
@click.option("--url", "urls", multiple=True, help="Request this URL; as often as there are URLs.")
@click.option("--packets", type=_COUNT, help="Stop after so many packets.")
@click.option("--seconds", type=_SECONDS, help="Stop after so long.")
def capture(target: Path, **options: Any) -> Summary:
    """Record into OUT.pcapng while COMMAND (after --) or the URLs are requested."""
    from toolkit.traffic.capture import capture

    return capture(target, **options).summary()


@_command(samples)
@click.argument("source", metavar="IN", type=_PATH)
@click.argument("target", metavar="OUT.csv", type=_PATH)
@click.option("--column", "columns", multiple=True, help="Only this column; as often as there are columns.")
@click.option("--per-stream", is_flag=True, help="One CSV a TCP stream, OUT-other.csv for the rest.")
@click.option("--pseudonymise", "key", type=_PATH, help="Replace addresses; the key is in this file.")
@click.option("--filter", "display_filter", help="Only packets that pass this display filter.")
@click.option("--hash/--no-hash", "capture_hash", default=True, help="SHA-256 and size of IN kept with OUT.")
def convert(
    source: Path, target: Path, columns: tuple[str, ...], key: Path | None, **options: Any
) -> Summary:
    """Turn the capture IN into the sample OUT.csv, with its provenance beside it."""
    from toolkit.traffic.convert import convert
    from toolkit.traffic.pseudonyms import read_key

    pseudonyms = read_key(key) if key else None
    return convert(source, target, columns=columns or None, pseudonymise=pseudonyms, **options).summary()


_ROOMS = {
    "analyse": "scores", "batch": "batch", "capture": "traffic", "convert": "traffic", "demo": "batch",
    "desk": "people",
    "drift": "probes", "elements": "probes", "export": "audit", "hallucination": "hallucination", "import": "people",
    "init": "thesis", "probe": "probes", "verify": "audit", "view": "viewer",
}  # fmt: skip
"""The folder of the toolkit that a command is of; without the folder the command is not there."""
for _group in (judges, prompts, ratings, samples, cli):
    for _name in [*_group.commands]:
        if _name in _ROOMS and find_spec(f"toolkit.{_ROOMS[_name]}") is None:
            del _group.commands[_name]
    if not _group.commands:
        del cli.commands[str(_group.name)]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: an error is one line, a traceback only with ``--debug``.

    With ``--json`` an error is also an object on standard output, with ``error`` and ``exit_code``.
    """
    words = sys.argv[1:] if arguments is None else arguments
    # After the name of the command it is not ours: of `samples capture OUT -- COMMAND` it is the command's.
    debug = "--debug" in takewhile(lambda argument: argument.startswith("-"), words)
    sys.excepthook = lambda *error: click.echo(redacted_words("".join(format_exception(*error))), err=True)
    try:
        code = cli.main(args=words, prog_name="toolkit", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # `toolkit` alone: what it says is help, in lines
        code = error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        if debug and not isinstance(error, click.ClickException):
            raise
        line, code = _line(error), 130 if isinstance(error, click.Abort | KeyboardInterrupt) else 2
        code = error.exit_code if isinstance(error, ToolkitError) else code
        click.echo(f"toolkit: {line}", err=True)
        if "--json" in takewhile(lambda argument: argument != "--", words):
            click.echo(json.dumps({"error": line, "exit_code": code}))
    sys.exit(code or 0)


def _visible(text: str) -> str:
    """Return text that no terminal acts on: models, servers and files may have had a hand in it."""
    from toolkit.report.visible import visible

    return visible(redacted(text))


def _visible_line(text: str) -> str:
    return _visible(" ".join(text.split()))


def _line(error: BaseException) -> str:
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "stopped; what was answered is kept, run the same command again to go on"
    if isinstance(error, click.ClickException):
        if not isinstance(error, click.UsageError):
            return _visible_line(error.format_message())
        command = error.ctx.command_path if error.ctx else "toolkit"
        return f"{_visible_line(error.format_message())} ({command} --help shows how)"
    if isinstance(error, ToolkitError):
        return "\n".join(map(_visible_line, getattr(error, "faults", [str(error)])))
    if isinstance(error, Exception) and type(error).__module__ == "pymongo.errors":
        from toolkit.store.writer import reason_of, what_to_do

        return f"the store failed ({_visible_line(redacted_words(reason_of(error)))}); {what_to_do(error)}"
    if isinstance(error, OSError) and error.strerror:  # a full disk, a folder that is not the user's
        fault = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return f"{_visible_line(fault)}; what was saved before stays, mend it and run again"
    unexpected = f"unexpected {type(error).__name__}: {_visible_line(redacted_words(str(error)))}"
    return f"{unexpected}; `toolkit --debug COMMAND ...` shows where"


if __name__ == "__main__":
    main()
