"""Payments that a third party settles, and payments that are never confirmed."""

from __future__ import annotations

import json

from florin_sandbox.devnet.evm import DEVNET
from florin_server.money.payments.service.create import NewPayment, create
from florin_server.money.payments.service.options import list_options
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import EvmOptionTerms, to_address

from tests.support.evm_harness import make_buyer, sign_option, to_account
from tests.support.settlement_harness import BUYER, SHOP

WALLET = make_buyer(78)


async def make_unconfirmed(shop):
    """Return a payment whose buyer signed, its option, and the output of its wallet."""
    ends = shop.lab.clock.now_us() // 1_000_000 + 900
    new_payment = NewPayment("iso4217/USD", "150", expires_at=ends)
    created = await create(shop.app, BUYER, SHOP, new_payment, lambda _: b"")
    (option,) = (await list_options(shop.app, BUYER, created.id, [to_account(WALLET)])).options
    return created, option, sign_option(WALLET, option)


async def settle_directly(shop, option, output):
    """Settle an option as a third party; return the transaction's hash."""
    signature = bytes.fromhex(json.loads(output)[2:])
    pay = EvmOptionTerms.from_option(option).build_pay_arguments(
        to_address(option.payer), signature, shop.lab.key_gas
    )
    receipt = await shop.lab.send(to=DEVNET.settler, data=contract.encode_settle([pay]))
    return receipt["transactionHash"]
