"""One service with its clock, its chain and its clients, for machines to play on."""

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
from florin_sandbox import demo
from florin_server.app.chains import connected
from florin_server.app.servers.grpc_server import PUBLIC_SERVICES
from florin_server.app.service import FlorinService
from florin_server.base.clock import TestClock
from florin_server.base.topics import Topic
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import payouts
from florin_server.money.settlement.worker.observations import ChainObservations
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.protocol import Rail
from florin_server.web.headers import GATEWAY_SETTINGS
from grpc_rest_gateway.app import RestGateway
from grpc_rest_gateway.backends import LocalBackend

from tests.model.memory import MemoryRest
from tests.model.rail import ASSET, CHAIN, FakeRail, signature
from tests.support import postgres
from tests.support.api import GrpcApi, PaymentApi
from tests.support.service import make_settings
from tests.support.wallet import EvmTestWallet

_T = TypeVar("_T")

START_US = 1_800_000_000_000_000
MERCHANT = f"{CHAIN}:0x" + "0d" * 20
WALLETS = 3
# a wallet's balance in minor units: more than any machine spends, and all that a faucet gives
WEALTH = 10**13


class SlowClock(TestClock):
    """A clock that moves by microseconds, with or without waking its sleepers."""

    def move(self, by_us: int, *, wake: bool) -> None:
        self._steady_us += by_us
        if wake:
            self.advance(0)


class Outbox:
    """A record of which payments a settler has submitted to its chain."""

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

    async def all_of(self, expected: set[str], patience_s: float) -> set[str]:
        """Wait until all of them were submitted, and forget them; return what is missing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while not expected <= self.sent:
                    self._news.clear()
                    await self._news.wait()
        missing = expected - self.sent
        self.sent -= expected
        return missing


@dataclass
class Buyer:
    """A wallet. `account` is its own name for itself, `payer` the name in answers."""

    account: str
    payer: str
    execute: Callable[[dict[str, Any]], str]


# payments whose refunds, without the failed ones, exceed what was paid
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
    """A running service, with everything that a machine does to it."""

    loop: asyncio.AbstractEventLoop
    service: FlorinService
    clock: SlowClock
    apis: dict[str, PaymentApi]
    buyers: list[Buyer]
    outbox: Outbox
    mine: Callable[[], Awaitable[object]]
    # every reader checks after every step; otherwise all after a change, and two in turn after
    # others
    thorough: bool = True
    # how long a stream with an event may stay silent, or a settler with work may stay idle
    patience_s: float = 15.0
    # makes the reference IDs and keys of this stage's machines unique
    runs: int = 0
    steps: int = 0
    calls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    # the states in which runs left their payments
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
        """Run work; the service runs only during such work."""
        return self.loop.run_until_complete(work)

    async def audit(self) -> None:
        """Check the stored data at the end: refunds against payments, payouts against the books."""
        store = self.service.app.store
        results = await store.read(ledger.check()) + await store.read(payouts.check())
        rows = postgres.select(self.service.home.path, _EXCEEDED)
        assert not results + rows, results + rows

    def wake_settler(self) -> None:
        self.service.app.notifier.notify_all(Topic.SETTLEMENT)


@contextmanager
def staged(
    home: Path, *, chain: bool = False, seed: int = 0, thorough: bool = True
) -> Iterator[Stage]:
    """Open a stage with its own loop, on a fake rail or, with `chain`, on the embedded chain."""
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
    # the promised durations stay as in the settings, because the model does not learn
    with mock.patch.object(ChainObservations, "record_settle_time"):
        async with play(home, clock, chance) as (service, buyers, mine):
            env = await _accounts(service)
            local = LocalBackend([service.grpc.interceptor])
            service.grpc.register(local)
            async with grpc.aio.insecure_channel(service.grpc.target) as channel:
                rail = service.app.rails[CHAIN]
                apis: dict[str, PaymentApi] = {
                    "rest": MemoryRest(RestGateway(local, PUBLIC_SERVICES, GATEWAY_SETTINGS), env),
                    "grpc": GrpcApi(channel, env),
                }
                yield Stage(loop, service, clock, apis, buyers, Outbox(rail), mine)


@asynccontextmanager
async def _fake(home: Path, clock: SlowClock, chance: random.Random) -> AsyncIterator[Any]:
    rail: Rail = FakeRail(clock)

    async def rails(*_: object) -> connected.ConnectedChains:
        return connected.ConnectedChains(None, None, [rail])

    with mock.patch.object(connected, "start_chains", rails):
        service = await FlorinService.start(
            make_settings(home), clock=clock, randbytes=chance.randbytes
        )

    async def mine() -> None:
        rail.mine()

    try:
        buyers = [_pretender(number) for number in range(WALLETS)]
        yield service, buyers, mine
    finally:
        await service.stop()


@asynccontextmanager
async def _embedded(home: Path, clock: SlowClock, chance: random.Random) -> AsyncIterator[Any]:
    service = await FlorinService.start(
        make_settings(home), clock=clock, randbytes=chance.randbytes
    )
    try:
        assert service.evm_chain is not None
        chain = JsonRpcClient(LocalTransport(service.evm_chain.handle))
        wallets = [EvmTestWallet() for _ in range(WALLETS)]
        # rich wallets need no faucet, whose blocks would come unplanned
        gift = {"accounts": [wallet.address for wallet in wallets], "tokenUnits": hex(WEALTH)}
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


def _signer(wallet: EvmTestWallet) -> Buyer:
    def execute(option: dict[str, Any]) -> str:
        (output,) = wallet.execute_all(option)
        return output

    return Buyer(wallet.account, wallet.account.lower(), execute)


async def _accounts(service: FlorinService) -> dict[str, str]:
    """Create a partner with a merchant, and a wallet; return their credentials."""
    accounts = demo.build(service.app, service.secrets.pepper, {_asset(service): MERCHANT})
    await demo.store(service.app, accounts)
    return {
        "FLORIN_PARTNER_KEY": accounts.partner_key,
        "FLORIN_MERCHANT_ID": accounts.merchant.id,
        "FLORIN_APP_ID": accounts.wallet.app_id,
        "FLORIN_CLIENT_ID": "machine",
    }


def _asset(service: FlorinService) -> str:
    return next(iter(service.app.rails[CHAIN].assets), ASSET)
