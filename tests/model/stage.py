"""One service with its clock, its chain and the ways to call it, for machines to play on."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import grpc
import uvloop
from florin_gateway.app import Gateway
from florin_gateway.backends import Local
from florin_gateway.settings import GatewaySettings
from florin_server.boot.chains import connected
from florin_server.boot.servers.grpc_server import PUBLIC
from florin_server.boot.service import Service
from florin_server.clock import TestClock
from florin_server.flows.accounts import demo
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.protocol import Rail
from florin_server.store.ledger import ledger
from florin_server.store.payouts import payouts
from florin_server.web.headers import HEADERS
from florin_server.workers.settlement.observations import Observations

from tests.model.memory import MemoryRest
from tests.model.rail import ASSET, CHAIN, FakeRail, signature
from tests.support import postgres
from tests.support.api import Api, GrpcApi
from tests.support.service import settings
from tests.support.wallet import Wallet

_T = TypeVar("_T")

START_US = 1_800_000_000_000_000
MERCHANT = f"{CHAIN}:0x" + "0d" * 20
WALLETS = 3
# what a wallet holds, in minor units: more than any machine spends, and all that a faucet gives
WEALTH = 10**13


class SlowClock(TestClock):
    """A clock that can be moved by microseconds, and without telling those who wait for it."""

    def move(self, by_us: int, *, wake: bool) -> None:
        self._steady_us += by_us
        if wake:
            self.advance(0)


class Outbox:
    """Knows which payments a settler has handed to its chain."""

    def __init__(self, rail: Any) -> None:
        self._sign, self._broadcast = rail.relay.sign, rail.relay.broadcast
        self._of: dict[bytes, list[str]] = {}
        self.sent: set[str] = set()
        self._news = asyncio.Event()
        rail.relay.sign, rail.relay.broadcast = self.sign, self.broadcast

    async def sign(self, sender: str, nonce: int, items: Any) -> Any:
        signed = await self._sign(sender, nonce, items)
        self._of[signed.raw] = [item.payment.id for item in items]
        return signed

    async def broadcast(self, raw: bytes) -> None:
        await self._broadcast(raw)
        self.sent.update(self._of.pop(raw, ()))
        self._news.set()

    async def all_of(self, wanted: set[str], patience_s: float) -> set[str]:
        """Returns once all of them were handed over, and forgets them; else what is missing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while not wanted <= self.sent:
                    self._news.clear()
                    await self._news.wait()
        missing = wanted - self.sent
        self.sent -= wanted
        return missing


@dataclass
class Buyer:
    """A wallet. `account` is what it calls itself, `payer` what answers call it."""

    account: str
    payer: str
    execute: Callable[[dict[str, Any]], str]


# payments whose refunds, without those that failed, come to more than was paid
_EXCEEDED = """
SELECT payment.id, payment.option_value, payment.value, sum(CAST(refund.value AS INTEGER)),
    sum(CAST(refund.payment_value AS INTEGER))
FROM refund JOIN payment ON payment.id = refund.payment_id WHERE refund.status <> 'failed'
GROUP BY payment.id
HAVING sum(CAST(refund.value AS INTEGER)) > CAST(payment.option_value AS INTEGER)
    OR sum(CAST(refund.payment_value AS INTEGER)) > CAST(payment.value AS INTEGER)
"""


