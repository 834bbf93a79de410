"""Fail over to a lagging PostgreSQL standby during payments, refunds and payouts.

Or restore the database as of a point in time. What was acknowledged since then is lost, but the
chain still has it. No payouts are sent until the operator has compared both. After that no one is
paid twice.

    python -m tests.chaos.lagged_failover 20
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import uvloop
from florin.v1 import payout_pb2, system_pb2
from florin_server.db import installation
from florin_server.db.engine.query import StoreUnavailable
from florin_server.rails.evm.sending.payouts import TRANSFER_TOPIC
from pydantic import SecretStr

from tests.support import postgres
from tests.support.api import ApiCallError
from tests.support.books import SETTINGS
from tests.support.installation import OperatorStub, open_operator
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    PRICE,
    USD,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

BUYERS = 8


@dataclass
class Round:
    """One failover; buyers are named by the state of their refund before it."""

    desk: ServiceHarness
    operator: OperatorStub
    shop: PayoutMerchant
    rng: random.Random
    paid: dict[str, str] = field(default_factory=dict)  # payments by the buyer's address
    wallets: list[EvmTestWallet] = field(default_factory=list)

    async def sell(self) -> None:
        for _ in range(BUYERS):
            wallet = EvmTestWallet()
            await wait_faucet_booked(self.desk, wallet)
            self.paid[wallet.address] = await self.shop.create_paid_payment(wallet, USD)
            self.wallets.append(wallet)

    async def list_transfers(self, wallet: EvmTestWallet) -> list[int]:
        """Return the amounts that the treasury sent to a buyer."""
        treasury = self.desk.service.app.rails[CHAIN].treasury.rpartition(":")[2]
        topics = [TRANSFER_TOPIC, *(_word(text) for text in (treasury, wallet.address))]
        expected = {"fromBlock": "0x0", "address": DOLLAR, "topics": topics}
        return [
            int(item["data"], 16) for item in await self.desk.chain.ask("eth_getLogs", expected)
        ]

    async def refund(self, wallet: EvmTestWallet) -> None:
        await self.shop.ask(self.paid[wallet.address])

    async def wait_refunded(self, wallets: list[EvmTestWallet]) -> None:
        for wallet in wallets:
            await wait_until(lambda item=wallet: self.list_transfers(item), [PRICE])

    async def resume(self) -> None:
        """As the operator, cancel payouts that the chain shows as paid, and resume the treasury."""
        app = self.desk.service.app
        sender = f"{CHAIN}:{app.rails[CHAIN].payouts.sender}"
        listed = await self.operator.call("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
        for payout in listed.payouts:
            wallet = next(w for w in self.wallets if self.paid[w.address] == payout.payment_id)
            if payout.status == payout_pb2.PAYOUT_STATUS_WAITING and await self.list_transfers(
                wallet
            ):
                request = payout_pb2.RefusePayoutRequest(payout_id=payout.payout_id)
                with suppress(ApiCallError):
                    # a payout found on the chain meanwhile is no longer waiting
                    await self.operator.call("RefusePayout", request)
        request = system_pb2.ResumeExecutorRequest(executor_id=sender)
        await self.operator.call("ResumeExecutor", request)


AnyServer: TypeAlias = postgres.ReplicatedServer | postgres.RestorableServer


async def fail_over(
    folder: Path, seed: int, create_server: Callable[[], AnyServer] = postgres.ReplicatedServer
) -> str:
    """Run one round; return why payouts were paused. Raise AssertionError on a double payment."""
    server = await asyncio.to_thread(create_server)
    try:
        chosen: dict[str, Any] = {**SETTINGS, "store": SecretStr(server.database.dsn)}
        async with open_service(folder, **chosen) as desk, open_operator(desk.service) as operator:
            shop = PayoutMerchant(desk, await desk.tenant())
            return await _run_round(Round(desk, operator, shop, random.Random(seed)), server)
    finally:
        await asyncio.to_thread(server.end)


async def _run_round(failover: Round, server: AnyServer) -> str:
    await failover.sell()
    refunded_wallet, adopted, lost, pending, *later = failover.rng.sample(failover.wallets, BUYERS)
    app = failover.desk.service.app
    sender = f"{CHAIN}:{app.rails[CHAIN].payouts.sender}"
    # paid before the cut; requested before and paid after it; requested after it; not in a block
    # yet
    await failover.refund(refunded_wallet)
    await failover.wait_refunded([refunded_wallet])
    pause = system_pb2.PauseExecutorRequest(executor_id=sender)
    await failover.operator.call("PauseExecutor", pause)
    await failover.refund(adopted)
    await server.wait_for_standby()
    await server.cut()
    request = system_pb2.ResumeExecutorRequest(executor_id=sender)
    await failover.operator.call("ResumeExecutor", request)
    await failover.refund(lost)
    await failover.wait_refunded([adopted, lost])
    await failover.desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await failover.refund(pending)
    offer = await failover.desk.offer(tenant=failover.shop.tenant)
    confirming = asyncio.create_task(failover.desk.confirm(offer))
    await asyncio.sleep(failover.rng.uniform(0, 0.2))
    await asyncio.to_thread(server.fail_over)
    await asyncio.gather(confirming, return_exceptions=True)
    await failover.desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await failover.desk.chain.mine()
    reason: str = await wait_until(lambda: _find_pause_reason(failover), patience_s=240)
    # merchants repeat requests that got no answer, and others make their first request
    before = [await failover.list_transfers(wallet) for wallet in failover.wallets]
    for wallet in (lost, pending, *later):
        await wait_until(lambda w=wallet: _is_refund_requested(failover, w))
    failover.desk.clock.advance(61)
    await failover.desk.chain.mine()
    # the pending payout may land, and nothing else is sent
    after = [await failover.list_transfers(wallet) for wallet in failover.wallets]
    changed = [
        w for w, *pair in zip(failover.wallets, before, after, strict=True) if pair[0] != pair[1]
    ]
    assert changed in ([], [pending]), "something was paid out"
    await failover.resume()
    for wallet in later:
        await wait_until(
            lambda w=wallet: failover.list_transfers(w),
            [PRICE],
            meanwhile=lambda: _pass_resumed(failover),
            patience_s=240,
        )
    await _pass_time(failover)
    for wallet in failover.wallets:
        assert await failover.list_transfers(wallet) in ([PRICE], []), "a buyer was paid twice"
    return reason


async def _find_pause_reason(failover: Round) -> str:
    """Return why payouts are paused, or an empty text while the new server is unreachable."""
    try:
        return await failover.desk.service.app.store.read(installation.get_behind_reason())
    except StoreUnavailable:
        return ""


async def _is_refund_requested(failover: Round, wallet: EvmTestWallet) -> bool:
    """Request the refund; return whether it is stored, even if it was before."""
    try:
        await failover.refund(wallet)
    except ApiCallError as error:
        return error.code == "already_refunded"
    return True


async def _pass_time(failover: Round) -> None:
    failover.desk.clock.advance(10)
    await failover.desk.chain.mine()


async def _pass_resumed(failover: Round) -> None:
    """Let time pass; the operator resumes what was paused since, such as by the relayer's gap."""
    with suppress(ApiCallError):
        await failover.resume()
    await _pass_time(failover)


def _word(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            print(seed, uvloop.run(fail_over(Path(folder) / "home", seed)), flush=True)


if __name__ == "__main__":
    main()
