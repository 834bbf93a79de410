"""Receivers that accept only some transfers, and payout steps whose results can be lost."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from typing import Any

from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus

from tests.support.evm_harness import CHAIN
from tests.support.payout_harness import PayoutHarness

COIN = f"{CHAIN}/slip44:60"
SEND = "eth_sendRawTransaction"
RECEIPT = "eth_getTransactionReceipt"
# accepts coin until it is called with data
MOODY = "36600b5760005460125700" + "5b600160005500" + "5b600080fd"


async def get_waiting_reason(desk: PayoutHarness, payout: Any) -> str:
    """Return why a payout waits."""
    found_payout = await desk.get_payout(payout)
    assert (found_payout.status, found_payout.tx_id, found_payout.completed_at_us) == (
        PayoutStatus.WAITING,
        None,
        None,
    )
    if found_payout.kind is PayoutKind.REFUND:
        refund = await desk.refund(payout)
        assert (refund.status, refund.tx_id) == ("pending", None)
    return found_payout.problem or ""


async def is_notified(desk: PayoutHarness, payout_id: str, work: Awaitable[Any]) -> bool:
    """Return whether followers of a payout are notified of a possible change."""
    count = itertools.count()

    async def read() -> int:
        return next(count)

    result = aiter(desk.app.notifier.payouts.follow(payout_id, read, lambda _: False))
    await anext(result)
    following = asyncio.ensure_future(anext(result))
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rang = following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return rang


async def send_transaction_first(desk: PayoutHarness, to: str, fees: dict[str, Any]) -> None:
    """Send a third party's call that is mined before all that wait."""
    from eth_account import Account
    from florin_sandbox.devnet.evm import DEVNET

    nonce = await desk.lab.control.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    content = {**fees, "nonce": int(nonce, 16), "to": bytes.fromhex(to[2:]), "data": b"\x01"}
    raw = Account.sign_transaction(content, DEVNET.faucet_key).raw_transaction
    await desk.lab.control.call(SEND, "0x" + bytes(raw).hex())


def change_logs(change):
    """Return a change of the logs in receipts."""

    def changed(_params: Any, answer: dict[str, Any]) -> dict[str, Any]:
        result = answer["result"]
        return answer if not result else {**answer, "result": {**result, "logs": change(result)}}

    return changed
