"""One payment from its creation to its end, as a buyer with an unreliable shop lives it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from florin_server.devnet.evm import DEVNET

from tests.chaos.plan import Mood, Order, Way
from tests.chaos.purse import Purse
from tests.chaos.stage import ETHER, EUR, USD
from tests.chaos.till import LOOK_S, ChainRefused, Till
from tests.support.api import Refused
from tests.support.solana import ASSETS

SAVINGS = "0x" + "5b" * 20
_UNITS = {Way.EIP3009: "USD", Way.PERMIT2: "EUR", Way.DIRECT: "USD", Way.COIN: "GBP"}
_ASSETS = {
    Way.EIP3009: USD,
    Way.PERMIT2: EUR,
    Way.DIRECT: USD,
    Way.COIN: ETHER,
    Way.TOKEN: ASSETS[0],
    Way.TOKEN_2022: ASSETS[1],
}
_MADE_UP = "0x" + "11" * 32
_MOVE = "a9059cbb"  # transfer(address,uint256)
REFUND_LOOK_S = 0.2
# times that a wallet tries to confirm what is refused
_TRIES = 60


@dataclass
class Story:
    """What became of an order. Times are seconds of the machine."""

    order: Order
    payment_id: str = ""
    status: str = ""
    refused: str = ""
    refund: str = ""
    confirmed_at: float = 0.0
    ended_at: float = 0.0
    moved: bool = False
    outputs: list[str] = field(default_factory=list)


class Teller:
    """Tells stories of one run."""

    def __init__(self, seed: int, till: Till, purses: Any) -> None:
        self._seed = seed
        self._till = till
        self._purses = purses

    async def tell(self, order: Order) -> Story:
        till, story = self._till, Story(order)
        unit = f"iso4217/{_UNITS.get(order.way, 'USD')}"
        body = {"amount": {"unit": unit, "value": str(order.cents)}, "referenceId": f"n{order.n}"}
        headers = till.api.merchant if order.settled else till.kept
        keyed = {**headers, "Idempotency-Key": f"chaos-{self._seed}-{order.n}"}
        made = await till.patiently(lambda: till.api.call("POST", "/v1/payments", keyed, body))
        story.payment_id = made["paymentId"]
        try:
            await self._pay(story)
        except Refused as refusal:
            story.refused = str(refusal)
        story.status = await till.final(story.payment_id)
        story.ended_at = monotonic()
        if order.refunded and story.status == "succeeded":
            await self._refund(story, headers, f"refund-{self._seed}-{order.n}")
        return story

    async def _refund(self, story: Story, headers: dict[str, str], key: str) -> None:
        """Asks for the money back, and waits until it is there."""
        till, body = self._till, {"paymentId": story.payment_id}
        keyed = {**headers, "Idempotency-Key": key}
        await till.patiently(lambda: till.api.call("POST", "/v1/refunds", keyed, body))
        path = f"/v1/payments/{story.payment_id}"
        while True:
            detail = await till.patiently(lambda: till.api.call("GET", path, headers))
            if "completedAt" in detail["refund"]:
                story.refund = detail["refund"]["status"]
                return
            await asyncio.sleep(REFUND_LOOK_S)

    async def _pay(self, story: Story) -> None:
        order, till = story.order, self._till
        if order.mood is Mood.GONE:
            return
        for left in reversed(range(_TRIES)):
            option = await self._option(story)
            if order.mood is Mood.CANCELS:
                await till.patiently(lambda: till.api.cancel(story.payment_id))
                return
            outputs = await self._outputs(story, option)
            await asyncio.sleep(order.thinks_s)
            if order.mood is Mood.SILENT:
                return
            mover = asyncio.create_task(self._move(story))
            again = await self._confirm(story, option, outputs, last=left == 0)
            await mover
            if not again:
                return

    async def _option(self, story: Story) -> dict[str, Any]:
        """The order's way to pay, once the service offers it."""
        till, purse = self._till, self._purses.of(story.order)
        wanted = f"caip19/{_ASSETS[story.order.way]}"
        while True:
            found = await till.patiently(
                lambda: till.api.options(story.payment_id, [purse.account])
            )
            for option in found["options"]:
                if option["amount"]["unit"] == wanted:
                    return option
            await asyncio.sleep(LOOK_S)

    async def _outputs(self, story: Story, option: dict[str, Any]) -> list[str]:
        till, order, purse = self._till, story.order, self._purses.of(story.order)
        actions = option["actions"]
        if actions[0]["type"] == "build":
            data = actions[0]["data"]["data"]
            fetched = await till.patiently(
                lambda: till.api.fetch(story.payment_id, option["id"], data)
            )
            actions = fetched["actions"]
        if order.mood is Mood.HOLLOW:
            return [_MADE_UP] * len(actions)
        if order.way.on_solana:
            return [purse.execute(action) for action in actions]
        async with purse.busy:
            # money that was sent is not sent again
            if not (order.way.sends and story.outputs):
                story.outputs = await self._performed(purse, actions)
        return story.outputs

    async def _performed(self, purse: Purse, actions: list[dict[str, Any]]) -> list[str]:
        """The outputs of a wallet whose user tries again when the chain refuses a step.

        A reorganisation may have taken an approval before the payment that needs it.
        """
        for left in reversed(range(_TRIES)):
            try:
                return await purse.perform(self._till.evm, actions)
            except ChainRefused:
                if not left:
                    raise
                await asyncio.sleep(LOOK_S)
        raise AssertionError

    async def _confirm(
        self, story: Story, option: dict[str, Any], outputs: list[str], *, last: bool
    ) -> bool:
        """True if the wallet has to begin again."""
        till = self._till
        story.confirmed_at = monotonic()
        try:
            await till.patiently(lambda: till.api.confirm(story.payment_id, option["id"], outputs))
        except Refused as refusal:
            state = await till.patiently(lambda: till.api.status(story.payment_id))
            if state["status"] != "requires_action":
                # told by the chain, or by an answer that got lost
                return False
            story.refused = str(refusal)
            if last:
                raise
            await asyncio.sleep(LOOK_S)
            return True
        story.refused = ""
        return False

    async def _move(self, story: Story) -> None:
        """Takes the money away while the payment is on its way."""
        order, till = story.order, self._till
        if order.mood is not Mood.BROKE or story.moved:
            return
        purse = self._purses.of(order)
        async with purse.busy:
            held = await till.evm.balance(purse.address, DEVNET.token.address)
            data = bytes.fromhex(_MOVE + SAVINGS[2:].rjust(64, "0") + f"{held:064x}")
            token = bytes.fromhex(DEVNET.token.address[2:])
            await purse._send(till.evm, gas=100_000, to=token, data=data)
            story.moved = True
