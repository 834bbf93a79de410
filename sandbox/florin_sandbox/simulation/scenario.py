"""Run one payment from its order to its end, as its merchant and its buyer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from florin_client.wallet import WalletError

from florin_sandbox.simulation.calls import ApiRefusal, Json, RestClient
from florin_sandbox.simulation.environment import SimulationEnvironment
from florin_sandbox.simulation.nodes import SandboxNode
from florin_sandbox.simulation.population import SECOND_US, BuyerBehavior, SimulatedOrder
from florin_sandbox.simulation.wallet import ASSETS, SimulatedWallet

# late buyers open a payment this long before it expires, and pay it this long after
_EXPIRY_MARGIN_S, _LATE_DELAY_S = 300, 20
# seconds between polls for a refund or returned money, at first and later; then the limits
_POLL_S, _POLL_LATER_S = 1, 60
_FAST_POLLS, _POLLS_MAX = 120, 5_000
# tries of a wallet whose signature is refused
_ATTEMPTS_MAX = 3
_FAKE_TX_ID = "0x" + "11" * 32


class ScenarioStuck(Exception):  # noqa: N818  (the message goes to the user)
    """A scenario does not end; the text says which."""


class ScenarioClock(Protocol):
    """The waiting functions of scenarios. Times are microseconds since the Unix epoch."""

    async def wait_until(self, at_us: int) -> None:
        """Wait until a time."""

    async def wait_for_step(self) -> None:
        """Wait for the next move of the clock, e.g. by one block."""

    def mark_in_flight(self, chain: str) -> AbstractContextManager[None]:
        """Mark a transaction as pending on a kind of chain during the block."""


@dataclass(slots=True)
class PaymentScenario:
    """The course of an order. Times are microseconds since the start, 0 for never."""

    order: SimulatedOrder
    payment_id: str = ""
    account: str = ""  # of its buyer, CAIP-10
    expires_us: int = 0  # when it expires, since the Unix epoch
    seen_statuses: list[tuple[int, str]] = field(
        default_factory=list
    )  # times and statuses, as they came
    offered_count: int | None = None  # number of options; None if the buyer did not ask
    asset: str = ""  # of the chosen option
    promised_s: int = 0  # duration that the option promises
    signed_us: int = 0
    confirmed_us: int = 0
    ended_us: int = 0
    refusals: list[str] = field(default_factory=list)
    refund_status: str = ""
    refunded_us: int = 0
    returned_us: int = 0  # late money

    @property
    def last_status(self) -> str:
        """Return the last status that the buyer or the merchant saw."""
        return self.seen_statuses[-1][1] if self.seen_statuses else ""

    def to_line(self) -> dict[str, Any]:
        """Return everything that the seed decides, without ids: equal for equal seeds."""
        order = self.order
        return {
            "n": order.number,
            "at_us": order.at_us,
            "merchant": order.merchant,
            "buyer": order.buyer,
            "amount": f"{order.cents} {order.currency}",
            "deed": str(order.behavior),
            "statuses": self.seen_statuses,
            "offered": self.offered_count,
            "asset": self.asset,
            "signed_us": self.signed_us,
            "confirmed_us": self.confirmed_us,
            "ended_us": self.ended_us,
            "refused": self.refusals,
            "refund": self.refund_status,
            "refunded_us": self.refunded_us,
            "returned_us": self.returned_us,
        }


class ScenarioRunner:
    """Runs the scenarios of one simulation."""

    def __init__(
        self,
        stage: SimulationEnvironment,
        times: ScenarioClock,
        begin_us: int,
        end_us: int,
        name: str,
    ) -> None:
        self._environment = stage
        self._scenario_clock = times
        self._begin_us = begin_us
        self._end_us = end_us
        self._name = name

    async def run(self, order: SimulatedOrder, wallet: SimulatedWallet) -> PaymentScenario:
        """Run the scenario of an order that is due."""
        story = PaymentScenario(order, account=wallet.account)
        shop = self._environment.api.get_merchant_client(
            self._environment.merchants[order.merchant].id
        )
        payment = await self._create_payment(story, shop)
        story.expires_us = payment["expiresAt"] * SECOND_US
        if order.behavior is BuyerBehavior.IGNORES:
            await self._scenario_clock.wait_until(story.expires_us)
            status = await shop.get(f"/v1/payments/{story.payment_id}/status")
            self._record_status(story, status["status"])
            return story
        await self._sleep(order.open_delay_s)
        buyer = self._environment.api.get_buyer_client(order.buyer)
        watching = asyncio.create_task(self._follow_status(story, buyer))
        try:
            await self._run_buyer(story, buyer, wallet)
            if not watching.done():
                await self._wait_for_end(story, watching)
        finally:
            watching.cancel()
        if story.last_status == "succeeded" and order.refund_delay_s is not None:
            await self._request_refund(story, shop, order.refund_delay_s)
        return story

    # ---- the merchant

    async def _create_payment(self, story: PaymentScenario, shop: RestClient) -> Json:
        order = story.order
        body = {
            "amount": {"unit": f"iso4217/{order.currency}", "value": str(order.cents)},
            "referenceId": f"{self._name}-{order.number}",
        }
        payment = await shop.post("/v1/payments", body, f"{self._name}-order-{order.number}")
        story.payment_id = payment["paymentId"]
        if order.is_double_click:
            again = await shop.post("/v1/payments", body, f"{self._name}-order-{order.number}")
            if again["paymentId"] != story.payment_id:
                raise RuntimeError(f"{story.payment_id} was created twice")
        return payment

    async def _request_refund(
        self, story: PaymentScenario, shop: RestClient, after_s: float
    ) -> None:
        refund_us = self._environment.now_us + int(after_s * SECOND_US)
        if refund_us >= self._end_us:
            return
        await self._scenario_clock.wait_until(refund_us)
        body, key = {"paymentId": story.payment_id}, f"{self._name}-refund-{story.order.number}"
        for _ in range(1 + story.order.is_double_click):
            await shop.post("/v1/refunds", body, key)
        detail: Json = {}

        async def over() -> bool:
            detail.update(await shop.get(f"/v1/payments/{story.payment_id}"))
            return "completedAt" in detail["refund"]

        with self._scenario_clock.mark_in_flight(story.order.wallet_kind.chain):
            await self._poll_until(story, over)
        story.refund_status, story.refunded_us = detail["refund"]["status"], self._get_now_us()

    # ---- the buyer

    async def _run_buyer(
        self, story: PaymentScenario, buyer: RestClient, wallet: SimulatedWallet
    ) -> None:
        """Act as the buyer on the payment page, until there is nothing left to do there."""
        try:
            await self._attempt_payment(story, buyer, wallet)
        except ApiRefusal as refusal:
            story.refusals.append(refusal.code)
        except WalletError:
            # the transaction cannot be sent any more
            story.refusals.append("wallet")

    async def _attempt_payment(
        self, story: PaymentScenario, buyer: RestClient, wallet: SimulatedWallet
    ) -> None:
        order = story.order
        if order.behavior is BuyerBehavior.LATE:
            await self._scenario_clock.wait_until(story.expires_us - _EXPIRY_MARGIN_S * SECOND_US)
        for tries in range(1, _ATTEMPTS_MAX + 1):
            option = await self._find_option(story, buyer, wallet)
            if option is None or order.behavior is BuyerBehavior.LOOKS:
                return
            actions = await self._get_actions(story, buyer, option)
            if order.behavior is BuyerBehavior.HESITATES:
                return
            # buyers who were too slow hurry
            await self._sleep(order.decision_delay_s / tries**2)
            if order.behavior is BuyerBehavior.CANCELS:
                await self._submit(story, buyer, "cancel", {})
                return
            if await self._execute_payment(story, buyer, wallet, option, actions):
                return

    async def _find_option(
        self, story: PaymentScenario, buyer: RestClient, wallet: SimulatedWallet
    ) -> Json | None:
        """Return the option for the buyer's asset; None if there is no such option."""
        path = f"/v1/gateway/payment/{story.payment_id}/options"
        for _ in range(1 + story.order.is_double_click):
            listing = await buyer.post(path, {"accounts": [wallet.account]})
        story.offered_count = len(listing["options"])
        unit = f"caip19/{ASSETS[story.order.wallet_kind]}"
        option: Json | None = None
        for each_option in listing["options"]:
            if each_option["amount"]["unit"] == unit:
                option = each_option
        if option is not None:
            story.asset, story.promised_s = ASSETS[story.order.wallet_kind], option["etaS"]
        return option

    async def _get_actions(
        self, story: PaymentScenario, buyer: RestClient, option: Json
    ) -> list[Json]:
        actions: list[Json] = option["actions"]
        if actions[0]["type"] != "build":
            return actions
        body = {"optionId": option["id"], "data": actions[0]["data"]["data"]}
        path = f"/v1/gateway/payment/{story.payment_id}/fetch"
        fetched: list[Json] = (await buyer.post(path, body))["actions"]
        return fetched

    async def _execute_payment(
        self,
        story: PaymentScenario,
        buyer: RestClient,
        wallet: SimulatedWallet,
        option: Json,
        actions: list[Json],
    ) -> bool:
        """Sign or send, and submit the results; return False if the wallet can try again."""
        order, sends = story.order, actions[-1]["data"]["method"] == "eth_sendTransaction"
        if order.behavior is BuyerBehavior.LATE and sends:
            await self._submit(story, buyer, "cancel", {})
            await self._send_late_payment(story, wallet, option, actions)
            return True
        if order.behavior is BuyerBehavior.LATE:
            # stop at the expiry first, because it is an event of its own
            await self._scenario_clock.wait_until(story.expires_us)
            await self._sleep(_LATE_DELAY_S)
        outputs = [_FAKE_TX_ID] * 9
        if order.behavior is not BuyerBehavior.BLUNDERS:
            outputs = await wallet.execute(option, actions, self._environment.now_us / SECOND_US)
        story.signed_us = self._get_now_us()
        results = [{"type": "walletRpc", "data": [output]} for output in outputs]
        body = {"optionId": option["id"], "results": results}
        taken = await self._submit(story, buyer, "confirm", body)
        if taken:
            story.confirmed_us = self._get_now_us()
        return taken or order.behavior is BuyerBehavior.LATE

    async def _submit(
        self, story: PaymentScenario, buyer: RestClient, endpoint: str, body: Json
    ) -> bool:
        """Submit a request once or twice; return True if one was accepted."""
        path = f"/v1/gateway/payment/{story.payment_id}/{endpoint}"
        clicks = [buyer.post(path, body) for _ in range(1 + story.order.is_double_click)]
        answers = await asyncio.gather(*clicks, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, ApiRefusal):
                raise answer
        story.refusals += sorted(
            {each_answer.code for each_answer in answers if isinstance(each_answer, ApiRefusal)}
        )
        return not all(isinstance(each_answer, ApiRefusal) for each_answer in answers)

    async def _send_late_payment(
        self, story: PaymentScenario, wallet: SimulatedWallet, option: Json, actions: list[Json]
    ) -> None:
        """Send after the payment ended, and wait until the money is back, minus gas."""
        before = await self._read_coin_balance(wallet)
        await wallet.execute(option, actions, self._environment.now_us / SECOND_US)
        story.signed_us = self._get_now_us()

        async def gone() -> bool:
            return await self._read_coin_balance(wallet) < before

        with self._scenario_clock.mark_in_flight("evm"):
            await self._poll_until(story, gone)
            left = await self._read_coin_balance(wallet)

            async def back() -> bool:
                return await self._read_coin_balance(wallet) > left + (before - left) // 2

            await self._poll_until(story, back)
        story.returned_us = self._get_now_us()

    async def _poll_until(
        self, story: PaymentScenario, check: Callable[[], Awaitable[bool]]
    ) -> None:
        """Poll until a condition is true; ScenarioStuck if it stays false."""
        for looks in range(_POLLS_MAX):
            if await check():
                return
            await self._sleep(_POLL_S if looks < _FAST_POLLS else _POLL_LATER_S)
        raise ScenarioStuck(f"{story.payment_id}: the promised money does not arrive")

    async def _read_coin_balance(self, wallet: SimulatedWallet) -> int:
        return int(await self._get_node().call("eth_getBalance", wallet.address, "latest"), 16)

    # ---- the end

    async def _wait_for_end(self, story: PaymentScenario, watching: asyncio.Task[None]) -> None:
        """Wait until the payment has ended, on the chain or by expiry."""
        if not story.confirmed_us:
            await self._scenario_clock.wait_until(max(story.expires_us, self._environment.now_us))
            await watching
            return
        with self._scenario_clock.mark_in_flight(story.order.wallet_kind.chain):
            if story.order.has_reorg and story.order.wallet_kind.chain == "evm":
                await self._scenario_clock.wait_for_step()
                deep = self._environment.service.settings.embedded.confirmations > 1
                # a stopped chain cannot reorganize
                if deep and not self._environment.pacers["evm"].is_stopped:
                    await self._get_node().arm_fault("reorg", depth=1, delay=1)
            await watching

    async def _follow_status(self, story: PaymentScenario, buyer: RestClient) -> None:
        """Follow the payment until it has ended; reopen streams that end before."""
        path = f"/v1/gateway/payment/{story.payment_id}/events"
        while True:
            async for state in buyer.stream_events(path):
                if state["status"] != story.last_status:
                    self._record_status(story, state["status"])
                if state["isFinal"]:
                    return

    def _record_status(self, story: PaymentScenario, status: str) -> None:
        story.seen_statuses.append((self._get_now_us(), status))
        story.ended_us = self._get_now_us()

    async def _sleep(self, seconds: float) -> None:
        await self._scenario_clock.wait_until(self._environment.now_us + int(seconds * SECOND_US))

    def _get_now_us(self) -> int:
        return self._environment.now_us - self._begin_us

    def _get_node(self) -> SandboxNode:
        return self._environment.nodes["evm"]
