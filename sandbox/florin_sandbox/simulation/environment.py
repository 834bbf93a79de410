"""Run a service with its chains and a clock that moves only on demand."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from florin_server.app.service import FlorinService
from florin_server.base.clock import TestClock
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.pricing.market import MarketPrices
from florin_server.rails.pricing.settings import PriceSettings
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.settings import Settings, TracingSettings

from florin_sandbox.demo_accounts import ensure_demo_accounts
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_sandbox.simulation import rates
from florin_sandbox.simulation.calls import SimulationApi
from florin_sandbox.simulation.config import SimulationConfig
from florin_sandbox.simulation.nodes import SandboxNode
from florin_sandbox.simulation.pace import BlockPacer
from florin_sandbox.simulation.population import SimulatedMerchant, WalletKind
from florin_sandbox.simulation.quiet_loop import QuietLoop
from florin_sandbox.simulation.wallet import ASSETS, EVM

# prices of a coin without a price source
_COIN = ASSETS[WalletKind.COIN]
_PRICES = {"USD": "2500.00", "EUR": "2300.00", "GBP": "2000.00"}
# check the ledger hourly, as on a quiet day; a long timeout, so that a busy machine omits no chain
_BOOKS_INTERVAL_S, _DISCOVERY_INTERVAL_S = 3_600.0, 60.0


@dataclass(frozen=True, slots=True)
class RegisteredMerchant:
    """A created merchant with its addresses; empty if the treasury receives its money."""

    merchant: SimulatedMerchant
    id: str
    evm_account: str
    solana_account: str


class SimulationEnvironment:
    """The service, chains and clock of a simulation. Times are microseconds since the epoch."""

    def __init__(
        self, service: FlorinService, clock: TestClock, loop: QuietLoop, config: SimulationConfig
    ) -> None:
        self.service = service
        self.api = SimulationApi(service.grpc, service.home.read_demo_env())
        self.merchants: list[RegisteredMerchant] = []
        self._clock = clock
        self._loop = loop
        self.nodes: dict[str, SandboxNode] = {}
        self.pacers: dict[str, BlockPacer] = {}
        settings = service.settings
        blocks_s = settings.embedded.block_interval_s, settings.embedded_solana.slot_s
        chains = ("evm", service.evm_chain), ("solana", service.solana_chain)
        for (kind, chain), block_s in zip(chains, blocks_s, strict=True):
            if chain is None:
                continue
            self.nodes[kind] = node = SandboxNode(chain.handle)
            self.pacers[kind] = BlockPacer(kind, node, block_s, slow=kind == config.slow_chain)
            loop.add_busy_check(chain.is_busy)
        store, prices = service.app.store, service.app.prices
        loop.add_busy_check(lambda: store.is_busy)
        if isinstance(prices, MarketPrices):
            loop.add_busy_check(lambda: prices.is_refreshing)

    @property
    def now_us(self) -> int:
        """Return the simulated time."""
        return self._clock.now_us()

    async def wait_until_idle(self) -> None:
        """Wait until no work is left at the present time."""
        await self._loop.wait_until_idle()

    async def advance(self, to_us: int) -> None:
        """Advance the clock, and wait until all resulting work is done."""
        # half a microsecond more, so that rounding does not lose a fraction
        self._clock.advance((to_us - self.now_us + 0.5) / 1_000_000)
        await self.wait_until_idle()
        for pace in self.pacers.values():
            if await pace.advance(self.now_us):
                await self.wait_until_idle()

    def find_next_block_us(self, kinds: Iterable[str]) -> int | None:
        """Return the time of the next block on one of the chains; None if all are stopped."""
        dues = [self.pacers[kind].due_us for kind in kinds if not self.pacers[kind].is_stopped]
        return min(dues, default=None)

    @property
    def is_idle(self) -> bool:
        """Return True if the service has no open transactions."""
        app = self.service.app
        workers = (*app.settlers.values(), *app.payout_workers.values())
        return not any(worker.open_transactions for worker in workers)

    async def register_merchants(self, merchants: Iterable[SimulatedMerchant], name: str) -> None:
        """Create the merchants of the partner; `name` identifies this simulation."""
        partner = self.api.get_partner_client()
        for merchant in merchants:
            email = f"shop-{merchant.number + 1}@merchants.example"
            body = {"merchantName": merchant.name, "merchantEmail": email}
            registration = await partner.post(
                "/v1/merchants", body, f"{name}-shop-{merchant.number}"
            )
            shop = self._build_merchant(
                merchant, registration["merchant"]["id"], f"{name} merchant {merchant.number}"
            )
            if settlements := list(self._list_settlements(shop)):
                path = f"/v1/merchants/{shop.id}/settlements/crypto"
                key = f"{name}-settlements-{merchant.number}"
                await partner.post(path, {"settlements": settlements}, key)
            self.merchants.append(shop)
            # open the accounts of each merchant separately, so that equal seeds act alike
            await self.wait_until_idle()

    def _build_merchant(
        self, merchant: SimulatedMerchant, merchant_id: str, name: str
    ) -> RegisteredMerchant:
        if not merchant.kind.own_wallet:
            return RegisteredMerchant(merchant, merchant_id, "", "")
        secret = hashlib.sha256(f"florin simulation {name}".encode()).digest()
        evm = EvmSigner(secret).address if "evm" in self.nodes else ""
        solana = SolanaSigner(secret).address if "solana" in self.nodes else ""
        return RegisteredMerchant(merchant, merchant_id, evm, solana)

    def _list_settlements(self, shop: RegisteredMerchant) -> Iterable[dict[str, str]]:
        for purse, asset in ASSETS.items():
            address = shop.evm_account if purse.chain == "evm" else shop.solana_account
            if address:
                chain = EVM if purse.chain == "evm" else SOLANA_DEVNET.chain_id
                yield {"asset": asset, "destination": f"{chain}:{address}"}


def build_settings(
    settings: Settings, config: SimulationConfig, prices: PriceSettings | None
) -> Settings:
    """Return the installation's settings for a simulation, without access from outside."""
    embedded, solana = settings.embedded, settings.embedded_solana
    depth = config.confirmations or embedded.confirmations
    accounts = max(solana.accounts_a_day, 3 * config.merchants)
    return settings.model_copy(
        update={
            "http_port": 0,
            "grpc_port": 0,
            "operator_port": 0,
            "metrics_port": None,
            "tracing": TracingSettings(),
            "books_check_s": _BOOKS_INTERVAL_S,
            "discovery_s": _DISCOVERY_INTERVAL_S,
            "rates": {_COIN: _get_prices(settings)} | settings.rates,
            "prices": prices or settings.prices,
            "embedded": embedded.model_copy(update={"confirmations": depth}),
            "embedded_solana": solana.model_copy(update={"accounts_a_day": accounts}),
        }
    )


def _get_prices(settings: Settings) -> dict[str, str]:
    """Return the coin's prices at the start of a simulation, by currency."""
    return _PRICES | settings.rates.get(_COIN, {})


@asynccontextmanager
async def open_environment(
    settings: Settings, config: SimulationConfig, begin_us: int, loop: QuietLoop
) -> AsyncIterator[SimulationEnvironment]:
    """Start a service at a simulated time; SetupError, StoreError or OSError if it cannot run."""
    clock = TestClock(begin_us)
    async with AsyncExitStack() as stack:
        moving = rates.serve_prices(config, begin_us, clock, _COIN, _get_prices(settings))
        chosen = build_settings(settings, config, await stack.enter_async_context(moving))
        service = await FlorinService.start(chosen, clock=clock)
        stack.push_async_callback(service.stop)
        await ensure_demo_accounts(service)
        stage = SimulationEnvironment(service, clock, loop, config)
        await stage.wait_until_idle()
        for pace in stage.pacers.values():
            await pace.start(stage.now_us)
        yield stage
        for pace in stage.pacers.values():
            await pace.finish()
