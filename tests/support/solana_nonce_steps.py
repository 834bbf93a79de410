"""Payments with a durable nonce, and its end."""

from __future__ import annotations

import json

from florin_server.domain.payments.payment import Confirmation, FreeNonce
from florin_server.domain.settlement.chain_txs import Accepted

from tests.support.solana_kit import START_S
from tests.support.solana_lab import signed


async def spare(lab) -> FreeNonce:
    values = await lab.rail.durable_nonces.values(lab.rail.durable_nonces.addresses)
    address = lab.rail.durable_nonces.addresses[0]
    return FreeNonce(address, values.held[address], values.slot)


async def accepted(lab, buyer):
    payment, option = await lab.offer(buyer)
    issued = await lab.built(option, [], await spare(lab))
    output = json.dumps(signed(buyer, issued))
    await lab.rail.verifier.verify(option, [issued], [output])
    content = Confirmation(payment.id, option.id, (output,), b"", START_S * 1_000_000)
    return Accepted(payment, option, content, issued.head), issued


async def advance(lab, number: int = 0) -> None:
    made = await lab.rail.durable_nonces.advance([lab.rail.durable_nonces.addresses[number]])
    await lab.rail.relay.broadcast(made.raw)
