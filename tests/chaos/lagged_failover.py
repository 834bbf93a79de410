"""A PostgreSQL whose standby lagged takes over while payments, refunds and payouts are under way.

What was acknowledged since the standby was cut off is forgotten, and the chain still has it. Until
the operator has compared both nothing is paid out; after that nobody is paid twice.

    python -m tests.chaos.lagged_failover 20
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop
from florin.v1 import payout_pb2, system_pb2
from florin_server.rails.evm.sending.payouts import TRANSFERRED
from florin_server.store.engine.query import StoreUnavailable
from florin_server.store.operator import installation
from pydantic import SecretStr

from tests.support import postgres
from tests.support.api import Refused
from tests.support.books import SETTINGS
from tests.support.desk import Desk, opened
from tests.support.installation import Operator, operator_of
from tests.support.payout_shop import CHAIN, DOLLAR, PRICE, USD, Shop, filled
from tests.support.until import until
from tests.support.wallet import Wallet

BUYERS = 8


@dataclass
class Round:
    """One failover; buyers are named by what became of their refund before it."""

    desk: Desk
    operator: Operator
    shop: Shop
    chance: random.Random
    paid: dict[str, str] = field(default_factory=dict)  # payments by the buyer's address
    wallets: list[Wallet] = field(default_factory=list)

    async def sell(self) -> None:
        for _ in range(BUYERS):
            wallet = Wallet()
            await filled(self.desk, wallet)
            self.paid[wallet.address] = await self.shop.sold(wallet, USD)
            self.wallets.append(wallet)

    async def transfers(self, wallet: Wallet) -> list[int]:
        """What the treasury has sent to a buyer."""
        treasury = self.desk.service.app.rails[CHAIN].treasury.rpartition(":")[2]
        topics = [TRANSFERRED, *(_word(one) for one in (treasury, wallet.address))]
        wanted = {"fromBlock": "0x0", "address": DOLLAR, "topics": topics}
        return [int(one["data"], 16) for one in await self.desk.chain.ask("eth_getLogs", wanted)]

    async def refund(self, wallet: Wallet) -> None:
        await self.shop.ask(self.paid[wallet.address])

    async def refunded(self, wallets: list[Wallet]) -> None:
        for wallet in wallets:
            await until(lambda one=wallet: self.transfers(one), [PRICE])

    async def resume(self) -> None:
        """The operator calls off what the chain shows as paid, and lets the treasury send again."""
        app = self.desk.service.app
        sender = f"{CHAIN}:{app.rails[CHAIN].payouts.sender}"
        listed = await self.operator.ask("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
        for one in listed.payouts:
            wallet = next(w for w in self.wallets if self.paid[w.address] == one.payment_id)
            if one.status == payout_pb2.PAYOUT_STATUS_WAITING and await self.transfers(wallet):
                request = payout_pb2.RefusePayoutRequest(payout_id=one.payout_id)
                with suppress(Refused):
                    # what was found on the chain meanwhile is not waiting any more
                    await self.operator.ask("RefusePayout", request)
        request = system_pb2.ResumeExecutorRequest(executor_id=sender)
        await self.operator.ask("ResumeExecutor", request)


async def fail_over(folder: Path, seed: int) -> str:
    """One round; returns why payouts were paused. AssertionError if anybody was paid twice."""
    server = await asyncio.to_thread(postgres.ReplicatedServer)
    try:
        chosen: dict[str, Any] = {**SETTINGS, "store": SecretStr(server.database.dsn)}
        async with opened(folder, **chosen) as desk, operator_of(desk.service) as operator:
            shop = Shop(desk, await desk.tenant())
            return await _one(Round(desk, operator, shop, random.Random(seed)), server)
    finally:
        await asyncio.to_thread(server.end)


async def _one(one: Round, server: postgres.ReplicatedServer) -> str:
    await one.sell()
    known, adopted, lost, flying, *later = one.chance.sample(one.wallets, BUYERS)
    app = one.desk.service.app
    sender = f"{CHAIN}:{app.rails[CHAIN].payouts.sender}"
    # paid before the cut; asked before it and paid after it; asked after it; still in no block
    await one.refund(known)
    await one.refunded([known])
    pause = system_pb2.PauseExecutorRequest(executor_id=sender)
    await one.operator.ask("PauseExecutor", pause)
    await one.refund(adopted)
    await server.wait_for_standby()
    await server.cut()
    request = system_pb2.ResumeExecutorRequest(executor_id=sender)
    await one.operator.ask("ResumeExecutor", request)
    await one.refund(lost)
    await one.refunded([adopted, lost])
    await one.desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await one.refund(flying)
    offer = await one.desk.offer(tenant=one.shop.tenant)
    confirming = asyncio.create_task(one.desk.confirm(offer))
    await asyncio.sleep(one.chance.uniform(0, 0.2))
    await asyncio.to_thread(server.fail_over)
    await asyncio.gather(confirming, return_exceptions=True)
    await one.desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await one.desk.chain.mine()
    reason: str = await until(lambda: _behind(one), patience_s=60)
    # merchants ask again for what they were told nothing of, others for the first time
    before = [await one.transfers(wallet) for wallet in one.wallets]
    for wallet in (lost, flying, *later):
        await until(lambda w=wallet: _asked(one, w))
    one.desk.clock.advance(61)
    await one.desk.chain.mine()
    # the one in flight may land, and nothing else is sent
    after = [await one.transfers(wallet) for wallet in one.wallets]
    changed = [w for w, *pair in zip(one.wallets, before, after, strict=True) if pair[0] != pair[1]]
    assert changed in ([], [flying]), "something was paid out"
    await one.resume()
    for wallet in later:
        await until(
            lambda w=wallet: one.transfers(w),
            [PRICE],
            meanwhile=lambda: _pass_resumed(one),
            patience_s=60,
        )
    await _pass(one)
    for wallet in one.wallets:
        assert await one.transfers(wallet) in ([PRICE], []), "a buyer was paid twice"
    return reason


async def _behind(one: Round) -> str:
    """Why payouts are paused; empty while the new server cannot be reached yet."""
    try:
        return await one.desk.service.app.store.read(installation.behind())
    except StoreUnavailable:
        return ""


async def _asked(one: Round, wallet: Wallet) -> bool:
    """True once the merchant's request is known, whether it was before or not."""
    try:
        await one.refund(wallet)
    except Refused as error:
        return error.code == "already_refunded"
    return True


async def _pass(one: Round) -> None:
    one.desk.clock.advance(10)
    await one.desk.chain.mine()


async def _pass_resumed(one: Round) -> None:
    """Let time pass; the operator resumes what was paused since, as by the relayer's gap."""
    with suppress(Refused):
        await one.resume()
    await _pass(one)


def _word(address: str) -> str:
    return "0x" + address[2:].lower().rjust(64, "0")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            print(seed, uvloop.run(fail_over(Path(folder) / "home", seed)), flush=True)


if __name__ == "__main__":
    main()
