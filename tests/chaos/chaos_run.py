"""Drive one chaos run: buyers, faults, calm, and the verdict."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable
from typing import Any

import aiohttp
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.simulation.audit.target import ETHER, EUR, USD
from florin_server.money.settlement.store.chain_txs import FAILURES_MAX

from tests.chaos.audit import Audit, build_target
from tests.chaos.buyer_wallets import Purses
from tests.chaos.chaos_service import Stage
from tests.chaos.fast_clock import QuickClock
from tests.chaos.payment_run import Story, Teller
from tests.chaos.plan import CONFIRMATIONS, PAYS, USUAL, Gust, Mood, Order, Plan, Way
from tests.chaos.service_client import CALL_S, INJECTED, POLL_S, ChainRefused, Till
from tests.support.solana import ASSETS

GWEI = 10**9
FEES_TIMES = 40
# if no payment ends for that long, only payments that wait for their lapse are left
QUIET_S = 2.5
# in service time: how far it may be behind with due work
GRACE_S = 5
# abandoned payments are not due, whatever their time
_BUSY = f"""
    SELECT (SELECT count(*) FROM chain_tx WHERE state IN ('signed', 'sent'))
         + (SELECT count(*) FROM confirm WHERE state = 'waiting' AND failures < {FAILURES_MAX}
            AND retry_at_us < {{}})
