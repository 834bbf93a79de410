"""Customers of a service on PostgreSQL, and a comparison of their answers with the facts.

They create, confirm, cancel and refund. Each repeats unacknowledged calls under the same key, and
resumes its stream with the version that it has.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import aiohttp
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import history

from tests.support import postgres
from tests.support.api import ApiCallError, RestApi
from tests.support.chain import ChainClient
from tests.support.own_chain import CHAIN
from tests.support.processes import TREASURY, ProcessInstallation
from tests.support.service_harness import ORDER
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

T = TypeVar("T")
CUSTOMERS = 6
PRICE = 12_500_000
# callers are not served while all processes are dead
SERVED_S = 120
# the subjects of a payment run, repeated by weight
_KINDS = ("pay", "pay", "refund", "cancel")
_PURSE = 10**12
_CALL_S = 10
_OPEN_REFUNDS = "SELECT count(*) FROM refund WHERE status NOT IN ('succeeded', 'failed')"
# between two attempts
_RETRY_S = 0.05


@dataclass
class Acknowledgements:
    """The answers that callers got from the service, by payment."""

    created: dict[str, str] = field(default_factory=dict)  # by key
    confirmed: dict[str, str] = field(default_factory=dict)  # the payer's address
    cancelled: set[str] = field(default_factory=set)
    refunds: dict[str, str] = field(default_factory=dict)
    versions: dict[str, list[int]] = field(default_factory=dict)
    final: dict[str, str] = field(default_factory=dict)
    disturbed: Counter[str] = field(default_factory=Counter)


class Customer:
    """A customer who makes one payment after another with one wallet."""

    def __init__(
        self,
        number: int,
        api: RestApi,
        wallet: EvmTestWallet,
        acknowledged: Acknowledgements,
        seed: int,
    ) -> None:
        self._number = number
        self._api = api
        self._wallet = wallet
        self._acknowledged = acknowledged
        self._rng = random.Random(seed * 1000 + number)
        self.payment_runs = 0

    def with_number(self, number: int) -> Self:
        """Set the number in keys, which separates several groups of customers."""
        self._number = number
        return self

    async def run(self, ends: asyncio.Event) -> None:
        while not ends.is_set():
            await self._run_payment(f"{self._number}-{self.payment_runs}")
            self.payment_runs += 1

    async def _run_payment(self, key: str) -> None:
        kind = self._rng.choice(_KINDS)
        order = {**ORDER, "referenceId": key}
        created = await self._call_until_answered(lambda: self._api.create(order, key))
        payment_id = self._acknowledged.created[key] = created["paymentId"]
        watching = asyncio.create_task(self._watch(payment_id))
        try:
            if kind == "cancel":
                await self._call_once(payment_id, lambda: self._api.merchant_cancel(payment_id))
                self._acknowledged.cancelled.add(payment_id)
            else:
                await self._confirm(payment_id)
            async with asyncio.timeout(SERVED_S):
                self._acknowledged.final[payment_id] = await watching
        finally:
            watching.cancel()
        if kind == "refund":
            request = await self._call_until_answered(
                lambda: self._api.refund(payment_id, f"{key}-back")
            )
            self._acknowledged.refunds[payment_id] = request["refundId"]

    async def _confirm(self, payment_id: str) -> None:
        accounts = [self._wallet.account]
        while not (
            results := await self._call_until_answered(
                lambda: self._api.options(payment_id, accounts)
            )
        ):
            pass
        (option,) = results["options"]
        outputs = self._wallet.execute_all(option)
        await self._call_once(
            payment_id, lambda: self._api.confirm(payment_id, option["id"], outputs)
        )
        self._acknowledged.confirmed[payment_id] = self._wallet.address

    async def _call_once(self, payment_id: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Make a call that cannot succeed twice; after a lost answer, accept its refusal."""
        tries = 0

        async def attempt() -> Any:
            nonlocal tries
            tries += 1
            try:
                return await call()
            except ApiCallError as error:
                if tries == 1 or error.code != "invalid_state":
                    raise
                return await self._api.status(payment_id)

        await self._call_until_answered(attempt)

    async def _call_until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until it is answered."""
        async with asyncio.timeout(SERVED_S):
            while True:
                try:
                    async with asyncio.timeout(_CALL_S):
                        return await call()
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    self._acknowledged.disturbed[type(error).__name__] += 1
                except ApiCallError as error:
                    if error.http != 503:
                        raise
                    self._acknowledged.disturbed[str(error)] += 1
                await asyncio.sleep(_RETRY_S)

    async def _watch(self, payment_id: str) -> str:
        versions = self._acknowledged.versions.setdefault(payment_id, [])
        while True:
            try:
                async for state in self._api.watch(payment_id, versions[-1] if versions else None):
                    versions.append(state["version"])
                    if state["isFinal"]:
                        return str(state["status"])
            except (aiohttp.ClientError, TimeoutError, OSError):
                self._acknowledged.disturbed["stream"] += 1
            except ApiCallError as error:
                if error.http != 503:
                    raise
            await asyncio.sleep(_RETRY_S)


async def create_customers(
    installation: ProcessInstallation,
    api: RestApi,
    acknowledged: Acknowledgements,
    seed: int,
    count: int = CUSTOMERS,
) -> list[Customer]:
    """Create customers with tokens in their wallets."""
    wallets = [EvmTestWallet(CHAIN) for _ in range(count)]
    for wallet in wallets:
        await installation.give(wallet.address, native=0, units=_PURSE)
    return [Customer(n, api, wallet, acknowledged, seed) for n, wallet in enumerate(wallets)]


async def wait_while_paying(
    runs: Sequence[asyncio.Task[None]], condition: Callable[[], bool]
) -> None:
    """Return once `condition` is true; raise what a customer met."""

    def is_done() -> bool:
        for task in runs:
            if task.done():
                task.result()
        return condition()

    await wait_until(is_done, patience_s=SERVED_S)


def _chain(installation: ProcessInstallation, session: aiohttp.ClientSession) -> ChainClient:
    return ChainClient(session, installation.node.url, DEVNET.token.address)


async def find_treasury_difference(
    installation: ProcessInstallation,
    session: aiohttp.ClientSession,
    acknowledged: Acknowledgements,
) -> list[str]:
    """Compare the treasury with the sums that were paid and refunded once."""
    stored = PRICE * (len(acknowledged.confirmed) - len(acknowledged.refunds))
    has = await _chain(installation, session).balance(TREASURY.address)
    return [] if has == stored else [f"the treasury has {has}, and should have {stored}"]


async def find_differences(
    installation: ProcessInstallation,
    session: aiohttp.ClientSession,
    acknowledged: Acknowledgements,
) -> list[str]:
    """Return differences from the callers' answers; wait for refunds first."""
    bad: list[str] = []
    dsn = installation.env["FLORIN_STORE"]

    async def open_refunds() -> int:
        rows = await postgres.list_rows(dsn, _OPEN_REFUNDS)
        return int(rows[0][0])

    await wait_until(open_refunds, 0, patience_s=SERVED_S)
    stored = dict(await postgres.list_rows(dsn, "SELECT id, status FROM payment"))
    refunds = await postgres.list_rows(dsn, "SELECT payment_id, id, status FROM refund")
    if sorted(stored) != sorted(acknowledged.created.values()):
        bad.append(
            f"{len(acknowledged.created)} payments were acknowledged, {len(stored)} are stored"
        )
    for ids, end in ((acknowledged.confirmed, "succeeded"), (acknowledged.cancelled, "cancelled")):
        remaining = [text for text in ids if stored.get(text) != end]
        bad += [f"{text} should be {end}, and is {stored.get(text)}" for text in remaining]
    expected = sorted(
        (payment, refund, "succeeded") for payment, refund in acknowledged.refunds.items()
    )
    if sorted(refunds) != expected:
        bad.append(f"refunds are {sorted(refunds)}, and were reported as {expected}")
    for payment_id, versions in acknowledged.versions.items():
        if versions != sorted(set(versions)):
            bad.append(f"{payment_id} was reported in versions {versions}")
        if acknowledged.final.get(payment_id) != stored.get(payment_id):
            bad.append(f"the stream of {payment_id} ended as {acknowledged.final.get(payment_id)}")
    chain = _chain(installation, session)
    for address in set(acknowledged.confirmed.values()):
        paid = [text for text, by in acknowledged.confirmed.items() if by == address]
        left = _PURSE - PRICE * sum(text not in acknowledged.refunds for text in paid)
        if (has := await chain.balance(address)) != left:
            bad.append(f"{address} has {has}, and should have {left}")
    bad += await find_treasury_difference(installation, session, acknowledged)
    return [
        *bad,
        *await installation.store.scan(history.check()),
        *await installation.store.read(ledger.check()),
    ]
