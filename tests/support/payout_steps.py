"""Receivers that like some payments and not others, and what of payouts can be lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from typing import Any

from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus

from tests.support.evm_lab import CHAIN
from tests.support.payout_lab import Office

COIN = f"{CHAIN}/slip44:60"
SEND = "eth_sendRawTransaction"
RECEIPT = "eth_getTransactionReceipt"
# takes coin until somebody calls it with data
MOODY = "36600b5760005460125700" + "5b600160005500" + "5b600080fd"


async def waits(desk: Office, payout: Any) -> str:
    """Why a payout is not on its way."""
    found = await desk.now(payout)
    assert (found.status, found.tx_id, found.completed_at_us) == (PayoutStatus.WAITING, None, None)
    if found.kind is PayoutKind.REFUND:
        refund = await desk.refund(payout)
        assert (refund.status, refund.tx_id) == ("pending", None)
    return found.problem or ""


async def rings(desk: Office, payout_id: str, work: Awaitable[Any]) -> bool:
    """Whether those who follow a payout are told that it may have changed."""
    count = itertools.count()

    async def read() -> int:
        return next(count)

    told = aiter(desk.app.payouts.follow(payout_id, read, lambda _: False))
    await anext(told)
    following = asyncio.ensure_future(anext(told))
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rang = following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return rang


async def send_first(desk: Office, to: str, fees: dict[str, Any]) -> None:
    """A call of somebody else's that is mined before all that wait."""
    from eth_account import Account
    from florin_server.devnet.evm import DEVNET

    nonce = await desk.lab.control.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    content = {**fees, "nonce": int(nonce, 16), "to": bytes.fromhex(to[2:]), "data": b"\x01"}
    raw = Account.sign_transaction(content, DEVNET.faucet_key).raw_transaction
    await desk.lab.control.call(SEND, "0x" + bytes(raw).hex())


def with_logs(change):
    """A change of the logs in receipts."""

    def changed(_params: Any, answer: dict[str, Any]) -> dict[str, Any]:
        result = answer["result"]
        return answer if not result else {**answer, "result": {**result, "logs": change(result)}}

    return changed
