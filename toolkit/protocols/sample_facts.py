"""What a sample holds, and every count that follows from it: what the claims of an answer are held against."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus

from toolkit.protocols.mentions import same_address

if TYPE_CHECKING:
    import pandas as pd

_GROUPED: Final = (
    "source",
    "destination",
    "source_port",
    "destination_port",
    "protocol",
    "tcp_flags",
    "stream",
    "method",
    "host",
    "uri",
    "status",
    "content_type",
    "user_agent",
)
"""Columns whose values are counted, alone and two by two."""
MAX_PAIRED: Final = 40
"""Values of one column up to which the counts of any two of them are added up as well."""


@dataclass(frozen=True)
class Facts:
    """What one sample holds; two of the same sample are equal.

    Parameters
    ----------
    sample
        Name of the sample.
    addresses, hosts, paths
        Addresses and hosts in their shortest form; paths decoded, in small letters, with their query string.
    statuses, ports
        Numbers that stand in the columns of status codes and of ports.
    counts
        Every count that follows: rows, different values, rows of each value and of each pair of values, what is
        left of the whole without one value, and two values of a column together.
    text
        The CSV in small letters, where a name is looked for that no column holds by itself.
    """

    sample: str
    addresses: frozenset[str]
    hosts: frozenset[str]
    paths: frozenset[str]
    statuses: frozenset[int]
    ports: frozenset[int]
    counts: frozenset[int]
    text: str = field(repr=False)

    @property
    def suffixes(self) -> frozenset[str]:
        """Return the last labels of the hosts, by which other hosts of the kind are recognised in an answer."""
        return frozenset(host.rsplit(".", 1)[1] for host in self.hosts if re.search(r"\.[a-z]+$", host))


def sample_facts(name: str, csv: str, frame: pd.DataFrame) -> Facts:
    """Return what a sample holds.

    Parameters
    ----------
    name
        Name of the sample.
    csv
        The sample as the model sees it.
    frame
        The same as a frame; columns that it lacks hold nothing.

    Returns
    -------
    Facts

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"source": ["10.0.0.1", "10.0.0.2"], "status": [pd.NA, 404]})
    >>> facts = sample_facts("tiny", frame.to_csv(), frame)
    >>> sorted(facts.addresses), sorted(facts.statuses), sorted(facts.counts)
    (['10.0.0.1', '10.0.0.2'], [404], [0, 1, 2])
    """
    hosts = {re.sub(r":\d+$", "", value.lower()) for value in _texts(frame, "host")}
    ports = {int(port) for value in _texts(frame, "host") for port in re.findall(r":(\d{1,5})$", value)}
    return Facts(
        sample=name,
        addresses=frozenset(same_address(v) for c in ("source", "destination") for v in _texts(frame, c)),
        hosts=frozenset(hosts),
        paths=frozenset(decoded_path(value) for value in _texts(frame, "uri")),
        statuses=frozenset(_numbers(frame, "status")),
        ports=frozenset(ports | _numbers(frame, "source_port") | _numbers(frame, "destination_port")),
        counts=frozenset(_counts(frame)),
        text=csv.lower(),
    )


def decoded_path(path: str) -> str:
    """Return a path, or a whole address of the web, as its path and query, decoded, in small letters.

    Examples
    --------
    >>> decoded_path("http://shop.example/Products?id=3%27"), decoded_path("/a/")
    ("/products?id=3'", '/a')
    """
    path = re.sub(r"^https?://[^/]*", "", path, flags=re.IGNORECASE)
    decoded = unquote_plus(path).lower()
    return decoded.rstrip("/") or "/"


def _texts(frame: pd.DataFrame, column: str) -> set[str]:
    return set(frame[column].dropna().astype(str)) if column in frame else set()


def _numbers(frame: pd.DataFrame, column: str) -> set[int]:
    return {int(value) for value in frame[column].dropna().unique()} if column in frame else set()


def _counts(frame: pd.DataFrame) -> Iterator[int]:
    """Yield every count that follows from the sample; many come more than once."""
    import pandas as pd

    rows = len(frame)
    yield from (0, rows)
    columns = [name for name in _GROUPED if name in frame]
    for name in columns:
        told = frame[name].dropna()
        sizes = sorted(told.value_counts().tolist())
        yield from (len(told), rows - len(told), len(sizes))
        yield from (size for one in sizes for size in (one, len(told) - one, rows - one))
        if len(sizes) <= MAX_PAIRED:
            yield from (one + other for one, other in combinations(sizes, 2))
    for first, second in combinations(columns, 2):
        grouped = frame.groupby([first, second], observed=True, sort=False).size()
        yield len(grouped)
        yield from grouped.tolist()
    # Both directions together: packets of an address, of a port.
    for ends in (("source", "destination"), ("source_port", "destination_port")):
        if set(ends) <= set(columns):
            sides = pd.concat([frame[end] for end in ends], keys=ends).dropna()
            both = sides.reset_index().iloc[:, 1:].drop_duplicates()
            sizes = both.iloc[:, -1].value_counts().tolist()
            yield from (len(sizes), *sizes)
    if "tcp_flags" in frame:
        flags = frame["tcp_flags"].dropna().astype(str).str.upper()
        yield from (
            int(flags.str.contains(rf"\b{flag}\b").sum()) for flag in ("SYN", "ACK", "FIN", "RST", "PSH")
        )
    if "status" in frame:
        classes = (frame["status"].dropna().astype(int) // 100).value_counts()
        yield from classes.tolist()
        yield int(classes[classes.index >= 4].sum())
    if "uri" in frame:
        paths = frame["uri"].dropna().astype(str).str.split("?").str[0].value_counts()
        yield from (len(paths), *paths.tolist())
    if "payload_length" in frame:
        loaded = int((frame["payload_length"].fillna(0) > 0).sum())
        yield from (loaded, rows - loaded)
