"""A fee that hurts, somebody who settles before us, and a chain that is read to its end."""

from __future__ import annotations

import json

from florin_server.devnet.evm import DEVNET
from florin_server.domain.payments.payment import Action
from florin_server.flows.payments.create import NewPayment, create
from florin_server.flows.payments.options import options
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import Terms, bare
from florin_server.workers.settlement.blocks import Follower

from tests.support.evm_lab import CHAIN, PRICE, account_of, buyer
from tests.support.settler_lab import BUYER, SHOP, Works

DEAR = {
    "chainId": DEVNET.chain_id,
    "gas": 1_500_000,
    "maxFeePerGas": 10**12,
    "maxPriorityFeePerGas": 10**11,
    "value": 0,
}
_LOOKS_MAX = 20
WALLET = buyer(78)
ETHER = f"{CHAIN}/slip44:60"
TTL_S = 900


async def looks(blocks: Follower) -> list[int]:
    """Looks at the chain until there is nothing new; the head after each look."""
    heads: list[int] = []
    while await blocks.look():
        heads.append(blocks.head)
        assert len(heads) <= _LOOKS_MAX, "it never comes to the head"
    return heads


async def settlement_of(shop: Works, payment) -> bytes:
    """The call that settles a payment, which anybody may make who saw its authorization."""
    item = await shop.item(payment)
    terms, payer = Terms.of(item.option), bare(item.option.payer)
    signature = bytes.fromhex(item.confirmation.outputs[0].strip('"')[2:])
    return contract.settle([terms.pay(payer, signature, shop.lab.key_gas)])


async def front_run(shop: Works, payment) -> str:
    """Somebody else settles a payment; returns the transaction."""
    receipt = await shop.lab.send(to=DEVNET.settler, data=await settlement_of(shop, payment))
    return receipt["transactionHash"]


async def offered(shop: Works, unit: str):
    """A payment, and the one option of the buyer."""
    ends = shop.lab.clock.now_us() // 1_000_000 + TTL_S
    value = str(PRICE) if unit.startswith("caip19") else "150"
    wanted = NewPayment(unit, value, expires_at=ends)
    made = await create(shop.app, BUYER, SHOP, wanted, lambda _: b"")
    (option,) = (await options(shop.app, BUYER, made.id, [account_of(WALLET)])).options
    return made, option


async def coin(shop: Works):
    return await offered(shop, f"caip19/{ETHER}")


async def sent(shop: Works, option) -> str:
    """What a wallet sends that reads the build and asks for nothing else; the transaction."""
    told = json.loads(bytes.fromhex(option.build.data))
    action = Action(told["chain_id"], told["method"], json.dumps(told["params"]))
    return str(json.loads(await shop.lab.perform(WALLET, action)))
