"""The processes of one run: the chains, and the service in front of them that is killed."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from florin_sandbox import demo
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.solana import SOLANA_DEVNET, SolanaDevChain, SolanaDevSettings
from florin_sandbox.simulation.audit.facts import AuditedStore
from florin_sandbox.simulation.audit.target import (
    ETHER,
    EUR,
    EVM,
    USD,
)
from florin_server.accounts.service import keys
from florin_server.accounts.store import destinations, merchants
from florin_server.accounts.store import keys as key_store
from florin_server.app.chains.keys import ChainKeyring
from florin_server.app.home import StateFolder
from florin_server.app.service import FlorinService
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.account import ApiKey
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.payments.payment import Destination
from florin_server.rails.connection import health, jsonrpc
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.sending.relay import EvmRelay
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings, EvmCoinSettings
from florin_server.rails.solana.sending.relay import SolanaRelay
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.settings import (
    EmbeddedChainSettings,
    EmbeddedSolanaSettings,
    FailedGasSettings,
    LimitSettings,
    Settings,
    X402Settings,
)
from pydantic import SecretStr
from solders.keypair import Keypair

from tests.chaos.fast_clock import SPEED, QuickClock
from tests.chaos.front_runner import FrontRunner
from tests.chaos.node import Node
from tests.chaos.plan import CONFIRMATIONS, Kill
from tests.chaos.planted_bugs import PLANTED_BUGS
from tests.chaos.stores import open_store
from tests.support import postgres
from tests.support.contract_accounts import UNIVERSAL
from tests.support.evm_harness import make_asset, make_euro_asset
from tests.support.service import NO_LIMITS
from tests.support.solana import ASSETS
from tests.support.solana_rail_harness import make_asset as make_solana_asset

# where merchants and the operator are paid
MERCHANT, TREASURY = "0x" + "5a" * 20, EvmSigner(b"\x7f" * 32)
SOLANA_MERCHANT = SolanaSigner(b"\x5a" * 32).address
SOLANA_TREASURY = SolanaSigner(b"\x7f" * 32)
# the merchant without destinations is paid through the treasury
TREASURY_MERCHANT = "mrch_without_destinations"
# machine seconds between two reads of the service's memory
MEMORY_READ_S = 0.1
# slots are longer than real ones: a busy machine needs time before a blockhash lapses
BLOCK_S, SLOT_S, FINALIZED_SLOTS, POLL_MS = 1.0, 1.0, 4, 50
FEES = {"fee_fixed": 7, "fee_basis_points": 100}
# on foreign chains: creates anything on request
FACTORY = "0x" + "fa" * 20
# merchants whose destinations are attackers' wallets
ATTACKING_MERCHANTS = tuple(f"mrch_of_attacker_{n}" for n in range(3))
# The limits that attackers meet. The budgets are minimal, so that chaos runs exhaust them; a
# payer's budget leaves room for strangers who are faster than we are.
FAILED_GAS = FailedGasSettings(
    payer=2_000_000, app=3_000_000, chain=3_000_000, opened_app=1_500_000, opened_chain=1_500_000
)
OPENED = {"accounts_a_day": 6, "accounts_a_partner_day": 4, "accounts_a_merchant_day": 2}
LIMITS = NO_LIMITS.model_copy(
    update={
        name: LimitSettings().model_dump()[name]
        for name in LimitSettings.model_fields
        if name.startswith(("payment_", "options_", "held_"))
    }
)
OPTIONS = {"options_per_caller": 20, "options_per_payment": 100}


def get_attacker_wallet(n: int) -> Keypair:
    """Return the wallet to which an attacker's merchant is settled."""
    return Keypair.from_seed(bytes([0x5C, n]) * 16)


