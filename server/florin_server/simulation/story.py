"""One payment from its order to its end: what its merchant and its buyer do, and are told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from florin_client.wallet import WalletError

from florin_server.simulation.calls import Json, Refused, Rest
from florin_server.simulation.nodes import Node
from florin_server.simulation.population import SECOND_US, Deed, Order
from florin_server.simulation.stage import Stage
from florin_server.simulation.wallet import ASSETS, Wallet

# when those look at a payment who come too late, before it is over, and when they pay it, after
_LAST_S, _LATE_S = 300, 20
# how often a merchant asks after a refund, and a buyer after its money
# at first, and later; and how many times
_LOOK_S, _LATER_S = 1, 60
_SOON, _LOOKS = 120, 5_000
# times that a wallet begins again whose signature was not taken
_TRIES = 3
_MADE_UP = "0x" + "11" * 32


class Stuck(Exception):  # noqa: N818  (told to whoever simulates)
    """Something does not end; the text says what."""


class Times(Protocol):
    """How stories wait. Times are microseconds since the Unix epoch."""

    async def until(self, at_us: int) -> None:
        """Returns at a time."""

    async def next_step(self) -> None:
        """Returns once the clock was moved on, be it by a block."""

    def flying(self, chain: str) -> AbstractContextManager[None]:
        """Something is on its way on a kind of chain as long as this lasts."""


@dataclass(slots=True)
class Story:
    """What became of an order. Times are microseconds since the beginning, 0 for never."""

    order: Order
    payment_id: str = ""
    account: str = ""  # of its buyer, CAIP-10
    over_us: int = 0  # when it expires, since the Unix epoch
    told: list[tuple[int, str]] = field(default_factory=list)  # states, as they came
    offered: int | None = None  # options; None if nobody asked
    asset: str = ""  # what was chosen
    promised_s: int = 0  # how long that takes, as its option says
    signed_us: int = 0
    confirmed_us: int = 0
    ended_us: int = 0
    refused: list[str] = field(default_factory=list)
    refund: str = ""
    refunded_us: int = 0
    returned_us: int = 0  # late money

    @property
    def status(self) -> str:
        """The last that its buyer, or its merchant, was told."""
        return self.told[-1][1] if self.told else ""

    def line(self) -> dict[str, Any]:
        """All that a seed decides, and no ids: equal for equal seeds."""
        one = self.order
        return {
            "n": one.n,
            "at_us": one.at_us,
            "merchant": one.merchant,
            "buyer": one.buyer,
            "amount": f"{one.cents} {one.currency}",
            "deed": str(one.deed),
            "told": self.told,
            "offered": self.offered,
            "asset": self.asset,
            "signed_us": self.signed_us,
            "confirmed_us": self.confirmed_us,
            "ended_us": self.ended_us,
            "refused": self.refused,
            "refund": self.refund,
            "refunded_us": self.refunded_us,
            "returned_us": self.returned_us,
        }


class Teller:
    """Tells the stories of one simulation."""

    def __init__(self, stage: Stage, times: Times, begin_us: int, end_us: int, name: str) -> None:
        self._stage = stage
        self._times = times
        self._begin_us = begin_us
        self._end_us = end_us
        self._name = name

    async def tell(self, order: Order, wallet: Wallet) -> Story:
        """The story of an order, whose time has come."""
        story = Story(order, account=wallet.account)
        shop = self._stage.api.merchant(self._stage.shops[order.merchant].id)
        made = await self._make(story, shop)
        story.over_us = made["expiresAt"] * SECOND_US
        if order.deed is Deed.IGNORES:
            await self._times.until(story.over_us)
            status = await shop.get(f"/v1/payments/{story.payment_id}/status")
            self._hear(story, status["status"])
            return story
        await self._after(order.opens_s)
        buyer = self._stage.api.buyer(order.buyer)
        watching = asyncio.create_task(self._watch(story, buyer))
        try:
            await self._visit(story, buyer, wallet)
            if not watching.done():
                await self._end(story, watching)
        finally:
            watching.cancel()
        if story.status == "succeeded" and order.refund_s is not None:
            await self._refund(story, shop, order.refund_s)
        return story

    # ---- the merchant

    async def _make(self, story: Story, shop: Rest) -> Json:
        order = story.order
        body = {
            "amount": {"unit": f"iso4217/{order.currency}", "value": str(order.cents)},
            "referenceId": f"{self._name}-{order.n}",
        }
        made = await shop.post("/v1/payments", body, f"{self._name}-order-{order.n}")
        story.payment_id = made["paymentId"]
        if order.twice:
            again = await shop.post("/v1/payments", body, f"{self._name}-order-{order.n}")
            if again["paymentId"] != story.payment_id:
                raise RuntimeError(f"{story.payment_id} was made twice")
        return made

    async def _refund(self, story: Story, shop: Rest, after_s: float) -> None:
        wanted_us = self._stage.now_us + int(after_s * SECOND_US)
        if wanted_us >= self._end_us:
            return
        await self._times.until(wanted_us)
        body, key = {"paymentId": story.payment_id}, f"{self._name}-refund-{story.order.n}"
        for _ in range(1 + story.order.twice):
            await shop.post("/v1/refunds", body, key)
        detail: Json = {}

        async def over() -> bool:
            detail.update(await shop.get(f"/v1/payments/{story.payment_id}"))
            return "completedAt" in detail["refund"]

        with self._times.flying(story.order.purse.chain):
            await self._patiently(story, over)
        story.refund, story.refunded_us = detail["refund"]["status"], self._now_us()

    # ---- the buyer

    async def _visit(self, story: Story, buyer: Rest, wallet: Wallet) -> None:
        """What the buyer does on the payment's page, until there is nothing more to do there."""
        try:
            await self._try(story, buyer, wallet)
        except Refused as refusal:
            story.refused.append(refusal.code)
        except WalletError:
            # what was to be sent cannot be any more
            story.refused.append("wallet")

    async def _try(self, story: Story, buyer: Rest, wallet: Wallet) -> None:
        order = story.order
        if order.deed is Deed.LATE:
            await self._times.until(story.over_us - _LAST_S * SECOND_US)
        for tries in range(1, _TRIES + 1):
            option = await self._option(story, buyer, wallet)
            if option is None or order.deed is Deed.LOOKS:
                return
            actions = await self._actions(story, buyer, option)
            if order.deed is Deed.HESITATES:
                return
            # who was too slow hurries
            await self._after(order.thinks_s / tries**2)
            if order.deed is Deed.CANCELS:
                await self._click(story, buyer, "cancel", {})
                return
            if await self._pay(story, buyer, wallet, option, actions):
                return

    async def _option(self, story: Story, buyer: Rest, wallet: Wallet) -> Json | None:
        """The option of the buyer's purse; None if the buyer is offered none."""
        path = f"/v1/gateway/payment/{story.payment_id}/options"
        for _ in range(1 + story.order.twice):
            found = await buyer.post(path, {"accounts": [wallet.account]})
        story.offered = len(found["options"])
        wanted = f"caip19/{ASSETS[story.order.purse]}"
        option: Json | None = None
        for one in found["options"]:
            if one["amount"]["unit"] == wanted:
                option = one
        if option is not None:
            story.asset, story.promised_s = ASSETS[story.order.purse], option["etaS"]
        return option

    async def _actions(self, story: Story, buyer: Rest, option: Json) -> list[Json]:
        actions: list[Json] = option["actions"]
        if actions[0]["type"] != "build":
            return actions
        body = {"optionId": option["id"], "data": actions[0]["data"]["data"]}
        path = f"/v1/gateway/payment/{story.payment_id}/fetch"
        fetched: list[Json] = (await buyer.post(path, body))["actions"]
        return fetched

    async def _pay(
        self, story: Story, buyer: Rest, wallet: Wallet, option: Json, actions: list[Json]
    ) -> bool:
        """Signs or sends, and hands in; False if the wallet may begin again."""
        order, sends = story.order, actions[-1]["data"]["method"] == "eth_sendTransaction"
        if order.deed is Deed.LATE and sends:
            await self._click(story, buyer, "cancel", {})
            await self._send_late(story, wallet, option, actions)
            return True
        if order.deed is Deed.LATE:
            # time stops where the payment expires, too
            await self._times.until(story.over_us)
            await self._after(_LATE_S)
        outputs = [_MADE_UP] * 9
        if order.deed is not Deed.BLUNDERS:
            outputs = await wallet.perform(option, actions, self._stage.now_us / SECOND_US)
        story.signed_us = self._now_us()
        results = [{"type": "walletRpc", "data": [one]} for one in outputs]
        body = {"optionId": option["id"], "results": results}
        taken = await self._click(story, buyer, "confirm", body)
        if taken:
            story.confirmed_us = self._now_us()
        return taken or order.deed is Deed.LATE

    async def _click(self, story: Story, buyer: Rest, what: str, body: Json) -> bool:
        """Hands in something, once or twice; True if it was taken."""
        path = f"/v1/gateway/payment/{story.payment_id}/{what}"
        clicks = [buyer.post(path, body) for _ in range(1 + story.order.twice)]
        answers = await asyncio.gather(*clicks, return_exceptions=True)
        for one in answers:
            if isinstance(one, BaseException) and not isinstance(one, Refused):
                raise one
        story.refused += sorted({one.code for one in answers if isinstance(one, Refused)})
        return not all(isinstance(one, Refused) for one in answers)

    async def _send_late(
        self, story: Story, wallet: Wallet, option: Json, actions: list[Json]
    ) -> None:
        """Sends for nothing, and waits until the money is back, but for its gas."""
        before = await self._coin(wallet)
        await wallet.perform(option, actions, self._stage.now_us / SECOND_US)
        story.signed_us = self._now_us()

        async def gone() -> bool:
            return await self._coin(wallet) < before

        with self._times.flying("evm"):
            await self._patiently(story, gone)
            left = await self._coin(wallet)

            async def back() -> bool:
                return await self._coin(wallet) > left + (before - left) // 2

            await self._patiently(story, back)
        story.returned_us = self._now_us()

    async def _patiently(self, story: Story, look: Callable[[], Awaitable[bool]]) -> None:
        """Returns once something is so; Stuck if it does not come."""
        for looks in range(_LOOKS):
            if await look():
                return
            await self._after(_LOOK_S if looks < _SOON else _LATER_S)
        raise Stuck(f"{story.payment_id}: what is promised does not come")

    async def _coin(self, wallet: Wallet) -> int:
        return int(await self._node().ask("eth_getBalance", wallet.address, "latest"), 16)

    # ---- the end

    async def _end(self, story: Story, watching: asyncio.Task[None]) -> None:
        """Waits until the payment has ended, by its chain or by its time."""
        if not story.confirmed_us:
            await self._times.until(max(story.over_us, self._stage.now_us))
            await watching
            return
        with self._times.flying(story.order.purse.chain):
            if story.order.reorg and story.order.purse.chain == "evm":
                await self._times.next_step()
                deep = self._stage.service.settings.embedded.confirmations > 1
                # a chain that stands still has no other blocks either
                if deep and not self._stage.paces["evm"].stopped:
                    await self._node().fault("reorg", depth=1, delay=1)
            await watching

    async def _watch(self, story: Story, buyer: Rest) -> None:
        """Follows the payment until it has ended, however often a stream ends before."""
        path = f"/v1/gateway/payment/{story.payment_id}/events"
        while True:
            async for state in buyer.events(path):
                if state["status"] != story.status:
                    self._hear(story, state["status"])
                if state["isFinal"]:
                    return

    def _hear(self, story: Story, status: str) -> None:
        story.told.append((self._now_us(), status))
        story.ended_us = self._now_us()

    async def _after(self, seconds: float) -> None:
        await self._times.until(self._stage.now_us + int(seconds * SECOND_US))

    def _now_us(self) -> int:
        return self._stage.now_us - self._begin_us

    def _node(self) -> Node:
        return self._stage.nodes["evm"]
