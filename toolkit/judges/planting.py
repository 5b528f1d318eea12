"""One planted error: a fact of a reply swapped for a wrong one, or a false sentence where there is no such fact."""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

INSERTED: Final = "inserted"
"""What the variant of an error starts with that is a sentence put in."""
_PORTS: Final = ("69", "179", "5060", "6667", "9100")
_TECHNIQUES: Final = ("T1123", "T1200", "T1498")
_OPPOSITES: Final = {
    **{"block": "allow", "deny": "allow", "isolate": "reconnect", "revoke": "extend", "disable": "enable"},
    **{"quarantine": "release", "preserve": "delete", "encrypt": "decrypt", "restrict": "open"},
    **{"inbound": "outbound", "outbound": "inbound", "internal": "external", "external": "internal"},
}
_SEVERITIES: Final = {
    **{"critical": "negligible", "severe": "negligible", "high": "low", "medium": "negligible"},
    **{"moderate": "negligible", "low": "critical", "informational": "critical"},
}
_NEGATIONS: Final = {
    **{"do not": "do", "don't": "do", "must not": "must", "should not": "should", "shall not": "shall"},
    **{"cannot": "can", "never": "always", "is not": "is", "are not": "are"},
}
_WEAKER: Final = {
    **{"tls 1.2": "SSL 2.0", "tls 1.3": "SSL 2.0", "sha-256": "MD5", "aes-256": "DES", "https": "HTTP"},
    **{"ssh": "Telnet", "multi-factor": "single-factor", "mfa": "password-only login"},
}
_RULES: Final = {"gdpr": "SOX", "hipaa": "PCI DSS", "pci dss": "HIPAA", "sox": "HIPAA", "nis2": "SOX"}
_SLOWER: Final = {"second": "day", "minute": "week", "hour": "month", "day": "year", "week": "decade"}


@dataclass(frozen=True)
class Planted:
    """A reply with one error in it."""

    variant: str
    text: str
    was: str
    now: str


@dataclass(frozen=True)
class _Swap:
    """A kind of fact: where it is found, and what is wrong in its place; group 1 is what is replaced."""

    name: str
    pattern: re.Pattern[str]
    wrong: Callable[[str, str, random.Random], str]


def planted_error(reply: str, seed: int | str) -> Planted:
    """Return a reply with exactly one error, in one place.

    Which kind of fact is swapped is drawn from the kinds that the reply holds, and then one of its places.

    Examples
    --------
    >>> found = planted_error("Close port 443 at the firewall.", 3)
    >>> found.variant, found.was, found.text != "Close port 443 at the firewall."
    ('port', '443', True)
    >>> planted_error("Hello.", 1).variant.split(":")[0]
    'inserted'
    """
    dice = random.Random(f"error {seed}")
    places: dict[str, list[tuple[_Swap, re.Match[str]]]] = {}
    for swap in _SWAPS:
        for match in swap.pattern.finditer(reply):
            places.setdefault(swap.name, []).append((swap, match))
    if not places:
        return _inserted(reply, dice)
    swap, found = dice.choice(places[dice.choice(list(places))])
    was = found[1]
    now = _in_case_of(was, swap.wrong(was, reply, dice))
    return Planted(swap.name, reply[: found.start(1)] + now + reply[found.end(1) :], was, now)


def _inserted(reply: str, dice: random.Random) -> Planted:
    name, sentence = dice.choice(_errors())
    ends = [found.end() for found in re.finditer(r"[.!?](?=\s)", reply)]
    cut = dice.choice([*ends, len(reply.rstrip())])
    text = f"{reply[:cut]} {sentence}{reply[cut:]}".lstrip()
    return Planted(f"{INSERTED}: {name}", text, "", sentence)


@cache
def _errors() -> tuple[tuple[str, str], ...]:
    return tuple((row["name"], row["text"]) for row in probe_data()["errors"])