@dataclass(frozen=True)
class ChaosEnvironment:
    """The folder of one run, through which its processes communicate."""

    root: Path
    embedded: bool
    keys: int = 1
    bug: str = ""  # the bug planted in the service
    engine: str = postgres.SQLITE

    @property
    def home(self) -> StateFolder:
        return StateFolder(self.root / "home")

    @property
    def clock(self) -> Path:
        return self.root / "clock"

    @property
    def log(self) -> Path:
        return self.root / "service.log"

    @property
    def store(self) -> AuditedStore:
        return open_store(self.home.path, self.engine)

    def select(self, query: str) -> list[tuple[Any, ...]]:
        """Query the service's database."""
        return self.store.select(query)

    def write_facts(self, name: str, facts: Any) -> None:
        """Replace the facts under a name."""
        path = self.root / f"{name}.json"
        path.with_suffix(".new").write_text(json.dumps(facts))
        path.with_suffix(".new").rename(path)

    def read_facts(self, name: str) -> Any:
        return json.loads((self.root / f"{name}.json").read_text())

    def settings(self) -> Settings:
        common: dict[str, Any] = {
            "home": self.home.path,
            "http_port": 0,
            "grpc_port": 0,
            "limits": LIMITS,
            "failed_gas": FAILED_GAS,
            # buyers use many addresses
            "trusted_proxies": ("127.0.0.0/8",),
            "rates": {ETHER: {"GBP": "2500.00"}},
            # refunds of directly settled payments come out of the treasury
            "refund_credit": dict.fromkeys((USD, EUR, ETHER, *ASSETS), 10**20),
            "x402": X402Settings(facilitator=True, wait_s=0.5),
            **FEES,
            **OPTIONS,
        }
        if self.engine != postgres.SQLITE:
            database = postgres.get_database(self.home.path, self.engine)
            common["store"] = SecretStr(database.dsn)
        if self.embedded:
            return Settings(
                **common,
                embedded=EmbeddedChainSettings(
                    block_interval_s=BLOCK_S, confirmations=CONFIRMATIONS
                ),
                embedded_solana=EmbeddedSolanaSettings(
                    slot_s=SLOT_S, finalized_slots=FINALIZED_SLOTS, **OPENED
                ),
            )
        urls = self.read_facts("chains")
        evm = EvmChainSettings(
            chain_id=DEVNET.chain_id,
            name="Foreign",
            rpc_url=tuple(urls["evm_nodes"]),
            confirmations=CONFIRMATIONS,
            poll_ms=POLL_MS,
            settler=DEVNET.settler,
            opener=DEVNET.opener,
            forwarder=ForwarderSettings(address=DEVNET.forwarder),
            factories=(DEVNET.wallet_factory, FACTORY),
            treasury=TREASURY.address,
            coin=EvmCoinSettings(name="Test Ether", symbol="tETH"),
            assets=(make_asset(), make_euro_asset()),
        )
        solana = SolanaChainSettings(
            reference=SOLANA_DEVNET.chain_id.removeprefix("solana:"),
            name="Foreign Solana",
            rpc_url=tuple(urls["solana_nodes"]),
            poll_ms=POLL_MS,
            treasury=SOLANA_TREASURY.address,
            assets=(make_solana_asset(0), make_solana_asset(1)),
            **OPENED,
        )
        return Settings(
            **common,
            embedded=EmbeddedChainSettings(enabled=False),
            embedded_solana=EmbeddedSolanaSettings(enabled=False),
            chains=(evm,),
            solana_chains=(solana,),
        )

    def relayers(self) -> tuple[str, ...]:
        """Return the addresses of the service's keys on the EVM chain."""
        return tuple(
            signer.address
            for signer in (
                EvmSigner(self.home.get_or_create_secrets().relayer_key),
                *self.extra_keys,
            )
        )

    @property
    def extra_keys(self) -> tuple[EvmSigner, ...]:
        """Return the keys besides the first."""
        return tuple(EvmSigner(bytes([n]) * 32) for n in range(2, self.keys + 1))

    @property
    def solana_relayer(self) -> str:
        return SolanaSigner(self.home.get_or_create_secrets().solana_relayer_seed).address

    def treasuries(self) -> tuple[str, str]:
        """Return the addresses of the operator's own accounts on the EVM chain and on Solana."""
        if not self.embedded:
            return TREASURY.address, SOLANA_TREASURY.address
        installation_secrets = self.home.get_or_create_secrets()
        evm, solana = (
            EvmSigner(installation_secrets.treasury_key),
            SolanaSigner(installation_secrets.solana_treasury_seed),
        )
        return evm.address, solana.address


