"""An installation for services in processes of their own: its database, accounts and chain."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import aiohttp
from eth_account import Account
from florin_server.boot.app import app_of, core_of
from florin_server.boot.home import Home, private
from florin_server.clock import SystemClock
from florin_server.devnet.evm import EvmDevChain, EvmDevSettings
from florin_server.flows.accounts import demo
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.store.engine.opening import open_store
from florin_server.store.engine.store import Store

from tests.support import postgres
from tests.support.api import RestApi
from tests.support.command import FLORIN, PATIENCE_S, Lasting, environment
from tests.support.desk import ORDER
from tests.support.own_chain import CHAIN, CHAIN_ID, own_chain
from tests.support.proxy import FaultyProxy
from tests.support.service import NO_LIMITS, settings
from tests.support.until import until
from tests.support.wallet import Wallet

TREASURY = Signer(b"\xfe" * 32)
_PASSWORD = "of the treasury"


@dataclass
class Systemd:
    """What systemd would hear of a service."""

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

    async def hears(self, *states: str) -> None:
        """Returns once it was told just these states since it was asked last."""
        heard: list[str] = []

        def all_of_them() -> bool:
            with suppress(BlockingIOError):
                while True:
                    heard.append(self.socket.recv(1000).decode().partition("\n")[0])
            return len(heard) >= len(states)

        await until(all_of_them)
        assert heard == list(states)


@dataclass
class Installation:
    """A home that no process has yet, its store as a test looks at it, and the chain's faucet."""

    home: Path
    store: Store
    control: JsonRpc
    node: FaultyProxy
    env: dict[str, str]
    accounts: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """What all of them wrote to stderr."""
        return self.home.with_name("log")

    def lasting(self, *command: str, program: Sequence[str] = (), **changes: str) -> Lasting:
        """A command that lasts; of another `program` than florin, if it is told."""
        begin = partial(self._begin, program or [str(FLORIN)])
        return Lasting(*command, home=self.home, begin=begin, **{**self.env, **changes})

    def _begin(
        self, program: Sequence[str], *command: str, home: Path, **changes: str
    ) -> subprocess.Popen[str]:
        with self.log.open("a") as log:
            return subprocess.Popen(
                [*program, *command],
                cwd=home.parent,
                env=environment(home, changes),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def count(self, line: str) -> int:
        """How often something was logged."""
        return self.log.read_text().count(line)

    async def logged(self, line: str, times: int) -> None:
        """Returns once it was logged so often; starts of processes take their time."""
        await until(lambda: self.count(line) >= times, patience_s=2 * PATIENCE_S)

    def rest(self, session: aiohttp.ClientSession) -> RestApi:
        """At whoever announced itself."""
        found = Home(self.home).addresses()
        assert found is not None
        return RestApi(session, found["http"], self.accounts)

    @property
    def grpc(self) -> str:
        found = Home(self.home).addresses()
        assert found is not None
        return str(found["grpc"])

    async def purse(self) -> Wallet:
        """A wallet with tokens."""
        wallet = Wallet(CHAIN)
        await self.give(wallet.address, native=0, units=10**9)
        return wallet

    async def give(self, address: str, *, native: int, units: int) -> None:
        purse = {"nativeWei": hex(native), "tokenUnits": hex(units)}
        await self.control.call("florin_faucet", {"accounts": [address], **purse})

    async def pay(self, api: RestApi, wallet: Wallet | None = None) -> str:
        """A payment that a wallet has confirmed."""
        wallet = wallet or await self.purse()
        payment_id: str = (await api.create(ORDER))["paymentId"]
        (option,) = (await api.options(payment_id, [wallet.account]))["options"]
        await api.confirm(payment_id, option["id"], wallet.execute_all(option))
        return payment_id

    async def final(self, api: RestApi, payment_id: str) -> str:
        """How a payment ended, as its stream tells it."""
        states = [state async for state in api.watch(payment_id)]
        return str(states[-1]["status"])

    async def status(self, payment_id: str) -> str:
        found = await self.store.reader.payment(payment_id)
        return "" if found is None else str(found.status)

    async def owners(self) -> set[str]:
        """Who has leases now."""
        found = await postgres.rows(self.env["FLORIN_STORE"], "SELECT owner FROM lease")
        return {owner for (owner,) in found if owner}


@asynccontextmanager
async def installed(folder: Path) -> AsyncIterator[Installation]:
    home, database = folder / "home", postgres.of(folder)
    chain = await EvmDevChain.open(None, EvmDevSettings(chain_id=CHAIN_ID))
    store = await open_store(database)
    try:
        async with FaultyProxy(chain.handle) as node:
            control = JsonRpc(LocalTransport(chain.handle))
            kept = Home(home).open().secrets()
            keystore = home / "treasury.json"
            made_of = Account.encrypt(b"\xfe" * 32, _PASSWORD, kdf="pbkdf2", iterations=10)
            private(keystore, json.dumps(made_of)).close()
            settled = own_chain(
                node.url,
                poll_ms=100,
                confirmations=1,
                treasury=TREASURY.address,
                treasury_keystore=keystore,
            )
            env = _environment(settled, database.dsn)
            found = Installation(home, store, control, node, env)
            for one in (Signer(kept.relayer_key), TREASURY):
                await found.give(one.address, native=10**20, units=0)
            found.accounts = await accounts(home, store)
            yield found
    finally:
        await store.close()
        await chain.close()
        await postgres.forget(folder)


async def accounts(home: Path, store: Store) -> dict[str, str]:
    """Makes a partner with a merchant, and a wallet; what callers need of them."""
    core = core_of(settings(home), store, SystemClock(), ())
    made = demo.make(app_of(core), Home(home).open().secrets().pepper, {})
    await store.write(demo.put(made))
    return {
        "FLORIN_PARTNER_KEY": made.partner_key,
        "FLORIN_MERCHANT_ID": made.merchant.id,
        "FLORIN_APP_ID": made.wallet.app_id,
        "FLORIN_CLIENT_ID": "client",
    }


def _environment(chain: EvmChain, dsn: str) -> dict[str, str]:
    limits = {
        f"FLORIN_LIMITS__{name.upper()}": str(value)
        for name, value in NO_LIMITS.model_dump(exclude_unset=True).items()
    }
    return {
        "FLORIN_STORE": dsn,
        "FLORIN_DEMO": "false",
        "FLORIN_CHAINS": json.dumps([chain.model_dump(mode="json", exclude_unset=True)]),
        "FLORIN_KEYSTORE_PASSWORD": _PASSWORD,
        # connections move on soon, so that reloads take seconds
        "FLORIN_GRPC_CONNECTION_S": "1",
        **limits,
    }


def children(pid: int) -> list[int]:
    """Processes that another one has started."""
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(one) for one in told.split()]


def alive(pid: int) -> bool:
    """True for a process that has not ended, or that nobody has asked about since."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