@cache
def probe_data() -> Mapping[str, Any]:
    """Return the fillers and the false sentences that ship with the toolkit."""
    return tomllib.loads((resources.files("toolkit.judges") / "data" / "probes.toml").read_text("utf-8"))


def _in_case_of(was: str, now: str) -> str:
    return now[:1].upper() + now[1:] if was[:1].isupper() and was[1:].islower() else now


def _absent(choices: tuple[str, ...]) -> Callable[[str, str, random.Random], str]:
    """Draw one that the reply does not hold, so that it cannot be right by chance."""

    def wrong(was: str, reply: str, dice: random.Random) -> str:
        free = [choice for choice in choices if choice not in reply]
        return dice.choice(free or [choice for choice in choices if choice != was])

    return wrong


def _of(table: Mapping[str, str]) -> Callable[[str, str, random.Random], str]:
    return lambda was, reply, dice: table[" ".join(was.lower().split())]


def _standard(was: str, reply: str, dice: random.Random) -> str:
    if was.upper().startswith("ISO"):
        return "ISO 14001" if "9001" in was else "ISO 9001"
    return "NIST SP 800-190" if was.endswith("800-88") else "NIST SP 800-88"


def _year(was: str, reply: str, dice: random.Random) -> str:
    return str(int(was) - dice.randint(4, 7))


def _number(was: str, reply: str, dice: random.Random) -> str:
    return str(int(was) + dice.randint(31, 47))


def _unit(was: str, reply: str, dice: random.Random) -> str:
    single = was.lower().removesuffix("s")
    return _SLOWER[single] + was[len(single) :].lower()


def _words(table: Mapping[str, str]) -> str:
    return "|".join(re.escape(word).replace(r"\ ", r"[ ]") for word in table)


_ANY_CASE: Final = re.IGNORECASE
_SWAPS: Final = (
    _Swap("port", re.compile(r"\b(?:ports?|TCP|UDP)[ /:]([0-9]{1,5})\b", _ANY_CASE), _absent(_PORTS)),
    _Swap("port", re.compile(r"\b([0-9]{1,5})/(?:tcp|udp)\b", _ANY_CASE), _absent(_PORTS)),
    _Swap("vulnerability", re.compile(r"\bCVE-([0-9]{4})-[0-9]{4,7}\b", _ANY_CASE), _year),
    _Swap("technique", re.compile(r"\b(T1[0-9]{3})\b"), _absent(_TECHNIQUES)),
    _Swap("standard", re.compile(r"\b(ISO(?:/IEC)? [0-9]{4,5}|NIST SP 800-[0-9]{1,3})\b"), _standard),
    _Swap("regulation", re.compile(rf"\b({_words(_RULES)})\b", _ANY_CASE), _of(_RULES)),
    _Swap("clause", re.compile(r"\b(?:Article|Art\.|[Cc]lause|Annex A) ([0-9]{1,2})\b"), _number),
    _Swap(
        "severity",
        re.compile(rf"\b({_words(_SEVERITIES)})[ -](?:severity|risk|priority|impact)\b", _ANY_CASE),
        _of(_SEVERITIES),
    ),
    _Swap(
        "severity",
        re.compile(
            rf"\b(?:severity|risk|priority)(?: is| as| to)?[ :=]{{1,2}}({_words(_SEVERITIES)})\b", _ANY_CASE
        ),
        _of(_SEVERITIES),
    ),
    _Swap("negation", re.compile(rf"\b({_words(_NEGATIONS)})\b", _ANY_CASE), _of(_NEGATIONS)),
    _Swap("deadline", re.compile(r"\b[0-9]{1,3}[ -]((?:second|minute|hour|day|week)s?)\b", _ANY_CASE), _unit),
    _Swap("protection", re.compile(rf"\b({_words(_WEAKER)})\b", _ANY_CASE), _of(_WEAKER)),
    _Swap("action", re.compile(rf"\b({_words(_OPPOSITES)})\b", _ANY_CASE), _of(_OPPOSITES)),
)
