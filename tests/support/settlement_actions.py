"""A high fee, settlements by a third party, and a chain that is read to its end."""

from __future__ import annotations

import json

from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.payments.payment import Action
from florin_server.money.payments.service.create import NewPayment, create
from florin_server.money.payments.service.options import list_options
from florin_server.money.settlement.worker.blocks import ChainFollower
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import EvmOptionTerms, to_address

from tests.support.evm_harness import CHAIN, PRICE, make_buyer, to_account
from tests.support.settlement_harness import BUYER, SHOP, SettlementHarness

HIGH_FEE = {
    "chainId": DEVNET.chain_id,
    "gas": 1_500_000,
    "maxFeePerGas": 10**12,
    "maxPriorityFeePerGas": 10**11,
    "value": 0,
}
_LOOKS_MAX = 20
WALLET = make_buyer(78)
ETHER = f"{CHAIN}/slip44:60"
TTL_S = 900


async def look_until_current(blocks: ChainFollower) -> list[int]:
    """Poll the chain until nothing is new; return the head after each poll."""
    heads: list[int] = []
    while await blocks.poll():
        heads.append(blocks.head)
        assert len(heads) <= _LOOKS_MAX, "it never comes to the head"
    return heads


async def build_settlement_call(shop: SettlementHarness, payment) -> bytes:
    """Return the call that settles a payment, which needs only the payment's authorization."""
    item = await shop.get_item(payment)
    terms, payer = EvmOptionTerms.from_option(item.option), to_address(item.option.payer)
    signature = bytes.fromhex(item.confirmation.outputs[0].strip('"')[2:])
    return contract.encode_settle([terms.build_pay_arguments(payer, signature, shop.lab.key_gas)])


async def front_run(shop: SettlementHarness, payment) -> str:
    """Settle a payment as a third party; return the transaction."""
    receipt = await shop.lab.send(
        to=DEVNET.settler, data=await build_settlement_call(shop, payment)
    )
    return receipt["transactionHash"]


async def make_offer(shop: SettlementHarness, unit: str):
    """Create a payment; return it and the one option of the buyer."""
    ends = shop.lab.clock.now_us() // 1_000_000 + TTL_S
    value = str(PRICE) if unit.startswith("caip19") else "150"
    new_payment = NewPayment(unit, value, expires_at=ends)
    created = await create(shop.app, BUYER, SHOP, new_payment, lambda _: b"")
    (option,) = (await list_options(shop.app, BUYER, created.id, [to_account(WALLET)])).options
    return created, option


async def make_coin_offer(shop: SettlementHarness):
    return await make_offer(shop, f"caip19/{ETHER}")


async def send_payment(shop: SettlementHarness, option) -> str:
    """Send what a wallet sends that reads only the build; return the transaction."""
    result = json.loads(bytes.fromhex(option.build.data))
    action = Action(result["chain_id"], result["method"], json.dumps(result["params"]))
    return str(json.loads(await shop.lab.perform(WALLET, action)))
