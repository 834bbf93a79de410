"""Shared by the notebooks: a Florin to call, wallets, days of payments, tables of data.

Walk-throughs start with `start()`, analyses with `load()`. Both use their own Florin, unless the
environment names another:

- FLORIN_TARGET, the `host:port` of its gRPC, with FLORIN_PARTNER_KEY and FLORIN_MERCHANT_ID of a
  merchant there (and other variables of demo.env that a notebook needs: FLORIN_APP_ID,
  FLORIN_CLIENT_ID and FLORIN_BASE_URL); or, for analyses, its state folder, which is only read.
- FLORIN_GRPC_TARGET, as in `demo.env`: the sandbox that `florin lab` runs.

`simulate()` is like `start()`, on its own Florin that merchants and buyers have used for days.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
from florin_client import AsyncClient, FlorinError, Retries
from florin_client.aio import AsyncAdmin, AsyncGateway, AsyncMerchant
from florin_client.wallet import Wallet
from google.protobuf.message import Message
from target import Env, LabError, check_merchant, is_here, named, refusal, refuse

__all__ = ["Answer", "Lab", "LabError", "refuse", "simulate", "start", "units"]
_ONCE = Retries(patience_s=0)  # fail at once if the given Florin does not respond


@dataclass(frozen=True)
class Answer:
    """A response of the REST API."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def __str__(self) -> str:
        return f"{self.status} {json.dumps(self.body, indent=2, ensure_ascii=False)}"


