"""Payments that somebody else settles, and such that nobody confirms."""

from __future__ import annotations

import json

from florin_server.devnet.evm import DEVNET
from florin_server.flows.payments.create import NewPayment, create
from florin_server.flows.payments.options import options
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import Terms, bare

from tests.support.evm_lab import account_of, buyer, signed
from tests.support.settler_lab import BUYER, SHOP

WALLET = buyer(78)


async def unconfirmed(shop):
    """A payment whose buyer signed, and the output of its wallet."""
    ends = shop.lab.clock.now_us() // 1_000_000 + 900
    wanted = NewPayment("iso4217/USD", "150", expires_at=ends)
    made = await create(shop.app, BUYER, SHOP, wanted, lambda _: b"")
    (option,) = (await options(shop.app, BUYER, made.id, [account_of(WALLET)])).options
    return made, option, signed(WALLET, option)


async def settled(shop, option, output):
    """The transaction by which somebody settles it."""
    signature = bytes.fromhex(json.loads(output)[2:])
    pay = Terms.of(option).pay(bare(option.payer), signature, shop.lab.key_gas)
    receipt = await shop.lab.send(to=DEVNET.settler, data=contract.settle([pay]))
    return receipt["transactionHash"]