# ---- the chains


async def run_chains(
    environment: ChaosEnvironment, seed: int, count: int, ready: Callable[[], None]
) -> None:
    """Run both chains, each with nodes in front of it, until the process is killed."""
    clock = QuickClock(environment.clock)
    evm = await EvmDevChain.open(
        environment.root / "evm.db",
        EvmDevSettings(
            block_interval_s=BLOCK_S, clock=clock, code={FACTORY: bytes.fromhex(UNIVERSAL)}
        ),
    )
    solana = await SolanaDevChain.open(
        environment.root / "solana.db",
        SolanaDevSettings(slot_s=SLOT_S, finalized_slots=FINALIZED_SLOTS, clock=clock),
    )
    rpc = JsonRpcClient(LocalTransport(evm.handle))
    front_runner = FrontRunner(rpc, f"front-runner {seed}")
    await rpc.call("florin_faucet", {"accounts": [front_runner.address], "nativeWei": hex(10**21)})
    urls: dict[str, Any] = {"evm_nodes": [], "solana_nodes": []}
    for n in range(count):
        for name, node in (
            ("evm_nodes", Node(evm.handle, f"evm {seed} {n}", front_runner)),
            ("solana_nodes", Node(solana.handle, f"solana {seed} {n}")),
        ):
            urls[name].append(await node.serve())
    for name, chain in (("evm", evm), ("solana", solana)):
        urls[name] = f"http://127.0.0.1:{await chain.serve_http()}"
    environment.write_facts("chains", urls)
    ready()
    await asyncio.Event().wait()


# ---- the service


class Steps:
    """A fault hook that counts durable steps, and dies at or soon after one of them."""

    def __init__(self, kill: Kill | None, *, counting: bool) -> None:
        self._kill = kill
        self.counting = counting
        self.count = 0

    def __call__(self, name: str) -> None:
        if self._kill is None or not self.counting or self._kill.step_name not in {"", name}:
            return
        self.count += 1
        if self.count != self._kill.steps:
            return
        if self._kill.after_s == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        dying = threading.Timer(self._kill.after_s, os.kill, (os.getpid(), signal.SIGKILL))
        dying.daemon = True
        dying.start()


def watch_broadcasts(steps: Steps) -> None:
    """Make both sides of every broadcast a step too."""
    for relay in (EvmRelay, SolanaRelay):
        _watch_relay(relay, relay.broadcast, steps)


def _watch_relay(relay: Any, inner: Callable[..., Awaitable[None]], steps: Steps) -> None:
    async def broadcast(self: Any, raw: bytes) -> None:
        steps("before broadcast")
        await inner(self, raw)
        steps("after broadcast")

    relay.broadcast = broadcast