@dataclass
class Lab:
    """A Florin and everything needed to use it, as a merchant and as a wallet.

    `env` has the variables of demo.env, as far as the environment sets them, and reports missing
    ones.
    """

    env: Env
    gateway: AsyncGateway
    merchant: AsyncMerchant
    admin: AsyncAdmin
    _session: aiohttp.ClientSession
    _stack: AsyncExitStack = field(repr=False)
    report: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def headers(self, who: str) -> dict[str, str]:
        """Return the REST credentials of a `merchant`, a `wallet` or `anonymous`."""
        if who == "merchant":
            names = {"Api-Key": "FLORIN_PARTNER_KEY", "Merchant-Id": "FLORIN_MERCHANT_ID"}
        elif who == "wallet":
            names = {"App-Id": "FLORIN_APP_ID", "Client-Id": "FLORIN_CLIENT_ID"}
        elif who == "anonymous":
            names = {}
        else:
            raise ValueError(f"who must be merchant, wallet or anonymous, not {who}")
        return {header: self.env[name] for header, name in names.items()}

    async def rest(
        self,
        who: str,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Make one call of the REST API; return error responses too."""
        url = self.env["FLORIN_BASE_URL"] + path
        sent = {**self.headers(who), **(headers or {})}
        async with self._session.request(method, url, json=body, headers=sent) as answer:
            text = await answer.text()
            content = json.loads(text) if answer.content_type == "application/json" else text
            return Answer(answer.status, answer.headers, content)

    async def events(self, who: str, path: str) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events of a REST stream, each with its name and content."""
        name = ""
        url = self.env["FLORIN_BASE_URL"] + path
        async with self._session.get(url, headers=self.headers(who)) as stream:
            async for line in stream.content:
                kind, _, value = line.decode().rstrip().partition(": ")
                if kind == "event":
                    name = value
                elif kind == "data":
                    yield name, json.loads(value)

    def wallet(self) -> Wallet:
        """Return a wallet with new keys, which the sandbox funds when it requests options."""
        names = (("EVM_CHAIN", "EVM_RPC_URL"), ("SOLANA_CHAIN", "SOLANA_RPC_URL"))
        urls = {
            self.env[f"FLORIN_{chain}"]: self.env[f"FLORIN_{url}"]
            for chain, url in names
            if f"FLORIN_{url}" in self.env
        }
        return Wallet.create(rpc_urls=urls)

    async def pay(self, payment_id: str, wallet: Wallet, chain: str = "", asset: str = "") -> Any:
        """Pay with the first option on a chain (default: EVM) and asset (default: any).

        Return the final status.
        """
        account = wallet.account(chain or self.env["FLORIN_EVM_CHAIN"])
        offered = await self.gateway.get_payment_options(payment_id, accounts=[account])
        options = [option for option in offered.options if asset in option.amount.unit]
        if not options:
            raise LabError(f"{account} has no option to pay {payment_id}")
        actions = await self.gateway.executable_actions(payment_id, options[0])
        # wallets wait for chains in a thread, so that streams continue
        outputs = await asyncio.to_thread(wallet.execute, actions, option=options[0])
        await self.gateway.confirm_payment(payment_id, option_id=options[0].id, outputs=outputs)
        return await self.merchant.wait_final(payment_id, timeout=60)

    async def chain(self, method: str, *params: Any, solana: bool = False) -> Any:
        """Call the EVM chain, or Solana, by JSON-RPC."""
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        url = self.env["FLORIN_SOLANA_RPC_URL" if solana else "FLORIN_EVM_RPC_URL"]
        async with self._session.post(url, json=question) as answer:
            content = await answer.json()
        if "error" in content:
            raise RuntimeError(content["error"])
        return content["result"]

    def line(self) -> tuple[str, int]:
        """Return host and port of gRPC, to connect a relay; raise LabError if it is encrypted."""
        host, _, port = self.env["FLORIN_GRPC_TARGET"].rpartition(":")
        if not is_here(host):
            raise LabError(f"the connection to {host} is encrypted: use a Florin on this machine")
        return host.strip("[]"), int(port)

    async def balance(self, address: str, token: str = "") -> int:
        """Return the balance of an address in minor units of a token, read from the chain."""
        token = token or self.env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(await self.chain("eth_call", {"to": token, "data": data}, "latest"), 16)

    async def operator(self, request: Message) -> Any:
        """Return the response to an operator's request, if this Florin's state folder is known."""
        from florin_server.app.home import StateFolder
        from florin_server.app.operator.client import open_operator
        from florin_server.settings import Settings

        if "FLORIN_HOME" not in self.env:
            raise LabError("the operator's calls need FLORIN_HOME, the state folder of this Florin")
        settings = Settings(home=Path(self.env["FLORIN_HOME"]))
        async with open_operator(
            StateFolder(settings.home), lambda: settings, running_only=True
        ) as desk:
            return await desk.call(type(request).__name__.removesuffix("Request"), request)

    async def close(self) -> None:
        """Close connections, and Florin if it was started here."""
        await self._stack.aclose()


async def start(
    *, writes: bool = True, own: bool = False, beside: bool = False, **settings: Any
) -> Lab:
    """Return a lab, connected and ready; `settings` are for a Florin that it must start.

    `own` starts a Florin beside that of `florin lab`: for notebooks that need such settings, and
    cannot use a FLORIN_TARGET. `beside` always starts one, for an experiment of an analysis. Raise
    LabError if the environment names a Florin that cannot be used, does not respond, or refuses the
    credentials, or if the notebook `writes` and the key is a live key.
    """
    stack = AsyncExitStack()
    try:
        if own:
            refuse()
        return await _start(stack, settings, writes=writes, new=own or beside)
    except BaseException:
        await stack.aclose()
        raise


async def simulate(seed: int = 7, payments: int = 400, days: int = 7, **config: Any) -> Lab:
    """Return a lab on its own Florin, with days of payments: equal for equal seeds.

    The days start on a Monday. `config` are further options of `florin simulate`. The simulated
    days are cached, and this Florin works on a copy. Raise LabError with the reason if they are
    impossible.
    """
    from data import simulated

    stack = AsyncExitStack()
    try:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "home"
        shutil.copytree(await asyncio.to_thread(simulated, seed, payments, days, **config), home)
        env = await _served(home, stack, {})
        return await _connected(env, stack)
    except BaseException:
        await stack.aclose()
        raise


async def _start(
    stack: AsyncExitStack, settings: Mapping[str, Any], *, writes: bool, new: bool
) -> Lab:
    env = None if new else named()
    if env is None:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        env = await _served(home, stack, settings)
    check_merchant(env, writes=writes)
    return await _connected(env, stack)


async def _connected(env: Env, stack: AsyncExitStack) -> Lab:
    target = env["FLORIN_GRPC_TARGET"]
    where: dict[str, Any] = {"target": target, "plaintext": is_here(target)}
    shop = {"api_key": env["FLORIN_PARTNER_KEY"], "merchant_id": env["FLORIN_MERCHANT_ID"]}
    app = {"app_id": env.get("FLORIN_APP_ID", "-"), "client_id": env.get("FLORIN_CLIENT_ID", "-")}
    try:
        async with AsyncClient(**where, **shop, retries=_ONCE) as first:
            async for _ in first.merchant.list_merchant_payments(limit=1):
                break
        merchant = await stack.enter_async_context(AsyncClient(**where, **shop))
        wallet = await stack.enter_async_context(AsyncClient(**where, **app))
    except ValueError as error:
        raise LabError(f"the credentials in the environment are invalid: {error}") from None
    except FlorinError as error:
        raise refusal(target, error) from None
    session = await stack.enter_async_context(aiohttp.ClientSession())
    return Lab(env, wallet.gateway, merchant.merchant, merchant.admin, session, stack)


async def _served(home: Path, stack: AsyncExitStack, settings: Mapping[str, Any]) -> Env:
    # imported here: a notebook with a remote Florin needs no server
    from florin_sandbox.demo_accounts import ensure_demo_accounts
    from florin_server.app.service import FlorinService
    from florin_server.settings import Settings

    service = await FlorinService.start(Settings(home=home, http_port=0, grpc_port=0, **settings))
    stack.push_async_callback(service.stop)
    await ensure_demo_accounts(service)
    listens = {"operator": service.grpc.operator_target}
    stack.enter_context(service.home.announce(listens))
    return Env({**service.home.read_demo_env(), "FLORIN_HOME": str(home)})


def units(amount_minor: int | str, decimals: int) -> Decimal:
    """Return minor units as whole units, exactly: amounts of 256 bits do not fit in a float."""
    return Decimal(int(amount_minor)).scaleb(-decimals)
