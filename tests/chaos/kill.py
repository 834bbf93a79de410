"""Kill the service with SIGKILL at every durable step of a payment, and again during recovery.

    python -m tests.chaos.kill FOLDER [PLANTED BUG]

One process imports everything and forks. Each child runs the whole service on one state folder,
drives one payment as far as it gets, and dies at its k-th step: before and after each operation,
commit and broadcast. After every death the next child finishes the payment. Then the books and the
chain are compared: paid once, booked once, nothing acknowledged is lost. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import aiohttp
import uvloop
from florin_sandbox.demo_accounts import ensure_demo_accounts
from florin_server.app.service import FlorinService
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import settlement_items
from florin_server.money.settlement.worker.payment_finalizer import PaymentFinalizer
from florin_server.money.settlement.worker.settle import ChainSettler
from florin_server.rails.evm.sending.relay import EvmRelay

from tests.support import postgres
from tests.support.api import RestApi
from tests.support.chain import ChainClient
from tests.support.preload import load_all
from tests.support.service import make_settings
from tests.support.wallet import EvmTestWallet

PRICE = 12_500_000
ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}, "referenceId": "kill"}


class Steps:
    """A fault hook that counts durable steps and dies at one of them."""

    def __init__(self, deadly: int | None) -> None:
        self.count = 0
        self.deadly = deadly

    def __call__(self, _name: str) -> None:
        self.count += 1
        if self.count == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)


def acknowledge(folder: Path, fact: str, value: str = "") -> None:
    """Record, as a caller would, what the service has acknowledged."""
    path = folder / fact
    with path.with_suffix(".new").open("w") as file:
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
    path.with_suffix(".new").rename(path)


def watch_broadcasts(steps: Steps) -> None:
    """Make both sides of every broadcast a step too."""
    inner = EvmRelay.broadcast

    async def broadcast(self, raw):
        steps("before broadcast")
        await inner(self, raw)
        steps("after broadcast")

    EvmRelay.broadcast = broadcast


def plant(bug: str) -> None:
    """Plant a bug: a campaign that does not notice it is worthless."""
    if bug == "amnesia":
        # a restarted settler that neither reads its journal nor compares with the chain

        async def nothing(self, *_):
            self._reconcile_at_us = 2**62

        ChainSettler._reconcile = nothing  # noqa: SLF001  (the bug is inside)
        ChainSettler._load = nothing  # noqa: SLF001
    elif bug == "splitledger":
        # the payment ends in one transaction, and its books are written in another
        inner = PaymentFinalizer.commit

        async def finish(self, findings, ends):
            await inner(self, [replace(finding, postings=()) for finding in findings], ends)
            for finding in findings:
                key, now_us = f"late:{finding.payment_id}", self._app.clock.now_us()
                await self._app.store.write(
                    ledger.post(
                        key,
                        "settle",
                        finding.payment_id,
                        None,
                        finding.postings,
                        now_us,
                    )
                )

        PaymentFinalizer.commit = finish
    elif bug:
        raise SystemExit(f"no such bug: {bug}")


async def drive(folder: Path, steps: Steps) -> None:
    """Run the service until its one payment is final."""
    await postgres.let_leases_lapse(folder / "home")
    service = await FlorinService.start(make_settings(folder / "home"), fault_hook=steps)
    await ensure_demo_accounts(service)
    env = service.home.read_demo_env()
    wallet = EvmTestWallet(key=b"\x07" * 32)
    async with aiohttp.ClientSession() as session, asyncio.timeout(12):
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        chain = ChainClient(
            session, env["FLORIN_EVM_RPC_URL"], env["FLORIN_EVM_ASSET"].split(":")[-1]
        )
        if not (folder / "created").exists():
            created = await api.create(ORDER, key="the-one-order")
            acknowledge(folder, "created", created["paymentId"])
        payment_id = (folder / "created").read_text()
        if (await api.status(payment_id))["status"] == "requires_action":
            assert not (folder / "confirmed").exists(), "an acknowledged confirm was lost"
            (option,) = (await api.options(payment_id, [wallet.account]))["options"]
            if not (folder / "before").exists():
                acknowledge(folder, "before", str(await chain.balance(wallet.address)))
            await api.confirm(payment_id, option["id"], wallet.execute_all(option))
            acknowledge(folder, "confirmed")
        async for state in api.watch(payment_id):
            if state["isFinal"]:
                assert state["status"] == "succeeded", state
        acknowledge(folder, "succeeded")
        acknowledge(folder, "after", str(await chain.balance(wallet.address)))
        await check(service, env, chain, payment_id, folder)
    await service.stop()


async def check(service, env, chain: ChainClient, payment_id: str, folder: Path) -> None:
    """Compare what was acknowledged, what is booked and what the chain has."""
    before, after = (int((folder / name).read_text()) for name in ("before", "after"))
    assert before - after == PRICE, f"the buyer paid {before - after}"
    merchant = env["FLORIN_MERCHANT_DESTINATION"]
    merchant_balance = await chain.balance(merchant.rpartition(":")[2])
    assert merchant_balance == PRICE, f"the merchant got {merchant_balance}"
    store = service.app.store
    assert await store.read(ledger.check()) == []
    booked = await store.read(ledger.get_balance(f"external:{merchant}", env["FLORIN_EVM_ASSET"]))
    assert abs(booked) == PRICE, f"{booked} is booked"
    payments = {
        item.payment.id
        for item in await store.read(settlement_items.list_unsettled("eip155:31337"))
    }
    assert payment_id not in payments
    assert (await store.payments.find(payment_id)).version == 2


def fork(folder: Path, deadly: int | None, bug: str) -> tuple[str, int]:
    """Run one child; return how it ended (done, killed, failed) and how many steps it took."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 9
        try:
            steps = Steps(deadly)
            watch_broadcasts(steps)
            plant(bug)
            uvloop.run(drive(folder, steps))
            os.write(writer, str(steps.count).encode())
            status = 0
        except BaseException:  # noqa: BLE001  (reported to the parent)
            (folder / "error").write_text(traceback.format_exc())
        finally:
            os._exit(status)
    os.close(writer)
    step_count = os.read(reader, 20)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed", deadly or 0
    return ("done", int(step_count)) if status == 0 else ("failed", 0)


def campaign(root: Path, bug: str, seed: int = 7) -> dict[str, object]:
    """Die once at every step, after every second one up to twice more, and check each end."""
    rng = random.Random(seed)
    root.mkdir(parents=True, exist_ok=True)
    outcome, steps = fork(create_folder(root), None, "")
    if outcome != "done":
        raise SystemExit((root / "run" / "error").read_text())
    kills = recovery_kills = 0
    # planted bugs show late in a payment's life
    for deadly in reversed(range(1, steps + 1)):
        folder = create_folder(root)
        outcome, _ = fork(folder, deadly, bug)
        for _ in range(0 if deadly % 2 else rng.randrange(1, 3)):
            if outcome != "killed":
                break
            kills += 1
            outcome, _ = fork(folder, rng.randrange(1, steps), bug)
            recovery_kills += outcome == "killed"
        if outcome == "killed":
            kills += 1
            outcome, _ = fork(folder, None, bug)
        if outcome != "done":
            bad = (folder / "error").read_text()
            return {"steps": steps, "kills": kills, "again": recovery_kills, "bad": bad}
    return {"steps": steps, "kills": kills, "again": recovery_kills, "bad": ""}


def create_folder(root: Path) -> Path:
    """Create an empty folder for one run."""
    folder = root / "run"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    postgres.empty_store(folder / "home")
    return folder


if __name__ == "__main__":
    load_all()
    print(json.dumps(campaign(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")))
