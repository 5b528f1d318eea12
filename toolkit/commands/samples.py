"""The commands `toolkit samples`: record traffic, and turn captures into samples."""

from __future__ import annotations

from pathlib import Path

import click

from toolkit.commands.common import finish, json_option


@click.group()
def samples() -> None:
    """Record traffic, and turn captures into the CSV of a sample."""


@samples.command(context_settings={"ignore_unknown_options": True})
@click.argument("target", metavar="OUT.pcapng", type=click.Path(path_type=Path))
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--interface", default="lo", show_default=True, help="As dumpcap -D lists it.")
@click.option("--filter", "bpf", default="tcp port 80", show_default=True, help="Capture filter.")
@click.option("--url", "urls", multiple=True, help="Request this URL; as often as there are URLs.")
@click.option("--packets", type=click.IntRange(min=1), help="Stop after so many packets.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so long.")
@json_option
def capture(
    target: Path,
    command: tuple[str, ...],
    interface: str,
    bpf: str,
    urls: tuple[str, ...],
    packets: int | None,
    seconds: float | None,
    as_json: bool,
) -> int:
    """Record into OUT.pcapng while COMMAND (after --) or the URLs are requested."""
    from toolkit.samples.capture import capture as record

    done = record(
        target,
        interface=interface,
        bpf=bpf,
        command=command,
        urls=urls,
        packets=packets,
        seconds=seconds,
    )
    return finish(done.summary(), as_json)


@samples.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT.csv", type=click.Path(path_type=Path))
@click.option("--column", "columns", multiple=True, help="Only this column; as often as there are columns.")
@click.option(
    "--per-stream", is_flag=True, help="One CSV a TCP stream: OUT-stream-0.csv, ..., OUT-other.csv."
)
@click.option(
    "--pseudonymise",
    "key",
    type=click.Path(path_type=Path),
    help="Replace addresses; the key is in this file.",
)
@click.option("--reader", default="auto", show_default=True, help="pyshark, fast, or auto: fast from 5 MB.")
@click.option("--filter", "display_filter", help="Only packets that pass this display filter.")
@click.option(
    "--hash/--no-hash", "capture_hash", default=True, help="SHA-256 and size of IN in the provenance."
)
@json_option
def convert(
    source: Path,
    target: Path,
    columns: tuple[str, ...],
    per_stream: bool,
    key: Path | None,
    reader: str,
    display_filter: str | None,
    capture_hash: bool,
    as_json: bool,
) -> int:
    """Turn the capture IN into the sample OUT.csv, with its provenance beside it."""
    from toolkit.samples.convert import convert as turn
    from toolkit.samples.pseudonyms import read_key

    done = turn(
        source,
        target,
        columns=columns or None,
        per_stream=per_stream,
        pseudonymise=read_key(key) if key else None,
        reader=reader,
        display_filter=display_filter,
        capture_hash=capture_hash,
    )
    return finish(done.summary(), as_json)
