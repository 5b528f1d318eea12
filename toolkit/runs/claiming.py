"""A call claimed for one who waits: with what its owner before may have paid, and taken back when nobody waits."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from toolkit.models.base import Answer
from toolkit.runs.batches import BatchDesk
from toolkit.runs.endpoint import worst_aud
from toolkit.runs.ledger import Busy, Claim, Ledger
from toolkit.runs.sending import Sending


async def claim_for(
    sending: Sending, ledger: Ledger, desk: BatchDesk | None, purpose: str
) -> Claim | Answer | Busy:
    """Claim a call, or return its answer, or that somebody else is at it.

    A claim that comes when nobody waits for it any more is taken back, for nothing was sent.

    Parameters
    ----------
    sending
        The call, and what it may cost at worst.
    ledger
        Where it is claimed.
    desk
        Knows which calls of a dead process go on in a batch; ``None`` without batches.
    purpose
        ``run`` or ``judge``; kept in the ledger.
    """
    asking = ledger.claim(sending.request, purpose=purpose, worst_aud=sending.worst_aud)
    claiming = asyncio.ensure_future(asking)
    try:
        claimed = await asyncio.shield(claiming)
    except asyncio.CancelledError:
        claimed = await claiming
        if isinstance(claimed, Claim) and not _in_held_batch(claimed, desk):
            await asyncio.shield(ledger.withdraw(_with_lost(claimed, sending, desk)))
        raise
    return _with_lost(claimed, sending, desk) if isinstance(claimed, Claim) else claimed


def _in_held_batch(claim: Claim, desk: BatchDesk | None) -> bool:
    return desk is not None and desk.holds(claim.call_id)


def _with_lost(claim: Claim, sending: Sending, desk: BatchDesk | None) -> Claim:
    """Return a claim with what its owner before may have paid: it died with the call in flight."""
    if not claim.lost or _in_held_batch(claim, desk):  # only a batch is known to go on
        return claim
    worst = sending.worst_aud or worst_aud(claim.request, sending.endpoint)
    lost = {"at": claim.lost, "outcome": "lost"}
    return replace(claim, earlier=(*claim.earlier, lost), inherited_aud=claim.inherited_aud + worst)
