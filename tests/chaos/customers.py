"""Customers of a service on PostgreSQL, and what they were told against what there is.

They create, confirm, cancel and refund; each repeats what was not acknowledged under its key, and
takes its stream up again with the version that it has.
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
from tests.support.api import Refused, RestApi
from tests.support.chain import Chain
from tests.support.desk import ORDER
from tests.support.own_chain import CHAIN
from tests.support.processes import TREASURY, Installation
from tests.support.until import until
from tests.support.wallet import Wallet

T = TypeVar("T")
CUSTOMERS = 6
PRICE = 12_500_000
# nobody is served meanwhile, if all processes are killed
SERVED_S = 120
# what a story is about, as often as it is named
_KINDS = ("pay", "pay", "refund", "cancel")
_PURSE = 10**12
_CALL_S = 10
_OPEN_REFUNDS = "SELECT count(*) FROM refund WHERE status NOT IN ('succeeded', 'failed')"
# between two tries
_AGAIN_S = 0.05


@dataclass
class Told:
    """What callers were told, by payment."""

    created: dict[str, str] = field(default_factory=dict)  # by key
    confirmed: dict[str, str] = field(default_factory=dict)  # who pays, by address
    cancelled: set[str] = field(default_factory=set)
    refunds: dict[str, str] = field(default_factory=dict)
    versions: dict[str, list[int]] = field(default_factory=dict)
    final: dict[str, str] = field(default_factory=dict)
    disturbed: Counter[str] = field(default_factory=Counter)


class Customer:
    """Makes one payment after the other with one wallet."""

    def __init__(self, number: int, api: RestApi, wallet: Wallet, told: Told, seed: int) -> None:
        self._number = number
        self._api = api
        self._wallet = wallet
        self._told = told
        self._chance = random.Random(seed * 1000 + number)
        self.stories = 0

    def numbered(self, number: int) -> Self:
        """Use another number in keys, where several groups of customers are told apart."""
        self._number = number
        return self

    async def run(self, ends: asyncio.Event) -> None:
        while not ends.is_set():
            await self._story(f"{self._number}-{self.stories}")
            self.stories += 1

    async def _story(self, key: str) -> None:
        kind = self._chance.choice(_KINDS)
        order = {**ORDER, "referenceId": key}
        made = await self._sure(lambda: self._api.create(order, key))
        payment_id = self._told.created[key] = made["paymentId"]
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
            asked = await self._sure(lambda: self._api.refund(payment_id, f"{key}-back"))
            self._told.refunds[payment_id] = asked["refundId"]

    async def _confirm(self, payment_id: str) -> None:
        accounts = [self._wallet.account]
        while not (found := await self._sure(lambda: self._api.options(payment_id, accounts))):
            pass
        (option,) = found["options"]
        outputs = self._wallet.execute_all(option)
        await self._once(payment_id, lambda: self._api.confirm(payment_id, option["id"], outputs))
        self._told.confirmed[payment_id] = self._wallet.address

    async def _once(self, payment_id: str, call: Callable[[], Awaitable[Any]]) -> None:
        """What cannot be done twice: refused the second time, if the first answer was lost."""
        tries = 0

        async def attempt() -> Any:
            nonlocal tries
            tries += 1
            try:
                return await call()
            except Refused as error:
                if tries == 1 or error.code != "invalid_state":
                    raise
                return await self._api.status(payment_id)

        await self._sure(attempt)

    async def _sure(self, call: Callable[[], Awaitable[T]]) -> T:
        """Repeats a call until it is answered."""
        async with asyncio.timeout(SERVED_S):
            while True:
                try:
                    async with asyncio.timeout(_CALL_S):
                        return await call()
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    self._told.disturbed[type(error).__name__] += 1
                except Refused as error:
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
            except Refused as error:
                if error.http != 503:
                    raise
            await asyncio.sleep(_AGAIN_S)


async def customers(
    at: Installation, api: RestApi, told: Told, seed: int, count: int = CUSTOMERS
) -> list[Customer]:
    """Customers with tokens in their wallets."""
    wallets = [Wallet(CHAIN) for _ in range(count)]
    for one in wallets:
        await at.give(one.address, native=0, units=_PURSE)
    return [Customer(n, api, one, told, seed) for n, one in enumerate(wallets)]


async def while_they_pay(runs: Sequence[asyncio.Task[None]], look: Callable[[], bool]) -> None:
    """Returns once something is so; raises what a customer met."""

    def so() -> bool:
        for one in runs:
            if one.done():
                one.result()
        return look()

    await until(so, patience_s=SERVED_S)


def _chain(at: Installation, session: aiohttp.ClientSession) -> Chain:
    return Chain(session, at.node.url, DEVNET.token.address)


async def treasury_differs(
    at: Installation, session: aiohttp.ClientSession, told: Told
) -> list[str]:
    """What the treasury has beside what is left of what was paid and refunded once."""
    kept = PRICE * (len(told.confirmed) - len(told.refunds))
    has = await _chain(at, session).balance(TREASURY.address)
    return [] if has == kept else [f"the treasury has {has}, and should have {kept}"]


async def wrong(at: Installation, session: aiohttp.ClientSession, told: Told) -> list[str]:
    """What differs from what callers were told; refunds are waited for first."""
    bad: list[str] = []
    dsn = at.env["FLORIN_STORE"]

    async def open_refunds() -> int:
        rows = await postgres.rows(dsn, _OPEN_REFUNDS)
        return int(rows[0][0])

    await until(open_refunds, 0, patience_s=SERVED_S)
    stored = dict(await postgres.rows(dsn, "SELECT id, status FROM payment"))
    refunds = await postgres.rows(dsn, "SELECT payment_id, id, status FROM refund")
    if sorted(stored) != sorted(told.created.values()):
        bad.append(f"{len(told.created)} payments were acknowledged, {len(stored)} are stored")
    for ids, end in ((told.confirmed, "succeeded"), (told.cancelled, "cancelled")):
        others = [one for one in ids if stored.get(one) != end]
        bad += [f"{one} should be {end}, and is {stored.get(one)}" for one in others]
    wanted = sorted((payment, refund, "succeeded") for payment, refund in told.refunds.items())
    if sorted(refunds) != wanted:
        bad.append(f"refunds are {sorted(refunds)}, and were told as {wanted}")
    for payment_id, versions in told.versions.items():
        if versions != sorted(set(versions)):
            bad.append(f"{payment_id} was told in versions {versions}")
        if told.final.get(payment_id) != stored.get(payment_id):
            bad.append(f"the stream of {payment_id} ended as {told.final.get(payment_id)}")
    chain = _chain(at, session)
    for address in set(told.confirmed.values()):
        paid = [one for one, by in told.confirmed.items() if by == address]
        left = _PURSE - PRICE * sum(one not in told.refunds for one in paid)
        if (has := await chain.balance(address)) != left:
            bad.append(f"{address} has {has}, and should have {left}")
    bad += await treasury_differs(at, session, told)
    return [*bad, *await at.store.survey(history.check()), *await at.store.read(ledger.check())]
