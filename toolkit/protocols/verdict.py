"""The verdict on one experiment, with its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.protocols.evidence import Claim
from toolkit.protocols.readings import Match


@dataclass(frozen=True)
class Verdict:
    """What one answer came to, and why."""

    verdict: str | None
    matched: bool | None
    found: str | None
    why: str
    claims: tuple[Claim, ...] = ()
    calls: tuple[str, ...] = ()

    @property
    def invented(self) -> tuple[Claim, ...]:
        """Return the claims that the sample does not hold."""
        return tuple(claim for claim in self.claims if not claim.held)


def decide(match: Match, claims: Sequence[Claim]) -> Verdict:
    """Return the verdict that the key and the evidence give, before any judge is asked.

    An answer that invents is a hallucination even where it holds the expected value: the protocol scores how far
    a model can be trusted to read a sample, and a reader cannot tell the true half from the invented one.

    Examples
    --------
    >>> decide(Match(True, "80", "names it"), [Claim("host", "evil.example", 9, False)]).verdict
    'hallucinated'
    """
    invented = [claim for claim in claims if not claim.held]
    verdict: str | None = None
    why = match.why
    if invented:
        verdict = "hallucinated"
        named = ", ".join(f"{claim.kind} {claim.text} (character {claim.position})" for claim in invented)
        why = f"the sample does not hold {named}; {match.why}"
    elif match.matched is not None:
        verdict = "expected" if match.matched else "unexpected"
    return Verdict(verdict, match.matched, match.found, why, tuple(claims))
