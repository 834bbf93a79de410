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
from florin_server.devnet.genesis import DEVNET
from florin_server.store.ledger import ledger
from florin_server.store.payments import history

from tests.support import postgres
from tests.support.api import ApiCallError, RestApi
from tests.support.chain import ChainClient
from tests.support.desk import ORDER
from tests.support.own_chain import CHAIN
from tests.support.processes import TREASURY, ProcessInstallation
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

T = TypeVar("T")
CUSTOMERS = 6
PRICE = 12_500_000
# callers are not served while all processes are dead
SERVED_S = 120
# the subjects of a story, repeated by weight
_KINDS = ("pay", "pay", "refund", "cancel")
_PURSE = 10**12
_CALL_S = 10
_OPEN_REFUNDS = "SELECT count(*) FROM refund WHERE status NOT IN ('succeeded', 'failed')"
# between two attempts
_AGAIN_S = 0.05


@dataclass
class Told:
    """Acknowledged answers to callers, by payment."""

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
        self, number: int, api: RestApi, wallet: EvmTestWallet, result: Told, seed: int
    ) -> None:
        self._number = number
        self._api = api
        self._wallet = wallet
        self._told = result
        self._chance = random.Random(seed * 1000 + number)
        self.stories = 0

    def numbered(self, number: int) -> Self:
        """Set the number in keys, which separates several groups of customers."""
        self._number = number
        return self

    async def run(self, ends: asyncio.Event) -> None:
        while not ends.is_set():
            await self._story(f"{self._number}-{self.stories}")
            self.stories += 1

    async def _story(self, key: str) -> None:
        kind = self._chance.choice(_KINDS)
        order = {**ORDER, "referenceId": key}
        created = await self._sure(lambda: self._api.create(order, key))
        payment_id = self._told.created[key] = created["paymentId"]
        watching = asyncio.create_task(self._watch(payment_id))
        try:
            if kind == "cancel":
                await self._once(payment_id, lambda: self._api.merchant_cancel(payment_id))
                self._told.cancelled.add(payment_id)
            else:
                await self._confirm(payment_id)
            async with asyncio.timeout(SERVED_S):
                self._told.final[payment_id] = await watching
        finally:
            watching.cancel()
        if kind == "refund":
            request = await self._sure(lambda: self._api.refund(payment_id, f"{key}-back"))
            self._told.refunds[payment_id] = request["refundId"]

    async def _confirm(self, payment_id: str) -> None:
        accounts = [self._wallet.account]
        while not (results := await self._sure(lambda: self._api.options(payment_id, accounts))):
            pass
        (option,) = results["options"]
        outputs = self._wallet.execute_all(option)
        await self._once(payment_id, lambda: self._api.confirm(payment_id, option["id"], outputs))
        self._told.confirmed[payment_id] = self._wallet.address

    async def _once(self, payment_id: str, call: Callable[[], Awaitable[Any]]) -> None:
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

        await self._sure(attempt)

    async def _sure(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until it is answered."""
        async with asyncio.timeout(SERVED_S):
            while True:
                try:
                    async with asyncio.timeout(_CALL_S):
                        return await call()
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    self._told.disturbed[type(error).__name__] += 1
                except ApiCallError as error:
                    if error.http != 503:
                        raise
                    self._told.disturbed["503"] += 1
                await asyncio.sleep(_AGAIN_S)

    async def _watch(self, payment_id: str) -> str:
        versions = self._told.versions.setdefault(payment_id, [])
        while True:
            try:
                async for state in self._api.watch(payment_id, versions[-1] if versions else None):
                    versions.append(state["version"])
                    if state["isFinal"]:
                        return str(state["status"])
            except (aiohttp.ClientError, TimeoutError, OSError):
                self._told.disturbed["stream"] += 1
            except ApiCallError as error:
                if error.http != 503:
                    raise
            await asyncio.sleep(_AGAIN_S)


async def customers(
    at: ProcessInstallation, api: RestApi, result: Told, seed: int, count: int = CUSTOMERS
) -> list[Customer]:
    """Create customers with tokens in their wallets."""
    wallets = [EvmTestWallet(CHAIN) for _ in range(count)]
    for wallet in wallets:
        await at.give(wallet.address, native=0, units=_PURSE)
    return [Customer(n, api, each_wallet, result, seed) for n, each_wallet in enumerate(wallets)]


async def while_they_pay(runs: Sequence[asyncio.Task[None]], look: Callable[[], bool]) -> None:
    """Return once `look` is true; raise what a customer met."""

    def so() -> bool:
        for task in runs:
            if task.done():
                task.result()
        return look()

    await wait_until(so, patience_s=SERVED_S)


def _chain(at: ProcessInstallation, session: aiohttp.ClientSession) -> ChainClient:
    return ChainClient(session, at.node.url, DEVNET.token.address)


async def treasury_differs(
    at: ProcessInstallation, session: aiohttp.ClientSession, result: Told
) -> list[str]:
    """Compare the treasury with the sums that were paid and refunded once."""
    stored = PRICE * (len(result.confirmed) - len(result.refunds))
    has = await _chain(at, session).balance(TREASURY.address)
    return [] if has == stored else [f"the treasury has {has}, and should have {stored}"]


async def wrong(at: ProcessInstallation, session: aiohttp.ClientSession, result: Told) -> list[str]:
    """Return differences from the callers' answers; wait for refunds first."""
    bad: list[str] = []
    dsn = at.env["FLORIN_STORE"]

    async def open_refunds() -> int:
        rows = await postgres.list_rows(dsn, _OPEN_REFUNDS)
        return int(rows[0][0])

    await wait_until(open_refunds, 0, patience_s=SERVED_S)
    stored = dict(await postgres.list_rows(dsn, "SELECT id, status FROM payment"))
    refunds = await postgres.list_rows(dsn, "SELECT payment_id, id, status FROM refund")
    if sorted(stored) != sorted(result.created.values()):
        bad.append(f"{len(result.created)} payments were acknowledged, {len(stored)} are stored")
    for ids, end in ((result.confirmed, "succeeded"), (result.cancelled, "cancelled")):
        remaining = [text for text in ids if stored.get(text) != end]
        bad += [f"{text} should be {end}, and is {stored.get(text)}" for text in remaining]
    expected = sorted((payment, refund, "succeeded") for payment, refund in result.refunds.items())
    if sorted(refunds) != expected:
        bad.append(f"refunds are {sorted(refunds)}, and were told as {expected}")
    for payment_id, versions in result.versions.items():
        if versions != sorted(set(versions)):
            bad.append(f"{payment_id} was told in versions {versions}")
        if result.final.get(payment_id) != stored.get(payment_id):
            bad.append(f"the stream of {payment_id} ended as {result.final.get(payment_id)}")
    chain = _chain(at, session)
    for address in set(result.confirmed.values()):
        paid = [text for text, by in result.confirmed.items() if by == address]
        left = _PURSE - PRICE * sum(text not in result.refunds for text in paid)
        if (has := await chain.balance(address)) != left:
            bad.append(f"{address} has {has}, and should have {left}")
    bad += await treasury_differs(at, session, result)
    return [*bad, *await at.store.scan(history.check()), *await at.store.read(ledger.check())]
