"""A fee that hurts, somebody who settles before us, and a chain that is read to its end."""

from __future__ import annotations

from florin_server.devnet.evm import DEVNET
from florin_server.rails.evm import settler as contract
from florin_server.rails.evm.paying.terms import Terms, bare
from florin_server.rails.evm.sending.fees import KEY_GAS
from florin_server.workers.settlement.blocks import Follower

from tests.support.settler_lab import Works

DEAR = {
    "chainId": DEVNET.chain_id,
    "gas": 500_000,
    "maxFeePerGas": 10**12,
    "maxPriorityFeePerGas": 10**11,
    "value": 0,
}
_LOOKS_MAX = 20


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
    return contract.settle([terms.pay(payer, signature, KEY_GAS)])


async def front_run(shop: Works, payment) -> str:
    """Somebody else settles a payment; returns the transaction."""
    receipt = await shop.lab.send(to=DEVNET.settler, data=await settlement_of(shop, payment))
    return receipt["transactionHash"]
