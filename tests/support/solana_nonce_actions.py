"""Payments with a durable nonce, and its end."""

from __future__ import annotations

import json

from florin_server.domain.payments.payment import Confirmation, FreeNonce
from florin_server.domain.settlement.chain_txs import SettlementItem

from tests.support.solana_devnet import START_S
from tests.support.solana_rail_harness import sign_build


async def get_free_nonce(lab) -> FreeNonce:
    values = await lab.rail.durable_nonces.get_values(lab.rail.durable_nonces.addresses)
    address = lab.rail.durable_nonces.addresses[0]
    return FreeNonce(address, values.by_account[address], values.slot)


async def accept_payment(lab, buyer):
    payment, option = await lab.offer(buyer)
    issued = await lab.resolve_build(option, [], await get_free_nonce(lab))
    output = json.dumps(sign_build(buyer, issued))
    await lab.rail.verifier.verify(option, [issued], [output])
    content = Confirmation(payment.id, option.id, (output,), b"", START_S * 1_000_000)
    return SettlementItem(payment, option, content, issued.head), issued


async def advance_nonce(lab, number: int = 0) -> None:
    created = await lab.rail.durable_nonces.sign_advance(
        [lab.rail.durable_nonces.addresses[number]]
    )
    await lab.rail.relay.broadcast(created.raw)