async def serve(
    environment: ChaosEnvironment, kill: Kill | None, ready: Callable[[], None]
) -> None:
    """Run the service until it is stopped."""
    logging.basicConfig(
        filename=environment.log,
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    install_keys(environment)
    shorten_node_pauses()
    if environment.bug:
        PLANTED_BUGS[environment.bug].plant()
    # before the shop has opened there is nothing to lose
    steps = Steps(kill, counting=(environment.root / "shop.json").exists())
    watch_broadcasts(steps)
    service = await FlorinService.start(
        environment.settings(), clock=QuickClock(environment.clock), fault_hook=steps
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await open_shop(environment, service)
    steps.counting = True
    tasks = [
        asyncio.create_task(ended.wait()),
        asyncio.create_task(service.workers.wait_for_failure()),
    ]
    recording = asyncio.create_task(record_memory(environment, service))
    ready()
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if not ended.is_set():
        await tasks[1]
    tasks[1].cancel()
    recording.cancel()
    await service.stop()


def shorten_node_pauses() -> None:
    """Shorten the pauses of failed nodes to the run's clock."""
    for name in ("PROBE_S", "BACKOFF_S", "BACKOFF_MAX_S", "SHORT_S", "RETRY_MAX_S"):
        setattr(health, name, getattr(health, name) / SPEED)
    for name in ("BATCH_RETRY_S", "UNREADABLE_RETRY_S"):
        setattr(jsonrpc, name, getattr(jsonrpc, name) / SPEED)


def install_keys(environment: ChaosEnvironment) -> None:
    """Give the service keys without a keystore."""
    inner = ChainKeyring.get_relayers
    ChainKeyring.get_relayers = lambda self, chain: (*inner(self, chain), *environment.extra_keys)
    ChainKeyring.find_treasury = lambda *_: TREASURY
    ChainKeyring.find_solana_treasury = lambda *_: SOLANA_TREASURY


async def record_memory(environment: ChaosEnvironment, service: FlorinService) -> None:
    """Record the most settlement events remembered, in this life or an earlier one."""
    highest = environment.read_facts("memory") if (environment.root / "memory.json").exists() else 0
    while True:
        count = sum(worker.health().remembered_events for worker in service.app.settlers.values())
        if count > highest:
            highest = count
            environment.write_facts("memory", highest)
        await asyncio.sleep(MEMORY_READ_S)


async def open_shop(environment: ChaosEnvironment, service: FlorinService) -> None:
    """Create the merchants, and publish the service's address."""
    app = service.app
    if await demo.is_empty(app):
        paid_to = {
            **dict.fromkeys((USD, EUR, ETHER), f"{EVM}:{MERCHANT}"),
            **dict.fromkeys(ASSETS, f"{SOLANA_DEVNET.chain_id}:{SOLANA_MERCHANT}"),
        }
        accounts = demo.build(app, service.secrets.pepper, paid_to)
        facilitating, facilitator_key = keys.generate(
            app,
            service.secrets.pepper,
            kind=ApiKeyKind.PARTNER,
            live=False,
            partner_id=accounts.partner.id,
            scopes=frozenset({"facilitate"}),
        )
        credentials = {
            "FLORIN_PARTNER_KEY": accounts.partner_key,
            "FLORIN_MERCHANT_ID": accounts.merchant.id,
            "FLORIN_APP_ID": accounts.wallet.app_id,
            "FLORIN_CLIENT_ID": "chaos",
            "FACILITATOR_KEY": facilitator_key,
        }
        environment.write_facts("credentials", credentials)
        await app.store.write(_store_accounts(accounts, facilitating))
    if environment.embedded:
        urls = {"evm": service.evm_rpc_url, "solana": service.solana_rpc_url}
        environment.write_facts("chains", urls)
    environment.write_facts(
        "shop", {"url": service.http_url, "operator": service.grpc.operator_target}
    )


@operation
def _store_accounts(accounts: demo.DemoAccounts, facilitating: ApiKey) -> Op[None]:
    yield from demo.put(accounts)
    yield from key_store.put_key(facilitating)
    yield from merchants.put_merchant(replace(accounts.merchant, id=TREASURY_MERCHANT))
    for n, merchant_id in enumerate(ATTACKING_MERCHANTS):
        yield from merchants.put_merchant(replace(accounts.merchant, id=merchant_id))
        account = f"{SOLANA_DEVNET.chain_id}:{get_attacker_wallet(n).pubkey()}"
        destination = Destination(f"crypto_{merchant_id}", merchant_id, ASSETS[0], account)
        yield from destinations.put_destination(destination)