@dataclass
class Stage:
    """A running service and everything that a machine does to it."""

    loop: asyncio.AbstractEventLoop
    service: Service
    clock: SlowClock
    apis: dict[str, Api]
    buyers: list[Buyer]
    outbox: Outbox
    mine: Callable[[], Awaitable[object]]
    # every reader looks after every step; else all after a change and two, in turn, after others
    thorough: bool = True
    # how long a stream with something to tell may stay silent, or a settler with something to do
    patience_s: float = 15.0
    # makes reference ids and keys of this stage's machines differ
    runs: int = 0
    steps: int = 0
    calls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    # in which states runs left their payments
    ends: Counter[str] = field(default_factory=Counter)

    @property
    def rest(self) -> MemoryRest:
        api = self.apis["rest"]
        assert isinstance(api, MemoryRest)
        return api

    @property
    def now_us(self) -> int:
        return self.clock.now_us()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Does something; the service does nothing but while something is done."""
        return self.loop.run_until_complete(work)

    async def audit(self) -> None:
        """Compare what is stored at the end: refunds with payments, payouts with the books."""
        store = self.service.app.store
        found = await store.read(ledger.check()) + await store.read(payouts.check())
        rows = postgres.select(self.service.home.path, _EXCEEDED)
        assert not found + rows, found + rows

    def wake_settler(self) -> None:
        for settler in self.service.app.settlers.values():
            settler.wake()


@contextmanager
def staged(
    home: Path, *, chain: bool = False, seed: int = 0, thorough: bool = True
) -> Iterator[Stage]:
    """A stage on a loop of its own, over a fake rail or, with `chain`, over the embedded one."""
    loop = uvloop.new_event_loop()
    try:
        playing = _staged(loop, home, chain, seed)
        stage = loop.run_until_complete(anext(playing))
        stage.thorough = thorough
        try:
            yield stage
        finally:
            loop.run_until_complete(playing.aclose())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _staged(
    loop: asyncio.AbstractEventLoop, home: Path, chain: bool, seed: int
) -> AsyncIterator[Stage]:
    clock, chance = SlowClock(START_US), random.Random(seed)
    play = _embedded if chain else _fake
    # what is promised stays what the settings say: the model does not learn
    with mock.patch.object(Observations, "add_settled"):
        async with play(home, clock, chance) as (service, buyers, mine):
            env = await _accounts(service)
            local = Local([service.grpc.gate])
            service.grpc.register(local)
            async with grpc.aio.insecure_channel(service.grpc.target) as channel:
                rail = service.app.rails[CHAIN]
                apis: dict[str, Api] = {
                    "rest": MemoryRest(
                        Gateway(local, PUBLIC, GatewaySettings(headers=HEADERS)), env
                    ),
                    "grpc": GrpcApi(channel, env),
                }
                yield Stage(loop, service, clock, apis, buyers, Outbox(rail), mine)


@asynccontextmanager
async def _fake(home: Path, clock: SlowClock, chance: random.Random) -> AsyncIterator[Any]:
    rail: Rail = FakeRail(clock)

    async def rails(*_: object) -> connected.Chains:
        return connected.Chains(None, None, [rail])

    with mock.patch.object(connected, "start", rails):
        service = await Service.start(settings(home), clock=clock, randbytes=chance.randbytes)

    async def mine() -> None:
        rail.mine()

    try:
        buyers = [_pretender(number) for number in range(WALLETS)]
        yield service, buyers, mine
    finally:
        await service.stop()


@asynccontextmanager
async def _embedded(home: Path, clock: SlowClock, chance: random.Random) -> AsyncIterator[Any]:
    service = await Service.start(settings(home), clock=clock, randbytes=chance.randbytes)
    try:
        assert service.evm is not None
        chain = JsonRpc(LocalTransport(service.evm.handle))
        wallets = [Wallet() for _ in range(WALLETS)]
        # who is rich needs no faucet, whose blocks would come unasked
        gift = {"accounts": [one.address for one in wallets], "tokenUnits": hex(WEALTH)}
        await chain.call("florin_faucet", gift)
        await chain.call("florin_fault", {"kind": "mining", "paused": True})

        async def mine() -> None:
            await chain.call("evm_mine")

        yield service, [_signer(wallet) for wallet in wallets], mine
    finally:
        await service.stop()


def _pretender(number: int) -> Buyer:
    account = f"{CHAIN}:0x" + f"{number + 1:x}" * 40
    return Buyer(account, account, lambda option: signature(option["id"]))


def _signer(wallet: Wallet) -> Buyer:
    def execute(option: dict[str, Any]) -> str:
        (output,) = wallet.execute_all(option)
        return output

    return Buyer(wallet.account, wallet.account.lower(), execute)


async def _accounts(service: Service) -> dict[str, str]:
    """A partner with a merchant, and a wallet; what they call with."""
    made = demo.make(service.app, service.secrets.pepper, {_asset(service): MERCHANT})
    await demo.store(service.app, made)
    return {
        "FLORIN_PARTNER_KEY": made.partner_key,
        "FLORIN_MERCHANT_ID": made.merchant.id,
        "FLORIN_APP_ID": made.wallet.app_id,
        "FLORIN_CLIENT_ID": "machine",
    }


def _asset(service: Service) -> str:
    return next(iter(service.app.rails[CHAIN].assets), ASSET)
