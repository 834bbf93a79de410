"""An installation for services in processes of their own: its database, accounts and chain."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import aiohttp
from eth_account import Account
from florin_sandbox import demo
from florin_sandbox.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.app.app import build_app, build_core
from florin_server.app.home import StateFolder, replace_private_file
from florin_server.base.clock import SystemClock
from florin_server.db.engine.store import Store
from florin_server.money.open_store import open_store
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings

from tests.support import postgres
from tests.support.api import RestApi
from tests.support.command import (
    FLORIN,
    PATIENCE_S,
    CommandResult,
    RunningCommand,
    make_environment,
    run_florin,
)
from tests.support.own_chain import CHAIN, CHAIN_ID, make_own_chain
from tests.support.proxy import FaultyNodeProxy
from tests.support.service import NO_LIMITS, make_settings
from tests.support.service_harness import ORDER
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

TREASURY = EvmSigner(b"\xfe" * 32)
_PASSWORD = "of the treasury"


@dataclass
class SystemdSocket:
    """The notifications that systemd would get from a service."""

    socket: socket.socket

    @classmethod
    @contextmanager
    def listening(cls, folder: Path) -> Iterator[Self]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(str(folder / "notify"))
            listener.setblocking(False)
            yield cls(listener)

    @property
    def name(self) -> str:
        return str(self.socket.getsockname())

    async def wait_states(self, *states: str) -> None:
        """Return once exactly these states have been sent since the last call."""
        received: list[str] = []

        def all_of_them() -> bool:
            with suppress(BlockingIOError):
                while True:
                    received.append(self.socket.recv(1000).decode().partition("\n")[0])
            return len(received) >= len(states)

        await wait_until(all_of_them)
        assert received == list(states)


@dataclass
class ProcessInstallation:
    """The home of processes, their store as a test reads it, and the chain's faucet.

    `run_command` runs a command to its end.
    """

    home: Path
    store: Store
    control: JsonRpcClient
    node: FaultyNodeProxy
    env: dict[str, str]
    accounts: dict[str, str] = field(default_factory=dict)
    run_command: Callable[..., CommandResult] = run_florin

    @property
    def log(self) -> Path:
        """Return the file with the stderr of all processes."""
        return self.home.with_name("log")

    def start_lasting(
        self, *command: str, program: Sequence[str] = (), **changes: str
    ) -> RunningCommand:
        """Return a command that runs until it is stopped; `program` replaces florin."""
        begin = partial(self._begin, program or [str(FLORIN)])
        return RunningCommand(*command, home=self.home, begin=begin, **{**self.env, **changes})

    def _begin(
        self, program: Sequence[str], *command: str, home: Path, **changes: str
    ) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [*program, *command],
                cwd=home.parent,
                env=make_environment(home, changes),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def count(self, line: str) -> int:
        """Count the log lines with a text."""
        return self.log.read_text().count(line)

    async def wait_logged(self, line: str, times: int) -> None:
        """Return once a text was logged so often; processes take time to start."""
        await wait_until(lambda: self.count(line) >= times, patience_s=2 * PATIENCE_S)

    def rest(self, session: aiohttp.ClientSession) -> RestApi:
        """Return a REST client of the process that announced itself."""
        result = StateFolder(self.home).find_addresses()
        assert result is not None
        return RestApi(session, result["http"], self.accounts)

    @property
    def grpc(self) -> str:
        result = StateFolder(self.home).find_addresses()
        assert result is not None
        return str(result["grpc"])

    async def create_wallet(self) -> EvmTestWallet:
        """Return a wallet with tokens."""
        wallet = EvmTestWallet(CHAIN)
        await self.give(wallet.address, native=0, units=10**9)
        return wallet

    async def give(self, address: str, *, native: int, units: int) -> None:
        purse = {"nativeWei": hex(native), "tokenUnits": hex(units)}
        await self.control.call("florin_faucet", {"accounts": [address], **purse})

    async def pay(self, api: RestApi, wallet: EvmTestWallet | None = None) -> str:
        """Return the id of a payment that a wallet has confirmed."""
        wallet = wallet or await self.create_wallet()
        payment_id: str = (await api.create(ORDER))["paymentId"]
        (option,) = (await api.options(payment_id, [wallet.account]))["options"]
        await api.confirm(payment_id, option["id"], wallet.execute_all(option))
        return payment_id

    async def final(self, api: RestApi, payment_id: str) -> str:
        """Return how a payment ended, read from its stream."""
        states = [state async for state in api.watch(payment_id)]
        return str(states[-1]["status"])

    async def status(self, payment_id: str) -> str:
        payment = await self.store.payments.find(payment_id)
        return "" if payment is None else str(payment.status)

    async def owners(self) -> set[str]:
        """Return the owners of the current leases."""
        rows = await postgres.list_rows(self.env["FLORIN_STORE"], "SELECT owner FROM lease")
        return {owner for (owner,) in rows if owner}


@asynccontextmanager
async def open_installation(folder: Path) -> AsyncIterator[ProcessInstallation]:
    home, database = folder / "home", postgres.get_database(folder)
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    store = await open_store(database)
    try:
        async with FaultyNodeProxy(chain.handle) as node:
            control = JsonRpcClient(LocalTransport(chain.handle))
            installation_secrets = StateFolder(home).open().get_or_create_secrets()
            keystore = home / "treasury.json"
            made_of = Account.encrypt(b"\xfe" * 32, _PASSWORD, kdf="pbkdf2", iterations=10)
            replace_private_file(keystore, json.dumps(made_of)).close()
            settled = make_own_chain(
                node.url,
                poll_ms=100,
                confirmations=1,
                treasury=TREASURY.address,
                treasury_keystore=keystore,
            )
            env = _make_environment(settled, database.dsn)
            installation = ProcessInstallation(home, store, control, node, env)
            for signer in (EvmSigner(installation_secrets.relayer_key), TREASURY):
                await installation.give(signer.address, native=10**20, units=0)
            installation.accounts = await create_accounts(home, store)
            yield installation
    finally:
        await store.close()
        await chain.close()
        await postgres.drop_database(folder)


async def create_accounts(home: Path, store: Store) -> dict[str, str]:
    """Create a partner with a merchant, and a wallet; return what callers need of them."""
    core = build_core(make_settings(home), store, SystemClock(), ())
    accounts = demo.build(
        build_app(core), StateFolder(home).open().get_or_create_secrets().pepper, {}
    )
    await store.write(demo.put(accounts))
    return {
        "FLORIN_PARTNER_KEY": accounts.partner_key,
        "FLORIN_MERCHANT_ID": accounts.merchant.id,
        "FLORIN_APP_ID": accounts.wallet.app_id,
        "FLORIN_CLIENT_ID": "client",
    }


def _make_environment(chain: EvmChainSettings, dsn: str) -> dict[str, str]:
    limits = {
        f"FLORIN_LIMITS__{name.upper()}": str(value)
        for name, value in NO_LIMITS.model_dump(exclude_unset=True).items()
    }
    return {
        "FLORIN_STORE": dsn,
        "FLORIN_DEMO": "false",
        "FLORIN_CHAINS": json.dumps([chain.model_dump(mode="json", exclude_unset=True)]),
        "FLORIN_KEYSTORE_PASSWORD": _PASSWORD,
        # connections are renewed soon, so that reloads take seconds
        "FLORIN_GRPC_CONNECTION_S": "1",
        **limits,
    }


def list_children(pid: int) -> list[int]:
    """Return the ids of a process's children."""
    output = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(text) for text in output.split()]


def is_alive(pid: int) -> bool:
    """Return True for a process that has not ended, or whose parent has not waited for it yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def kill_process(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
