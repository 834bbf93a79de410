"""What gas was booked, and what was spent of it."""

from __future__ import annotations

from florin_server.rails.evm.sending.transactions import Signer
from florin_server.store.ledger import ledger

from tests.support.evm_lab import CHAIN, RELAYER
from tests.support.settler_lab import Works

SECOND = Signer(b"\x53" * 32)
COIN = f"{CHAIN}/slip44:60"


async def booked_gas(shop: Works) -> int:
    return await shop.store.read(ledger.balance("expense:gas", COIN))


async def spent(shop: Works, *senders: str) -> int:
    """What keys paid since they got 100 coins each."""
    held = [
        int(await shop.lab.control.call("eth_getBalance", one, "latest"), 16) for one in senders
    ]
    return len(senders) * 100 * 10**18 - sum(held)


async def senders(shop: Works) -> list[int]:
    """How many transactions are open, by key."""
    return [len(await shop.transactions(one.address)) for one in (RELAYER, SECOND)]
