"""One payment from its creation to its end, for a buyer with an unreliable shop."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from florin_sandbox.devnet.evm import DEVNET
from solders.transaction import VersionedTransaction

from tests.chaos.attackers import Foes
from tests.chaos.buyer_wallets import Purse, Purses
from tests.chaos.chaos_service import CROOKS, ETHER, EUR, USD, Stage
from tests.chaos.fast_clock import QuickClock
from tests.chaos.plan import FOES, PAYS, Mood, Order, Way
from tests.chaos.service_client import POLL_S, ChainRefused, Till
from tests.support.api import ApiCallError
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
_FAKE_HASH = "0x" + "11" * 32
_MOVE = "a9059cbb"  # transfer(address,uint256)
REFUND_POLL_S = 0.2
# machine seconds between a wallet's looks at its transactions
RESEND_S = 0.5
# service seconds for which a payment stays payable long after its price has expired
LATE_S = 7200
# attempts of a wallet to confirm after refusals
_TRIES = 60
# payments that an order gets, one after another, while its buyer's signatures lapse
_PAYMENTS = 3
_ANY = {"maxSupportedTransactionVersion": 0}


@dataclass
class Story:
    """The course of one payment of an order. Times are seconds of the machine."""

    order: Order
    payment_id: str = ""
    status: str = ""
    refused: str = ""
    refund: str = ""
    confirmed_at: float = 0.0
    ended_at: float = 0.0
    moved: bool = False
    over: bool = False
    lapsed: bool = False  # the chain proves that the signature came too late
    # the option last signed or sent, and the methods of its actions
    fetched: tuple[str, list[str]] = ("", [])
    sent: dict[str, Any] | None = None  # the option for which money was sent
    helpers: list[asyncio.Task[None]] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


class Teller:
    """The buyers of one run: it creates each order's payments and acts as their wallets do."""

    def __init__(self, stage: Stage, seed: int, till: Till, purses: Purses) -> None:
        self._seed = seed
        self._stage = stage
        self._clock = QuickClock(stage.clock)
        self.till = till
        self.purses = purses
        self.harmless_stories: list[Story] = []  # payments of harmless buyers
        self._stories: list[Story] = []
        self._foes = Foes(stage, self, self._clock)

    async def run_order(self, order: Order) -> list[Story]:
        """Run all payments of an order: after a lapsed signature the merchant creates another."""
        stories: list[Story] = []
        for turn in range(_PAYMENTS):
            stories.append(await self._run_payment(order, f"{self._seed}-{order.n}-{turn}"))
            if not stories[-1].lapsed:
                break
        return stories

    def has_unpaid_buyer(self) -> bool:
        """Return whether an honest buyer has not paid yet, whose time must not run out."""
        query = "SELECT id FROM payment WHERE status = 'requires_action'"
        unpaid = {"", *(item for (item,) in self._stage.select(query))}
        return any(
            story.order.mood in PAYS and not story.over and story.payment_id in unpaid
            for story in self._stories
        )

    async def _run_payment(self, order: Order, key: str) -> Story:
        till, story = self.till, Story(order)
        self._stories.append(story)
        if order.mood is Mood.MEDDLER:
            await self._foes.act(story)
            story.status, story.ended_at = "meddled", monotonic()
            return story
        unit = f"iso4217/{_UNITS.get(order.way, 'USD')}"
        body = {"amount": {"unit": unit, "value": str(order.cents)}, "referenceId": f"n{order.n}"}
        if order.mood is Mood.LATE:
            # it stays payable after its price has expired
            body["expiresAt"] = self._clock.now_us() // 1_000_000 + LATE_S
        headers = self.headers(order)
        keyed = {**headers, "Idempotency-Key": f"chaos-{key}"}
        created = await till.call_patiently(
            lambda: till.api.call("POST", "/v1/payments", keyed, body)
        )
        story.payment_id = created["paymentId"]
        try:
            await self._pay(story)
        except ApiCallError as refusal:
            story.refused = str(refusal)
        story.status = await self._wait_final(story)
        story.ended_at = monotonic()
        await asyncio.gather(*story.helpers)
        if order.refunded and story.status == "succeeded":
            await self._refund(story, headers, f"refund-{key}")
        story.lapsed = await self._has_lapsed(story)
        story.over = True
        return story

    async def _has_lapsed(self, story: Story) -> bool:
        """Return whether an honest buyer's payment failed, and the chain proves why.

        On Solana a transaction has a minute to land, under any faults: no one else can send what
        only the relayer pays for. A buyer's EVM transaction has until its offer's deadline.
        """
        if story.status == "succeeded" or story.order.mood not in PAYS or not story.outputs:
            return False
        if not story.order.way.is_on_solana:
            return story.sent is not None and await self._is_past_deadline(
                story.sent["id"], story.outputs
            )
        transaction = VersionedTransaction.from_bytes(base64.b64decode(story.outputs[-1]))
        request, node = {"commitment": "finalized"}, self.till.solana
        validity = await node.ask(
            "isBlockhashValid", str(transaction.message.recent_blockhash), request
        )
        signature = str(transaction.signatures[0])
        landed = await node.ask("getTransaction", signature, {**request, **_ANY})
        return landed is None and not validity["value"]

    async def _is_past_deadline(self, option_id: str, outputs: list[str]) -> bool:
        """Return whether the block of the refusal, or else the newest, is past the deadline."""
        query = f"SELECT expires_at FROM payment_option WHERE id = '{option_id}'"
        ((expires_at,),) = self._stage.select(query)
        receipt = await self.till.evm.ask("eth_getTransactionReceipt", outputs[-1])
        if expires_at is None or (receipt is not None and int(receipt["status"], 16)):
            return False
        number = "latest" if receipt is None else receipt["blockNumber"]
        block = await self.till.evm.ask("eth_getBlockByNumber", number, False)
        return int(block["timestamp"], 16) > expires_at

    async def _refund(self, story: Story, headers: dict[str, str], key: str) -> None:
        """Request a refund, and wait for it."""
        till, path = self.till, f"/v1/payments/{story.payment_id}"
        detail = await till.call_patiently(lambda: till.api.call("GET", path, headers))
        bodies: list[dict[str, Any]] = [{"paymentId": story.payment_id}]
        if story.order.variant % 2:
            # two parts of the paid amount
            paid = detail["info"]["optionAmount"]
            first = max(1, int(paid["value"]) // 3)
            bodies = [
                {**bodies[0], "amount": {"unit": paid["unit"], "value": str(value)}}
                for value in (first, int(paid["value"]) - first)
            ]
        for number, body in enumerate(bodies):
            keyed = {**headers, "Idempotency-Key": f"{key}-{number}"}
            await till.call_patiently(
                lambda keyed=keyed, body=body: till.api.call("POST", "/v1/refunds", keyed, body)
            )
        while True:
            detail = await till.call_patiently(lambda: till.api.call("GET", path, headers))
            if all("completedAt" in refund for refund in detail["refunds"]):
                story.refund = detail["refund"]["status"]
                return
            await asyncio.sleep(REFUND_POLL_S)

    def headers(self, order: Order) -> dict[str, str]:
        """Return the headers of an order's merchant."""
        till = self.till
        if order.mood is Mood.CLOSER:
            return till.merchant(CROOKS[order.n % len(CROOKS)])
        return till.api.merchant if order.settled else till.treasury_merchant

    async def _wait_final(self, story: Story) -> str:
        """Return how the payment ends; the wallet resends what a reorganization removes."""
        order, till = story.order, self.till
        final = asyncio.create_task(till.wait_final(story.payment_id, order.n))
        while not final.done():
            await asyncio.wait([final], timeout=RESEND_S)
            if order.mood in PAYS and not order.way.is_on_solana:
                purse = self.purses.get_purse(order)
                async with purse.lock:
                    for tx_hash in story.outputs:
                        await purse.resend_lost(till.evm, tx_hash)
        return final.result()

    async def _pay(self, story: Story) -> None:
        order, till = story.order, self.till
        if order.mood in FOES:
            await self._foes.act(story)
            return
        self.harmless_stories.append(story)
        if order.mood is Mood.GONE:
            return
        for left in reversed(range(_TRIES)):
            # money is never sent twice
            option = story.sent or await self.wait_option(story)
            if option is None:
                return
            if order.mood is Mood.CANCELS:
                await till.call_patiently(lambda: till.caller(order.n).cancel(story.payment_id))
                return
            if order.mood is Mood.UNFETCHED:
                await self._send_at_once(story, option)
                return
            outputs = await self._create_outputs(story, option)
            await asyncio.sleep(order.thinks_s)
            if order.mood is Mood.SILENT:
                return
            mover = asyncio.create_task(self._move_money(story))
            must_retry = await self._confirm(story, option, outputs, last=left == 0)
            await mover
            if not must_retry:
                return

    async def _send_at_once(self, story: Story, option: dict[str, Any]) -> None:
        """Send the call of the option without fetching or confirming."""
        result = json.loads(bytes.fromhex(option["actions"][0]["data"]["data"]))
        purse = self.purses.get_purse(story.order)
        async with purse.lock:
            story.outputs = await self._perform(purse, [{"type": "walletRpc", "data": result}])

    async def wait_option(self, story: Story, patience: int = 10**9) -> Any:
        """Return the order's payment option once the service offers it.

        Return None after `patience` looks, or if the chain showed the payment before its wallet
        confirmed.
        """
        till, purse, order = self.till, self.purses.get_purse(story.order), story.order
        expected = f"caip19/{_ASSETS[order.way]}"
        for _ in range(patience):
            result = await till.call_patiently(
                lambda: till.caller(order.n).options(story.payment_id, [purse.account])
            )
            for option in result["options"]:
                if option["amount"]["unit"] == expected:
                    return option
            state = await till.call_patiently(lambda: till.caller(order.n).status(story.payment_id))
            if state["status"] != "requires_action":
                return None
            await asyncio.sleep(POLL_S)
        return None

    async def fetch_actions(self, story: Story, option: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the wallet's actions, fetched if necessary."""
        till, actions = self.till, option["actions"]
        if actions[0]["type"] != "build":
            return actions
        data = actions[0]["data"]["data"]
        fetched = await till.call_patiently(
            lambda: till.caller(story.order.n).fetch(story.payment_id, option["id"], data)
        )
        return fetched["actions"]

    async def _create_outputs(self, story: Story, option: dict[str, Any]) -> list[str]:
        order, purse = story.order, self.purses.get_purse(story.order)
        if story.sent is not None:
            return story.outputs
        actions = await self.fetch_actions(story, option)
        if order.mood is Mood.HOLLOW:
            return [_FAKE_HASH] * len(actions)
        if order.way.is_on_solana:
            story.outputs = [purse.execute(action) for action in actions]
        else:
            async with purse.lock:
                story.outputs = await self._perform(purse, actions)
            story.sent = option if order.way.is_sent_by_wallet else None
        story.fetched = option["id"], [action["data"]["method"] for action in actions]
        return story.outputs

    async def _perform(self, purse: Purse, actions: list[dict[str, Any]]) -> list[str]:
        """Return the outputs of a wallet whose user retries refused steps.

        A reorganization can remove an approval before the payment that needs it.
        """
        for left in reversed(range(_TRIES)):
            try:
                return await purse.perform(self.till.evm, actions)
            except ChainRefused:
                if not left:
                    raise
                await asyncio.sleep(POLL_S)
        raise AssertionError

    async def _confirm(
        self, story: Story, option: dict[str, Any], outputs: list[str], *, last: bool
    ) -> bool:
        """Confirm; return whether the wallet has to start again."""
        till, n = self.till, story.order.n
        story.confirmed_at = monotonic()
        try:
            await till.call_patiently(
                lambda: till.caller(n).confirm(story.payment_id, option["id"], outputs)
            )
        except ApiCallError as refusal:
            state = await till.call_patiently(lambda: till.caller(n).status(story.payment_id))
            if state["status"] != "requires_action":
                # bound by the chain, or by a confirm whose answer was lost
                return False
            story.refused = str(refusal)
            if last:
                raise
            await asyncio.sleep(POLL_S)
            return True
        story.refused = ""
        return False

    async def _move_money(self, story: Story) -> None:
        """Move the money away while the payment is pending."""
        order, till = story.order, self.till
        if order.mood is not Mood.BROKE or story.moved:
            return
        purse = self.purses.get_purse(order)
        async with purse.lock:
            held = await till.evm.balance(purse.address, DEVNET.token.address)
            data = bytes.fromhex(_MOVE + SAVINGS[2:].rjust(64, "0") + f"{held:064x}")
            token = bytes.fromhex(DEVNET.token.address[2:])
            await purse.transact(till.evm, gas=100_000, to=token, data=data)
            story.moved = True
