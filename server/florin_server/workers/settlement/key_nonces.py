"""Nonces of our keys, and those that the chain has and the store does not: it lost something.

A standby that lagged and was promoted, or a disk that was put back, lacks the newest rows. Whatever
was paid out in them would be paid out again. A key that somebody else used looks the same.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SentTransfer
from florin_server.store.operator import executors
from florin_server.store.settlement import used_nonces

_log = logging.getLogger(__name__)

# looking one up takes some thirty questions
_LOOKED_UP = 100


async def recover(
    app: Core,
    rail: Rail,
    sender: str,
    open_ones: Iterable[ChainTx],
    adopt: Callable[[Mapping[int, SentTransfer | None]], Awaitable[None]] | None,
) -> None:
    """Pause all payouts if the chain used nonces of an address that the store never did.

    The first time that an address is looked at its used nonces are noted as known. `adopt` is given
    the transactions of the lost ones, at most of the newest hundred; once it returns all are noted
    as known. What `florin chain deploy` sent is no loss.
    """
    nonces = rail.account_nonces
    if nonces is None:
        return
    # pending ones as well: they may be in a block by the time that a payout is
    used = await nonces.next_nonce(sender)
    stored = await app.store.read(used_nonces.next_nonce(rail.chain_id, sender))
    note = used_nonces.note(rail.chain_id, sender, used)
    if stored is None:
        await app.store.write(note)
        return
    lost = range(max([stored, *(one.nonce + 1 for one in open_ones)]), used)
    if not lost:
        return
    found = {one: await nonces.transfer_at(sender, one) for one in lost[-_LOOKED_UP:]}
    if len(lost) > len(found) or not are_setup(found.values()):
        count = f"{len(lost)} transactions" if len(lost) > 1 else "a transaction"
        await pause_payouts(
            app, f"{rail.chain_id} has {count} of {sender} that the store does not know"
        )
        if adopt is not None:
            await adopt(found)
    await app.store.write(note)


def are_setup(found: Iterable[SentTransfer | None]) -> bool:
    """Return whether all transactions are known to move nothing, as setting a chain up does."""
    return all(one is not None and one.is_setup for one in found)


async def next_nonce(app: Core, rail: Rail, sender: str, open_ones: Iterable[ChainTx]) -> int:
    """Return the nonce after the newest transaction of ours that the chain has or will get.

    What was written down counts only if the chain agrees: a chain that was begun anew starts from
    zero, and a gap would never close.
    """
    after = [tx.nonce + 1 for tx in open_ones]
    stored = await app.store.read(used_nonces.next_nonce(rail.chain_id, sender))
    nonces = rail.account_nonces
    if nonces is None:
        # the numbers only tell our own transactions apart
        return max([stored or 0, *after])
    nonce = max([await nonces.next_nonce(sender), *after])
    if stored is None or stored <= nonce:
        return nonce
    return stored if await nonces.nonce_used(sender, stored - 1) else nonce


async def pause_payouts(app: Core, reason: str) -> None:
    """Let nobody pay out anything until the operator resumes it."""
    _log.critical("payouts are paused: %s", reason)
    await app.store.write(executors.distrust(paying_out(app), app.clock.now_us(), reason))
    app.hints.remembered()


def paying_out(app: Core) -> list[str]:
    """The accounts (CAIP-10) of all keys that pay out."""
    return [f"{one.chain_id}:{one.payouts.sender}" for one in app.rails.values() if one.payouts]
