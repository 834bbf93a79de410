"""Payouts that a lost transaction made: they are taken for sent, and never sent again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from florin_server.domain.payouts.payout import Payout, PayoutStatus
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SentTransfer, Signed
from florin_server.store.engine.query import Op, operation
from florin_server.store.operator import executors, installation
from florin_server.store.payouts import payouts
from florin_server.store.settlement import chain_txs
from florin_server.workers.settlement.key_nonces import are_setup, pause_payouts, paying_out
from florin_server.workers.settlement.tx_sender import Ended, TxSender

_log = logging.getLogger(__name__)

# of transactions that strangers may have made; each takes a question
_READ = 100


async def adopt(
    app: Core, rail: Rail, sender: TxSender, lost: Mapping[int, SentTransfer | None]
) -> None:
    """Write down the payouts that transactions of a treasury made which the store lost, by nonce.

    One is recognised by its asset, receiver and value among the payouts that wait, the oldest
    first. None is where several merchants wait for the same transfer: that is the operator's to
    decide. What is adopted is followed to its end as if it had been sent just now.
    """
    for nonce, sent in lost.items():
        if sent is None or not sent.asset:
            known = sent.hash if sent else "not found"
            _log.critical("nonce %d of %s: %s", nonce, sender.account, known)
            continue
        waiting = await app.store.read(
            payouts.alike(rail.chain_id, sent.asset, sent.account, sent.value)
        )
        moved = f"{sent.hash} moved {sent.value} of {sent.asset} to {sent.account}"
        if len({(one.merchant_id, one.kind) for one in waiting}) != 1:
            _log.critical("nonce %d of %s: %s, for whom is not known", nonce, sender.account, moved)
            continue
        one = waiting[0]
        _log.critical("nonce %d of %s: %s, as payout %s asks", nonce, sender.account, moved, one.id)
        await _record_adopted(app, sender, one, nonce, Signed(sent.raw, sent.hash))


async def look_at_history(app: Core, rail: Rail, sender: TxSender) -> None:
    """Pause all payouts if the treasury signed what the store does not know, and adopt payouts.

    Looks at what is final since the last look, which is noted; the first look only notes.
    """
    history = rail.treasury_history
    if history is None:
        return
    name = f"history:{sender.account}"
    seen = await app.store.read(installation.get(name))
    noted = await history.list_since(seen or "")
    if not noted:
        return
    known = await app.store.read(chain_txs.known(rail.chain_id, [one.hash for one in noted]))
    strange = [one for one in noted if one.hash not in known and one.reference]
    lost = {
        one.reference: signed
        for one in (strange[:_READ] if seen else ())
        if (signed := await history.find_signed(one.hash)) is not None
    }
    if lost:
        told = f"{rail.chain_id} has {len(lost)} transactions of {sender.address}"
        await pause_payouts(app, f"{told} that the store does not know")
    waiting = await app.store.read(payouts.some(list(lost)))
    for payout_id, signed in lost.items():
        one = waiting.get(payout_id)
        _log.critical("%s is the transfer of payout %s", signed.hash, payout_id)
        if one is not None and one.status is PayoutStatus.WAITING:
            await _record_adopted(app, sender, one, sender.next_nonce, signed)
    await app.store.write(installation.put(name, noted[0].hash))


async def _record_adopted(
    app: Core, sender: TxSender, payout: Payout, nonce: int, transaction: Signed
) -> None:
    """Claim a waiting payout for a transaction that made it, which the sender follows from now."""
    claim = payouts.claim(payout, transaction.hash, None, None, app.clock.now_us())
    await sender.adopt(payout.id, nonce, transaction, claim)


async def look_at_database(app: Core) -> str:
    """Pause all payouts if writes go to another database than before; return which it is."""
    pay_out, now_us = paying_out(app), app.clock.now_us()

    @operation
    def check() -> Op[tuple[str, str]]:
        # which server it is shows when an operation has a connection to it
        identity = app.store.identity
        if not identity:
            return "", ""
        return identity, (yield from executors.check_database(pay_out, now_us, identity))

    identity, reason = await app.store.write(check())
    if reason:
        _log.critical("payouts are paused: %s", reason)
        app.hints.remembered()
    return identity


async def pause_for_strangers(
    app: Core, rail: Rail, sender: TxSender, ended: Sequence[Ended]
) -> dict[int, SentTransfer | None]:
    """Pause all payouts if nonces were taken by transactions that the store does not know.

    Return those, by nonce. `ended` are transactions of the sender that are about to be concluded.
    """
    nonces = rail.account_nonces
    if nonces is None:
        return {}
    lost = {
        one.tx.nonce: await nonces.transfer_at(sender.address, one.tx.nonce)
        for one in ended
        if one.mined is None and not await _is_known(app, rail, sender, one.tx)
    }
    if are_setup(lost.values()):
        return {}
    told = ", ".join(map(str, lost))
    await pause_payouts(app, f"another transaction of {sender.account} has nonce {told}")
    return lost


async def _is_known(app: Core, rail: Rail, sender: TxSender, tx: ChainTx) -> bool:
    """True if another transaction with its nonce was written down."""
    at_nonce = chain_txs.at_nonce(rail.chain_id, sender.address, tx.nonce)
    return any(one.id != tx.id for one in await app.store.read(at_nonce))