"""
# until every authorization has lapsed, plus what the chains need to notice
LAPSE_S = 1400
# a run that takes longer is stuck
PATIENCE_S, PATIENCE_PER_PAYMENT_S = 120, 0.3
PROBES = 1000


class Storm:
    """One run of a plan against a service that is killed meanwhile."""

    def __init__(self, stage: Stage, plan: Plan, till: Till) -> None:
        self._stage = stage
        self._plan = plan
        self._till = till
        self._rng = random.Random(f"storm {plan.seed}")
        self._clock = QuickClock(stage.clock)
        self._probes = tuple(
            Order(PROBES + n, 0, way, 150, Mood.HONEST, 2000 + n, settled=True, thinks_s=0)
            for n, way in enumerate(Way)
        )
        orders = (*plan.orders, *self._probes)
        self._purses = Purses(plan.seed, orders, embedded=stage.embedded)
        self._teller = Teller(stage, plan.seed, till, self._purses)
        self._ended_at = 0.0
        self._effects: Counter[str] = Counter()

    async def run(self) -> dict[str, Any]:
        plan, till = self._plan, self._till
        await self._purses.fund(till, self._stage)
        # the buyers' balances must be as final as a block beyond any reorganization
        await till.evm.ask("evm_mine", {"blocks": CONFIRMATIONS})
        since = int(await till.evm.ask("eth_blockNumber"), 16)
        before = await self._read_balances()
        began = time.monotonic()
        tasks = [asyncio.create_task(self._buy(order), name=str(order)) for order in plan.orders]
        gusts = [asyncio.create_task(self._apply_gust(gust)) for gust in plan.gusts]
        await self._in_time(asyncio.gather(*gusts), "the storm")
        await self._clear_faults()
        calm_at = time.monotonic()
        bought = await self._in_time(self._wait_for_stories(tasks), "the payments")
        done_at = time.monotonic()
        probes = await self._in_time(
            asyncio.gather(*(self._teller.run_order(order) for order in self._probes)), "the probes"
        )
        await self._in_time(self._wait_until_idle(), "the transactions")
        stories = [item for result in (*bought, *probes) for item in result]
        audit = Audit(self._stage, till, stories)
        await audit.check(since, before, self._clock.now_us())
        audit.problems += [
            f"no reason not to be paid: {story}"
            for story in stories
            if story.status != "succeeded" and story.order.mood in PAYS and not story.lapsed
        ]
        audit.problems += [
            f"was not paid in the end: {result}" for result in bought if result[-1].lapsed
        ]
        audit.problems += [f"lapsed in calm: {probe}" for probe in probes if probe[0].lapsed]
        return {
            "bad": [*till.bad, *audit.problems],
            "ended": dict(Counter(story.status for story in stories)),
            "honest": _count_honest([result[-1] for result in (*bought, *probes)]),
            "lapsed": sorted(story.payment_id for story in stories if story.lapsed),
            "bill": audit.bill,
            "alarms": audit.alarms,
            "effects": dict(await self._counts()),
            "lost": till.lost,
            "last": [
                f"{item.order.mood} {item.order.way} {item.status} {item.ended_at - calm_at:.0f}"
                for item in sorted(
                    (result[-1] for result in bought), key=lambda item: item.ended_at
                )[-6:]
            ],
            "storm_s": round(calm_at - began, 1),
            "calm_s": round(done_at - calm_at, 1),
            "settle_s": _median(
                [
                    story.ended_at - story.confirmed_at
                    for story in stories
                    if story.status == "succeeded"
                ]
            ),
            "transactions": self._stage.select("SELECT count(*) FROM chain_tx")[0][0],
        }

    async def _in_time(self, work: Awaitable[Any], what: str) -> Any:
        limit = PATIENCE_S + PATIENCE_PER_PAYMENT_S * len(self._plan.orders)
        try:
            async with asyncio.timeout(limit):
                return await work
        except TimeoutError:
            left = [task.get_name() for task in asyncio.all_tasks() if "Order" in task.get_name()]
            raise RuntimeError(f"{what} did not end in {limit:.0f} s: {left}") from None

    async def _read_balances(self) -> dict[str, int]:
        """Return the balances of every buyer and the treasury, by asset and address."""
        before, treasuries = {}, self._stage.treasuries()
        target = build_target(self._stage, self._till)
        for address in (treasuries[0], *(item.address for item in self._purses.evm.values())):
            for asset in (USD, EUR, ETHER):
                before[f"{asset} {address.lower()}"] = await target.read_balance(address, asset)
        for address in (
            treasuries[1],
            *(solana_purse.address for solana_purse in self._purses.solana.values()),
        ):
            for asset in ASSETS:
                before[f"{asset} {address}"] = await target.read_balance(address, asset)
        return before

    async def _buy(self, order: Order) -> list[Story]:
        await asyncio.sleep(order.at_s)
        stories = await self._teller.run_order(order)
        self._ended_at = time.monotonic()
        return stories

    async def _wait_for_stories(self, tasks: list[asyncio.Task[list[Story]]]) -> list[list[Story]]:
        """Return every story; payments that can only end by lapsing get the time for it."""
        self._ended_at, is_advanced = time.monotonic(), False
        while not all(task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=POLL_S, return_when=asyncio.FIRST_EXCEPTION)
            quiet = time.monotonic() - self._ended_at > QUIET_S
            if (
                quiet
                and not is_advanced
                and not self._has_due_work()
                and not self._teller.has_unpaid_buyer()
            ):
                self._clock.advance(LAPSE_S)
                is_advanced = True
            if is_advanced:
                # an idle chain would take its time
                await self._till.evm.ask("evm_mine")
        return [task.result() for task in tasks]

    def _has_due_work(self) -> bool:
        """Return whether the service has work that it could do now."""
        due_us = self._clock.now_us() - GRACE_S * 1_000_000
        return self._stage.select(_BUSY.format(due_us)) != [(0,)]

    async def _wait_until_idle(self) -> None:
        while self._has_due_work():
            await self._till.evm.ask("evm_mine")
            await asyncio.sleep(POLL_S)

    async def _counts(self) -> Counter[str]:
        counts = Counter(self._effects)
        if not self._stage.embedded:
            counts.update(await self._till.counts())
        return counts

    # ---- faults

    async def _apply_gust(self, gust: Gust) -> None:
        await asyncio.sleep(gust.at_s)
        if gust.weather:
            await self._apply_weather(gust)
            return
        self._effects[gust.kind] += 1
        if gust.kind == "reorg":
            await self._reorg(gust)
        elif gust.kind == "slots":
            await self._fault("solana", "slots", slots=gust.depth)
        elif gust.kind == "fees":
            await self._fault("evm", "baseFee", wei=hex(FEES_TIMES * GWEI))
            await asyncio.sleep(gust.for_s)
            await self._fault("evm", "baseFee", wei=hex(GWEI))
        else:
            kind = "mining" if gust.chain == "evm" else "landing"
            await self._fault(gust.chain, kind, paused=True)
            await asyncio.sleep(gust.for_s)
            await self._fault(gust.chain, kind, paused=False)

    async def _fault(self, chain: str, kind: str, **options: Any) -> None:
        node = self._till.evm if chain == "evm" else self._till.solana
        await node.ask("florin_fault", {"kind": kind, **options})

    async def _reorg(self, gust: Gust) -> None:
        ask = self._till.evm.ask
        head = int(await ask("eth_blockNumber"), 16)
        if head <= gust.depth:
            return
        drop = []
        for number in range(head - gust.depth + 1, head + 1):
            block = await ask("eth_getBlockByNumber", hex(number), True)
            drop += [
                sent["hash"]
                for sent in (block or {"transactions": []})["transactions"]
                # no component could be blamed for a lost gift
                if sent["from"] != DEVNET.faucet and self._rng.random() < gust.drops
            ]
        self._effects["dropped"] += len(drop)
        await self._fault("evm", "reorg", depth=gust.depth, drop=drop, delay=gust.delay)

    async def _apply_weather(self, gust: Gust) -> None:
        if self._stage.embedded:
            await self._plan_answers(gust)
            return
        usual = USUAL[gust.chain]
        for n in gust.nodes:
            await self._till.set_weather(gust.chain, n, {**usual, **gust.weather})
        await asyncio.sleep(gust.for_s)
        for n in gust.nodes:
            await self._till.set_weather(gust.chain, n, usual)

    async def _plan_answers(self, gust: Gust) -> None:
        """Make the next calls of some methods fail on an embedded chain."""
        for effect, method in self._list_answer_faults(gust):
            self._effects[effect] += 1
            times = self._rng.randint(2, 12)
            more = {"delayMs": 2000} if effect == "delay" else {"message": INJECTED}
            try:
                await self._fault(
                    gust.chain, "answer", method=method, effect=effect, times=times, **more
                )
            except ChainRefused as refusal:
                raise RuntimeError(f"{gust}: {refusal}") from refusal

    def _list_answer_faults(self, gust: Gust) -> list[tuple[str, str]]:
        evm = gust.chain == "evm"
        send = "eth_sendRawTransaction" if evm else "sendTransaction"
        reads = (
            ["eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getTransactionReceipt"]
            if evm
            else ["getTransaction"]
        )
        requests = ["eth_call", "eth_getLogs"] if evm else ["getSlot", "getSignatureStatuses"]
        results = []
        for effect in gust.weather:
            match effect:
                case "drop":
                    results.append(("drop", send))
                case "fail":
                    results.append(("error", send))
                case "late":
                    results.append(("late_error", send))
                case "null":
                    results += [("null", text) for text in reads]
                case "slow":
                    results += [("delay", text) for text in requests]
                case "refuse" | "silent":
                    results += [("error", text) for text in (*reads, *requests)]
        return results

    async def _clear_faults(self) -> None:
        for chain in ("evm", "solana"):
            if not self._stage.embedded:
                for n in range(self._plan.nodes):
                    await self._till.set_weather(chain, n, {})
            await self._fault(chain, "clear")
        await self._fault("evm", "baseFee", wei=hex(GWEI))


def _count_honest(last: list[Story]) -> str:
    """Return the share of honest orders that were paid, by the last payment of each."""
    honest = [story for story in last if story.order.mood in PAYS]
    return f"{sum(story.status == 'succeeded' for story in honest)}/{len(honest)}"


def _median(values: list[float]) -> float:
    return round(sorted(values)[len(values) // 2], 2) if values else 0.0


async def drive(stage: Stage, plan: Plan) -> None:
    """Run a plan and write its verdict."""
    timeout = aiohttp.ClientTimeout(total=CALL_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        storm = Storm(stage, plan, Till(stage, session))
        stage.write_facts("verdict", await storm.run())
