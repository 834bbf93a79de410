"""One service with its chains and a clock that stands still until it is moved."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from florin_server.boot.demo_accounts import ensure_demo
from florin_server.boot.service import Service
from florin_server.clock import TestClock
from florin_server.config import Settings, TracingSettings
from florin_server.devnet.solana import SOLNET
from florin_server.pricing.market import Market
from florin_server.pricing.settings import PriceSettings
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.simulation import rates
from florin_server.simulation.calls import Api
from florin_server.simulation.knobs import Knobs
from florin_server.simulation.nodes import Node
from florin_server.simulation.pace import Pace
from florin_server.simulation.population import Merchant, Purse
from florin_server.simulation.quiet import QuietLoop
from florin_server.simulation.wallet import ASSETS, EVM

# what a coin costs without a source of prices
_COIN = ASSETS[Purse.COIN]
_PRICES = {"USD": "2500.00", "EUR": "2300.00", "GBP": "2000.00"}
# books are compared as often as on a quiet day, and a busy machine leaves no chain out
_BOOKS_S, _DISCOVERY_S = 3_600.0, 60.0


@dataclass(frozen=True, slots=True)
class Shop:
    """A merchant that was made. Addresses are where it is paid; empty by way of the treasury."""

    merchant: Merchant
    id: str
    evm: str
    solana: str


class Stage:
    """Everything that a simulation happens on. Times are microseconds since the Unix epoch."""

    def __init__(self, service: Service, clock: TestClock, loop: QuietLoop, knobs: Knobs) -> None:
        self.service = service
        self.api = Api(service.grpc, service.home.read_demo_env())
        self.shops: list[Shop] = []
        self._clock = clock
        self._loop = loop
        self.nodes: dict[str, Node] = {}
        self.paces: dict[str, Pace] = {}
        settings = service.settings
        blocks_s = settings.embedded.block_interval_s, settings.embedded_solana.slot_s
        chains = ("evm", service.evm), ("solana", service.solana)
        for (kind, chain), block_s in zip(chains, blocks_s, strict=True):
            if chain is None:
                continue
            self.nodes[kind] = node = Node(chain.handle)
            self.paces[kind] = Pace(kind, node, block_s, slow=kind == knobs.slow_chain)
            loop.heed(chain.busy)
        store, prices = service.app.store, service.app.prices
        loop.heed(lambda: store.busy)
        if isinstance(prices, Market):
            loop.heed(lambda: prices.busy)

    @property
    def now_us(self) -> int:
        """What time it is."""
        return self._clock.now_us()

    async def quiet(self) -> None:
        """Returns once everything is done that can be done now."""
        await self._loop.quiet()

    async def advance(self, to_us: int) -> None:
        """Moves the time on, and returns once all is done that comes of it."""
        # and half a microsecond, so that no fraction is lost on the way there
        self._clock.advance((to_us - self.now_us + 0.5) / 1_000_000)
        await self.quiet()
        for pace in self.paces.values():
            if await pace.passed(self.now_us):
                await self.quiet()

    def next_block_us(self, kinds: Iterable[str]) -> int | None:
        """When the next block comes on one of some chains; None if they stand still."""
        dues = [self.paces[kind].due_us for kind in kinds if not self.paces[kind].stopped]
        return min(dues, default=None)

    @property
    def is_idle(self) -> bool:
        """True if no transaction of the service is under way."""
        return not any(one.open_transactions for one in self.service.app.executors.values())

    async def open_shops(self, merchants: Iterable[Merchant], name: str) -> None:
        """Has the partner make its merchants; `name` tells this simulation from others."""
        partner = self.api.partner()
        for one in merchants:
            email = f"shop-{one.n + 1}@merchants.example"
            body = {"merchantName": one.name, "merchantEmail": email}
            made = await partner.post("/v1/merchants", body, f"{name}-shop-{one.n}")
            shop = self._shop(one, made["merchant"]["id"], f"{name} merchant {one.n}")
            if settlements := list(self._settlements(shop)):
                path = f"/v1/merchants/{shop.id}/settlements/crypto"
                key = f"{name}-settlements-{one.n}"
                await partner.post(path, {"settlements": settlements}, key)
            self.shops.append(shop)
            # accounts are opened for it by itself, and never by chance together with the next one's
            await self.quiet()

    def _shop(self, merchant: Merchant, merchant_id: str, name: str) -> Shop:
        if not merchant.kind.own_wallet:
            return Shop(merchant, merchant_id, "", "")
        secret = hashlib.sha256(f"florin simulation {name}".encode()).digest()
        evm = Signer(secret).address if "evm" in self.nodes else ""
        solana = SolanaSigner(secret).address if "solana" in self.nodes else ""
        return Shop(merchant, merchant_id, evm, solana)

    def _settlements(self, shop: Shop) -> Iterable[dict[str, str]]:
        for purse, asset in ASSETS.items():
            address = shop.evm if purse.chain == "evm" else shop.solana
            if address:
                chain = EVM if purse.chain == "evm" else SOLNET.chain_id
                yield {"asset": asset, "destination": f"{chain}:{address}"}


def settings_for(settings: Settings, knobs: Knobs, prices: PriceSettings | None) -> Settings:
    """The installation's settings, for the time of a simulation: nobody calls from outside."""
    embedded, solana = settings.embedded, settings.embedded_solana
    depth = knobs.confirmations or embedded.confirmations
    accounts = max(solana.accounts_a_day, 3 * knobs.merchants)
    return settings.model_copy(
        update={
            "http_port": 0,
            "grpc_port": 0,
            "operator_port": 0,
            "metrics_port": None,
            "tracing": TracingSettings(),
            "books_check_s": _BOOKS_S,
            "discovery_s": _DISCOVERY_S,
            "rates": {_COIN: _prices_of(settings)} | settings.rates,
            "prices": prices or settings.prices,
            "embedded": embedded.model_copy(update={"confirmations": depth}),
            "embedded_solana": solana.model_copy(update={"accounts_a_day": accounts}),
        }
    )


def _prices_of(settings: Settings) -> dict[str, str]:
    """What a coin costs when a simulation begins, by currency."""
    return _PRICES | settings.rates.get(_COIN, {})


@asynccontextmanager
async def staged(
    settings: Settings, knobs: Knobs, begin_us: int, loop: QuietLoop
) -> AsyncIterator[Stage]:
    """A service on its state folder at a time; Refused, StoreError or OSError if it cannot run."""
    clock = TestClock(begin_us)
    async with AsyncExitStack() as stack:
        moving = rates.told(knobs, begin_us, clock, _COIN, _prices_of(settings))
        chosen = settings_for(settings, knobs, await stack.enter_async_context(moving))
        service = await Service.start(chosen, clock=clock)
        stack.push_async_callback(service.stop)
        await ensure_demo(service)
        stage = Stage(service, clock, loop, knobs)
        await stage.quiet()
        for pace in stage.paces.values():
            await pace.begin(stage.now_us)
        yield stage
        for pace in stage.paces.values():
            await pace.end()
