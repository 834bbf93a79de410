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
from florin_server.money.settlement.store.settlement_items import FAILURES_MAX

from tests.chaos.audit import Audit, build_target
from tests.chaos.buyer_wallets import BuyerWallets
from tests.chaos.chaos_service import ChaosEnvironment
from tests.chaos.fast_clock import QuickClock
from tests.chaos.payment_run import PaymentRun, PaymentRunner
from tests.chaos.plan import CONFIRMATIONS, USUAL, BuyerBehavior, ChainFault, Order, Plan, Way
from tests.chaos.service_client import CALL_S, INJECTED, POLL_S, ChainRefused, ServiceClient
from tests.chaos.stray_returns import StrayReturns
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
         + (SELECT count(*) FROM facilitation WHERE state IN ('waiting', 'sent'))
"""
# until every authorization has lapsed, plus what the chains need to notice
LAPSE_S = 1400
# a run that takes longer is stuck
PATIENCE_S, PATIENCE_PER_PAYMENT_S = 300, 0.6
PROBES = 1000


class ChaosRun:
    """One run of a plan against a service that is killed meanwhile."""

    def __init__(
        self, environment: ChaosEnvironment, plan: Plan, service_client: ServiceClient
    ) -> None:
        self._environment = environment
        self._plan = plan
        self._service_client = service_client
        self._rng = random.Random(f"storm {plan.seed}")
        self._clock = QuickClock(environment.clock)
        self._probes = tuple(
            Order(PROBES + n, 0, way, 150, BuyerBehavior.HONEST, 2000 + n, settled=True, thinks_s=0)
            for n, way in enumerate(Way)
        )
        orders = (*plan.orders, *self._probes)
        self._wallets = BuyerWallets(plan.seed, orders, embedded=environment.embedded)
        self._runner = PaymentRunner(environment, plan.seed, service_client, self._wallets)
        self._strays = StrayReturns(
            environment, service_client, self._clock, self._wallets.helper.account
        )
        self._ended_at = 0.0
        self._effects: Counter[str] = Counter()

    async def run(self) -> dict[str, Any]:
        plan, service_client = self._plan, self._service_client
        await self._wallets.fund(service_client, self._environment)
        # the buyers' balances must be as final as a block beyond any reorganization
        await service_client.evm.ask("evm_mine", {"blocks": CONFIRMATIONS})
        since = int(await service_client.evm.ask("eth_blockNumber"), 16)
        before = await self._read_balances()
        began = time.monotonic()
        tasks = [asyncio.create_task(self._buy(order), name=str(order)) for order in plan.orders]
        chain_faults = [
            asyncio.create_task(self._apply_gust(chain_fault)) for chain_fault in plan.chain_faults
        ]
        await self._in_time(asyncio.gather(*chain_faults), "the faults")
        await self._clear_faults()
        calm_at = time.monotonic()
        bought = await self._in_time(self._wait_for_stories(tasks), "the payments")
        done_at = time.monotonic()
        probes = await self._in_time(
            asyncio.gather(*(self._runner.run_order(order) for order in self._probes)), "the probes"
        )
        await self._in_time(self._wait_until_idle(), "the transactions")
        ended_us = self._clock.now_us()
        await self._in_time(self._strays.return_all(), "the returns")
        await self._in_time(self._wait_until_idle(), "the transactions of returns")
        payment_runs = [item for result in (*bought, *probes) for item in result]
        audit = Audit(self._environment, service_client, payment_runs, self._wallets)
        await audit.check(since, before, ended_us)
        audit.problems += [
            f"no reason not to be paid: {payment_run}"
            for payment_run in payment_runs
            if payment_run.status != "succeeded"
            and payment_run.order.pays
            and not payment_run.lapsed
        ]
        audit.problems += [
            f"was not paid in the end: {result}" for result in bought if result[-1].lapsed
        ]
        audit.problems += [f"lapsed in calm: {probe}" for probe in probes if probe[0].lapsed]
        return {
            "bad": [*service_client.bad, *audit.problems],
            "ended": dict(Counter(payment_run.status for payment_run in payment_runs)),
            "honest": _count_honest([result[-1] for result in (*bought, *probes)]),
            "lapsed": sorted(
                payment_run.payment_id for payment_run in payment_runs if payment_run.lapsed
            ),
            "bill": audit.bill,
            "conserved": audit.conserved,
            "at_addresses": _count_at_addresses(payment_runs),
            "alarms": audit.alarms,
            "effects": dict(await self._counts()),
            "lost": service_client.lost,
            "last": [
                f"{item.order.behavior} {item.order.way} {item.status}"
                f" {item.ended_at - calm_at:.0f}"
                for item in sorted(
                    (result[-1] for result in bought), key=lambda item: item.ended_at
                )[-6:]
            ],
            "faults_s": round(calm_at - began, 1),
            "calm_s": round(done_at - calm_at, 1),
            "settle_s": _median(
                [
                    payment_run.ended_at - payment_run.confirmed_at
                    for payment_run in payment_runs
                    if payment_run.status == "succeeded"
                ]
            ),
            "transactions": self._environment.select("SELECT count(*) FROM chain_tx")[0][0],
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
        before, treasuries = {}, self._environment.treasuries()
        target = build_target(self._environment, self._service_client)
        for address in (treasuries[0], *(item.address for item in self._wallets.evm.values())):
            for asset in (USD, EUR, ETHER):
                before[f"{asset} {address.lower()}"] = await target.read_balance(address, asset)
        for address in (
            treasuries[1],
            *(wallet.address for wallet in self._wallets.solana.values()),
        ):
            for asset in ASSETS:
                before[f"{asset} {address}"] = await target.read_balance(address, asset)
        return before

    async def _buy(self, order: Order) -> list[PaymentRun]:
        await asyncio.sleep(order.at_s)
        payment_runs = await self._runner.run_order(order)
        self._ended_at = time.monotonic()
        return payment_runs

    async def _wait_for_stories(
        self, tasks: list[asyncio.Task[list[PaymentRun]]]
    ) -> list[list[PaymentRun]]:
        """Return every payment run; payments that can only end by lapsing get the time for it."""
        self._ended_at, is_advanced = time.monotonic(), False
        while not all(task.done() for task in tasks):
            await asyncio.wait(tasks, timeout=POLL_S, return_when=asyncio.FIRST_EXCEPTION)
            quiet = time.monotonic() - self._ended_at > QUIET_S
            if (
                quiet
                and not is_advanced
                and not self._has_due_work()
                and not self._runner.has_unpaid_buyer()
            ):
                self._clock.advance(LAPSE_S)
                is_advanced = True
            if is_advanced:
                # an idle chain would take its time
                await self._service_client.evm.ask("evm_mine")
        return [task.result() for task in tasks]

    def _has_due_work(self) -> bool:
        """Return whether the service has work that it could do now."""
        due_us = self._clock.now_us() - GRACE_S * 1_000_000
        return self._environment.select(_BUSY.format(due_us)) != [(0,)]

    async def _wait_until_idle(self) -> None:
        while self._has_due_work():
            await self._service_client.evm.ask("evm_mine")
            await asyncio.sleep(POLL_S)

    async def _counts(self) -> Counter[str]:
        counts = Counter(self._effects)
        if not self._environment.embedded:
            counts.update(await self._service_client.counts())
        return counts

    # ---- faults

    async def _apply_gust(self, chain_fault: ChainFault) -> None:
        await asyncio.sleep(chain_fault.at_s)
        if chain_fault.weather:
            await self._apply_weather(chain_fault)
            return
        self._effects[chain_fault.kind] += 1
        if chain_fault.kind == "reorg":
            await self._reorg(chain_fault)
        elif chain_fault.kind == "slots":
            await self._fault("solana", "slots", slots=chain_fault.depth)
        elif chain_fault.kind == "fees":
            await self._fault("evm", "baseFee", wei=hex(FEES_TIMES * GWEI))
            await asyncio.sleep(chain_fault.for_s)
            await self._fault("evm", "baseFee", wei=hex(GWEI))
        else:
            kind = "mining" if chain_fault.chain == "evm" else "landing"
            await self._fault(chain_fault.chain, kind, paused=True)
            await asyncio.sleep(chain_fault.for_s)
            await self._fault(chain_fault.chain, kind, paused=False)

    async def _fault(self, chain: str, kind: str, **options: Any) -> None:
        node = self._service_client.evm if chain == "evm" else self._service_client.solana
        await node.ask("florin_fault", {"kind": kind, **options})

    async def _reorg(self, chain_fault: ChainFault) -> None:
        ask = self._service_client.evm.ask
        head = int(await ask("eth_blockNumber"), 16)
        if head <= chain_fault.depth:
            return
        drop = []
        for number in range(head - chain_fault.depth + 1, head + 1):
            block = await ask("eth_getBlockByNumber", hex(number), True)
            drop += [
                sent["hash"]
                for sent in (block or {"transactions": []})["transactions"]
                # no component could be blamed for a lost gift
                if sent["from"] != DEVNET.faucet and self._rng.random() < chain_fault.drops
            ]
        self._effects["dropped"] += len(drop)
        await self._fault(
            "evm", "reorg", depth=chain_fault.depth, drop=drop, delay=chain_fault.delay
        )

    async def _apply_weather(self, chain_fault: ChainFault) -> None:
        if self._environment.embedded:
            await self._plan_answers(chain_fault)
            return
        usual = USUAL[chain_fault.chain]
        for n in chain_fault.nodes:
            await self._service_client.set_weather(
                chain_fault.chain, n, {**usual, **chain_fault.weather}
            )
        await asyncio.sleep(chain_fault.for_s)
        for n in chain_fault.nodes:
            await self._service_client.set_weather(chain_fault.chain, n, usual)

    async def _plan_answers(self, chain_fault: ChainFault) -> None:
        """Make the next calls of some methods fail on an embedded chain."""
        for effect, method in self._list_answer_faults(chain_fault):
            self._effects[effect] += 1
            times = self._rng.randint(2, 12)
            more = {"delayMs": 2000} if effect == "delay" else {"message": INJECTED}
            try:
                await self._fault(
                    chain_fault.chain, "answer", method=method, effect=effect, times=times, **more
                )
            except ChainRefused as refusal:
                raise RuntimeError(f"{chain_fault}: {refusal}") from refusal

    def _list_answer_faults(self, chain_fault: ChainFault) -> list[tuple[str, str]]:
        evm = chain_fault.chain == "evm"
        send = "eth_sendRawTransaction" if evm else "sendTransaction"
        reads = (
            ["eth_getBlockByNumber", "eth_getBlockReceipts", "eth_getTransactionReceipt"]
            if evm
            else ["getTransaction"]
        )
        requests = ["eth_call", "eth_getLogs"] if evm else ["getSlot", "getSignatureStatuses"]
        results = []
        for effect in chain_fault.weather:
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
            if not self._environment.embedded:
                for n in range(self._plan.nodes):
                    await self._service_client.set_weather(chain, n, {})
            await self._fault(chain, "clear")
        await self._fault("evm", "baseFee", wei=hex(GWEI))


def _count_honest(last: list[PaymentRun]) -> str:
    """Return the share of honest orders that were paid, by the last payment of each."""
    honest = [payment_run for payment_run in last if payment_run.order.pays]
    return f"{sum(payment_run.status == 'succeeded' for payment_run in honest)}/{len(honest)}"


def _count_at_addresses(payment_runs: list[PaymentRun]) -> dict[str, int]:
    """Return how payments at addresses ended, by what their buyers did."""
    return dict(
        Counter(
            f"{payment_run.order.way} {payment_run.order.behavior}: {payment_run.status}"
            for payment_run in payment_runs
            if payment_run.order.way.has_own_address
        )
    )


def _median(values: list[float]) -> float:
    return round(sorted(values)[len(values) // 2], 2) if values else 0.0


async def drive(environment: ChaosEnvironment, plan: Plan) -> None:
    """Run a plan and write its verdict."""
    timeout = aiohttp.ClientTimeout(total=CALL_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        run = ChaosRun(environment, plan, ServiceClient(environment, session))
        environment.write_facts("verdict", await run.run())
