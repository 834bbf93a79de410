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

from tests.chaos.address_buyers import AddressBuyers
from tests.chaos.attackers import Attackers
from tests.chaos.buyer_wallets import BuyerWallet, BuyerWallets
from tests.chaos.chaos_service import ATTACKING_MERCHANTS, ETHER, ChaosEnvironment
from tests.chaos.fast_clock import QuickClock
from tests.chaos.order_assets import get_asset, get_unit
from tests.chaos.plan import ATTACKERS, BuyerBehavior, Order, Way
from tests.chaos.service_client import POLL_S, ChainRefused, ServiceClient
from tests.chaos.x402_buyers import X402Buyers
from tests.support.api import ApiCallError

SAVINGS = "0x" + "5b" * 20
_FAKE_HASH = "0x" + "11" * 32
_MOVE = "a9059cbb"  # transfer(address,uint256)
REFUND_POLL_S = 0.2
# service seconds in which money at an address may not be forwarded any more, under all faults
MOMENT_S = 200
SECOND_US = 1_000_000
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
class PaymentRun:
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
    # what was sent to an address, with its senders
    transfers: list[tuple[BuyerWallet, str]] = field(default_factory=list)


class PaymentRunner:
    """The buyers of one run: it creates each order's payments and acts as their wallets do."""

    def __init__(
        self,
        environment: ChaosEnvironment,
        seed: int,
        service_client: ServiceClient,
        wallets: BuyerWallets,
    ) -> None:
        self._seed = seed
        self._environment = environment
        self._clock = QuickClock(environment.clock)
        self.service_client = service_client
        self.wallets = wallets
        self.harmless_runs: list[PaymentRun] = []  # payments of harmless buyers
        self._payment_runs: list[PaymentRun] = []
        self._attackers = Attackers(environment, self, self._clock)
        self._address_buyers = AddressBuyers(self)
        self._x402_buyers = X402Buyers(environment, self, self._clock)

    async def run_order(self, order: Order) -> list[PaymentRun]:
        """Run all payments of an order: after a lapsed signature the merchant creates another."""
        payment_runs: list[PaymentRun] = []
        for turn in range(_PAYMENTS):
            payment_runs.append(await self._run_payment(order, f"{self._seed}-{order.n}-{turn}"))
            if not payment_runs[-1].lapsed:
                break
        return payment_runs

    def has_unpaid_buyer(self) -> bool:
        """Return whether an honest buyer has not paid yet, whose time must not run out."""
        query = "SELECT id FROM payment WHERE status = 'requires_action'"
        unpaid = {"", *(item for (item,) in self._environment.select(query))}
        return any(
            payment_run.order.pays and not payment_run.over and payment_run.payment_id in unpaid
            for payment_run in self._payment_runs
        )

    async def _run_payment(self, order: Order, key: str) -> PaymentRun:
        service_client, payment_run = self.service_client, PaymentRun(order)
        self._payment_runs.append(payment_run)
        if order.behavior is BuyerBehavior.INTRUDER:
            await self._attackers.act(payment_run)
            payment_run.status, payment_run.ended_at = "interfered", monotonic()
            return payment_run
        if order.behavior is BuyerBehavior.FACILITATED:
            payment_run.status = await self._x402_buyers.facilitate(payment_run)
            payment_run.ended_at = monotonic()
            return payment_run
        amount = {"unit": f"iso4217/{get_unit(order)}", "value": str(order.cents)}
        body: dict[str, Any] = {"amount": amount, "referenceId": f"n{order.n}"}
        if order.behavior is BuyerBehavior.LATE:
            # it stays payable after its price has expired
            body["expiresAt"] = self._clock.now_us() // 1_000_000 + LATE_S
        headers = self.headers(order)
        keyed = {**headers, "Idempotency-Key": f"chaos-{key}"}
        created = await service_client.call_patiently(
            lambda: service_client.api.call("POST", "/v1/payments", keyed, body)
        )
        payment_run.payment_id = created["paymentId"]
        try:
            await self._pay(payment_run)
        except ApiCallError as refusal:
            payment_run.refused = str(refusal)
        payment_run.status = await self._wait_final(payment_run)
        payment_run.ended_at = monotonic()
        await asyncio.gather(*payment_run.helpers)
        await self._send_lost(payment_run)
        if order.refunded and payment_run.status == "succeeded":
            try:
                await self._refund(payment_run, headers, f"refund-{key}")
            except ApiCallError as refusal:
                if order.way is not Way.ADDRESS or get_asset(order) != ETHER:
                    raise
                # the node had lost the state of the block in which coin came
                payment_run.refund = str(refusal)
        payment_run.lapsed = await self._has_lapsed(payment_run)
        payment_run.over = True
        return payment_run

    async def _has_lapsed(self, payment_run: PaymentRun) -> bool:
        """Return whether an honest buyer's payment failed, and the chain proves why.

        On Solana a transaction has a minute to land, under any faults: no one else can send what
        only the relayer pays for. A buyer's EVM transaction has until its offer's deadline.
        """
        if payment_run.status == "succeeded" or not payment_run.order.pays:
            return False
        if payment_run.order.way.has_own_address:
            return await self._is_route_over(payment_run)
        if not payment_run.outputs:
            return False
        if not payment_run.order.way.is_on_solana:
            return payment_run.sent is not None and await self._is_past_deadline(
                payment_run.sent["id"], payment_run.outputs
            )
        transaction = VersionedTransaction.from_bytes(base64.b64decode(payment_run.outputs[-1]))
        request, node = {"commitment": "finalized"}, self.service_client.solana
        validity = await node.ask(
            "isBlockhashValid", str(transaction.message.recent_blockhash), request
        )
        signature = str(transaction.signatures[0])
        landed = await node.ask("getTransaction", signature, {**request, **_ANY})
        return landed is None and not validity["value"]

    async def _is_route_over(self, payment_run: PaymentRun) -> bool:
        """Return whether what was sent to an address came at most a moment before its end.

        A signature has an end of its own.
        """
        if payment_run.order.way is Way.X402:
            of_payment = f"FROM facilitation WHERE payment_id = '{payment_run.payment_id}'"
            late = f"AND state = 'failed' AND ended_at_us >= expires_at * {SECOND_US}"
            ((signed,),) = self._environment.select(f"SELECT count(*) {of_payment}")
            ((ended,),) = self._environment.select(f"SELECT count(*) {of_payment} {late}")
            return 0 < signed == ended  # type: ignore[no-any-return]
        query = f"""
            SELECT o.expires_at, p.expires_at FROM payment p
            JOIN payment_option o ON o.payment_id = p.id WHERE p.id = '{payment_run.payment_id}'
        """
        ends = [end or payment_end for end, payment_end in self._environment.select(query)]
        for _, tx_hash in payment_run.transfers:
            receipt = await self.service_client.evm.ask("eth_getTransactionReceipt", tx_hash)
            if receipt is None:
                return True
            block = await self.service_client.evm.ask(
                "eth_getBlockByNumber", receipt["blockNumber"], False
            )
            if int(block["timestamp"], 16) > max(ends) - MOMENT_S:
                return True
        return not ends

    async def _is_past_deadline(self, option_id: str, outputs: list[str]) -> bool:
        """Return whether the block of the refusal, or else the newest, is past the deadline."""
        query = f"SELECT expires_at FROM payment_option WHERE id = '{option_id}'"
        ((expires_at,),) = self._environment.select(query)
        receipt = await self.service_client.evm.ask("eth_getTransactionReceipt", outputs[-1])
        if expires_at is None or (receipt is not None and int(receipt["status"], 16)):
            return False
        number = "latest" if receipt is None else receipt["blockNumber"]
        block = await self.service_client.evm.ask("eth_getBlockByNumber", number, False)
        return int(block["timestamp"], 16) > expires_at

    async def _refund(self, payment_run: PaymentRun, headers: dict[str, str], key: str) -> None:
        """Request a refund, and wait for it."""
        service_client, path = self.service_client, f"/v1/payments/{payment_run.payment_id}"
        detail = await service_client.call_patiently(
            lambda: service_client.api.call("GET", path, headers)
        )
        bodies: list[dict[str, Any]] = [{"paymentId": payment_run.payment_id}]
        if payment_run.order.variant % 2:
            # two parts of the paid amount
            paid = detail["info"]["optionAmount"]
            first = max(1, int(paid["value"]) // 3)
            bodies = [
                {**bodies[0], "amount": {"unit": paid["unit"], "value": str(value)}}
                for value in (first, int(paid["value"]) - first)
            ]
        for number, body in enumerate(bodies):
            keyed = {**headers, "Idempotency-Key": f"{key}-{number}"}
            await service_client.call_patiently(
                lambda keyed=keyed, body=body: service_client.api.call(
                    "POST", "/v1/refunds", keyed, body
                )
            )
        while True:
            detail = await service_client.call_patiently(
                lambda: service_client.api.call("GET", path, headers)
            )
            if all("completedAt" in refund for refund in detail["refunds"]):
                payment_run.refund = detail["refund"]["status"]
                return
            await asyncio.sleep(REFUND_POLL_S)

    def headers(self, order: Order) -> dict[str, str]:
        """Return the headers of an order's merchant."""
        service_client = self.service_client
        if order.behavior is BuyerBehavior.CLOSER:
            return service_client.merchant(ATTACKING_MERCHANTS[order.n % len(ATTACKING_MERCHANTS)])
        return service_client.api.merchant if order.settled else service_client.treasury_merchant

    async def _wait_final(self, payment_run: PaymentRun) -> str:
        """Return how the payment ends; the wallet resends what a reorganization removes."""
        order, service_client = payment_run.order, self.service_client
        final = asyncio.create_task(service_client.wait_final(payment_run.payment_id, order.n))
        while not final.done():
            await asyncio.wait([final], timeout=RESEND_S)
            await self._send_lost(payment_run)
            if order.pays and not order.way.is_on_solana and payment_run.outputs:
                wallet = self.wallets.get_wallet(order)
                async with wallet.lock:
                    for tx_hash in payment_run.outputs:
                        await wallet.resend_lost(service_client.evm, tx_hash)
        return final.result()

    async def _send_lost(self, payment_run: PaymentRun) -> None:
        """Send again what a reorganization removed; some buyers leave it at that."""
        order = payment_run.order
        if order.pays or order.variant % 2:
            for wallet, tx_hash in payment_run.transfers:
                async with wallet.lock:
                    await wallet.resend_lost(self.service_client.evm, tx_hash)

    async def _pay(self, payment_run: PaymentRun) -> None:
        order, service_client = payment_run.order, self.service_client
        if order.behavior in ATTACKERS:
            await self._attackers.act(payment_run)
            return
        if order.way.has_own_address:
            buyers = self._address_buyers if order.way is Way.ADDRESS else self._x402_buyers
            await buyers.act(payment_run)
            return
        self.harmless_runs.append(payment_run)
        if order.behavior is BuyerBehavior.GONE:
            return
        for left in reversed(range(_TRIES)):
            # money is never sent twice
            option = payment_run.sent or await self.wait_option(payment_run)
            if option is None:
                return
            if order.behavior is BuyerBehavior.CANCELS:
                await service_client.call_patiently(
                    lambda: service_client.caller(order.n).cancel(payment_run.payment_id)
                )
                return
            if order.behavior is BuyerBehavior.UNFETCHED:
                await self._send_at_once(payment_run, option)
                return
            outputs = await self._create_outputs(payment_run, option)
            await asyncio.sleep(order.thinks_s)
            if order.behavior is BuyerBehavior.SILENT:
                return
            mover = asyncio.create_task(self._move_money(payment_run))
            must_retry = await self._confirm(payment_run, option, outputs, last=left == 0)
            await mover
            if not must_retry:
                return

    async def _send_at_once(self, payment_run: PaymentRun, option: dict[str, Any]) -> None:
        """Send the call of the option without fetching or confirming."""
        result = json.loads(bytes.fromhex(option["actions"][0]["data"]["data"]))
        wallet = self.wallets.get_wallet(payment_run.order)
        async with wallet.lock:
            payment_run.outputs = await self._perform(
                wallet, [{"type": "walletRpc", "data": result}]
            )

    async def wait_option(self, payment_run: PaymentRun, patience: int = 10**9) -> Any:
        """Return the order's payment option once the service offers it.

        Return None after `patience` looks, or if the chain showed the payment before its wallet
        confirmed.
        """
        service_client, wallet, order = (
            self.service_client,
            self.wallets.get_wallet(payment_run.order),
            payment_run.order,
        )
        expected = f"caip19/{get_asset(order)}"
        for _ in range(patience):
            result = await service_client.call_patiently(
                lambda: service_client.caller(order.n).options(
                    payment_run.payment_id, [wallet.account]
                )
            )
            for option in result["options"]:
                if option["amount"]["unit"] == expected:
                    return option
            state = await service_client.call_patiently(
                lambda: service_client.caller(order.n).status(payment_run.payment_id)
            )
            if state["status"] != "requires_action":
                return None
            await asyncio.sleep(POLL_S)
        return None

    async def fetch_actions(
        self, payment_run: PaymentRun, option: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the wallet's actions, fetched if necessary."""
        service_client, actions = self.service_client, option["actions"]
        if actions[0]["type"] != "build":
            return actions
        data = actions[0]["data"]["data"]
        fetched = await service_client.call_patiently(
            lambda: service_client.caller(payment_run.order.n).fetch(
                payment_run.payment_id, option["id"], data
            )
        )
        return fetched["actions"]

    async def _create_outputs(self, payment_run: PaymentRun, option: dict[str, Any]) -> list[str]:
        order, wallet = payment_run.order, self.wallets.get_wallet(payment_run.order)
        if payment_run.sent is not None:
            return payment_run.outputs
        actions = await self.fetch_actions(payment_run, option)
        if order.behavior is BuyerBehavior.HOLLOW:
            return [_FAKE_HASH] * len(actions)
        if order.way.is_on_solana:
            payment_run.outputs = [wallet.execute(action) for action in actions]
        else:
            async with wallet.lock:
                payment_run.outputs = await self._perform(wallet, actions)
            payment_run.sent = option if order.way.is_sent_by_wallet else None
        payment_run.fetched = option["id"], [action["data"]["method"] for action in actions]
        return payment_run.outputs

    async def _perform(self, wallet: BuyerWallet, actions: list[dict[str, Any]]) -> list[str]:
        """Return the outputs of a wallet whose user retries refused steps.

        A reorganization can remove an approval before the payment that needs it.
        """
        for left in reversed(range(_TRIES)):
            try:
                return await wallet.perform(self.service_client.evm, actions)
            except ChainRefused:
                if not left:
                    raise
                await asyncio.sleep(POLL_S)
        raise AssertionError

    async def _confirm(
        self, payment_run: PaymentRun, option: dict[str, Any], outputs: list[str], *, last: bool
    ) -> bool:
        """Confirm; return whether the wallet has to start again."""
        service_client, n = self.service_client, payment_run.order.n
        payment_run.confirmed_at = monotonic()
        try:
            await service_client.call_patiently(
                lambda: service_client.caller(n).confirm(
                    payment_run.payment_id, option["id"], outputs
                )
            )
        except ApiCallError as refusal:
            state = await service_client.call_patiently(
                lambda: service_client.caller(n).status(payment_run.payment_id)
            )
            if state["status"] != "requires_action":
                # bound by the chain, or by a confirm whose answer was lost
                return False
            payment_run.refused = str(refusal)
            if last:
                raise
            await asyncio.sleep(POLL_S)
            return True
        payment_run.refused = ""
        return False

    async def _move_money(self, payment_run: PaymentRun) -> None:
        """Move the money away while the payment is pending."""
        order, service_client = payment_run.order, self.service_client
        if order.behavior is not BuyerBehavior.BROKE or payment_run.moved:
            return
        wallet = self.wallets.get_wallet(order)
        async with wallet.lock:
            held = await service_client.evm.balance(wallet.address, DEVNET.token.address)
            data = bytes.fromhex(_MOVE + SAVINGS[2:].rjust(64, "0") + f"{held:064x}")
            token = bytes.fromhex(DEVNET.token.address[2:])
            await wallet.transact(service_client.evm, gas=100_000, to=token, data=data)
            payment_run.moved = True
