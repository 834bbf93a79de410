"""What the notebooks share: a Florin to talk to, wallets, days of payments, tables of data.

Walk-throughs begin with `start()`, analyses with `load()`. Both use a Florin of their own, unless
the environment names another one:

- FLORIN_TARGET, the `host:port` of its gRPC, with FLORIN_PARTNER_KEY and FLORIN_MERCHANT_ID of a
  merchant there (and what else of demo.env a notebook asks for, FLORIN_APP_ID, FLORIN_CLIENT_ID and
  FLORIN_BASE_URL say); or, for analyses, its state folder, which is only read.
- FLORIN_GRPC_TARGET, as `demo.env` has it: the sandbox that `florin lab` runs.

`simulate()` is `start()` on a Florin of its own that merchants and buyers have used for days.
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
_ONCE = Retries(patience_s=0)  # who names a Florin that is not there is told so at once


@dataclass(frozen=True)
class Answer:
    """An answer of REST."""

    status: int
    headers: Mapping[str, str]
    body: Any

    def __str__(self) -> str:
        return f"{self.status} {json.dumps(self.body, indent=2, ensure_ascii=False)}"


@dataclass
class Lab:
    """A Florin and everything needed to use it, as a merchant and as a wallet.

    `env` holds what demo.env holds, as far as the environment tells it, and says what is missing.
    """

    env: Env
    gateway: AsyncGateway
    merchant: AsyncMerchant
    admin: AsyncAdmin
    _session: aiohttp.ClientSession
    _stack: AsyncExitStack = field(repr=False)
    report: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def headers(self, who: str) -> dict[str, str]:
        """The credentials of a `merchant`, a `wallet` or `nobody`, as REST wants them."""
        if who == "merchant":
            names = {"Api-Key": "FLORIN_PARTNER_KEY", "Merchant-Id": "FLORIN_MERCHANT_ID"}
        elif who == "wallet":
            names = {"App-Id": "FLORIN_APP_ID", "Client-Id": "FLORIN_CLIENT_ID"}
        elif who == "nobody":
            names = {}
        else:
            raise ValueError(f"who is a merchant, a wallet or nobody, not {who}")
        return {header: self.env[name] for header, name in names.items()}

    async def rest(
        self,
        who: str,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One call of the REST API; answers that refuse are answers too."""
        url = self.env["FLORIN_BASE_URL"] + path
        sent = {**self.headers(who), **(headers or {})}
        async with self._session.request(method, url, json=body, headers=sent) as answer:
            text = await answer.text()
            told = json.loads(text) if answer.content_type == "application/json" else text
            return Answer(answer.status, answer.headers, told)

    async def events(self, who: str, path: str) -> AsyncIterator[tuple[str, Any]]:
        """The events of a stream of REST, each with its name and content."""
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
        """A wallet with new keys, which the sandbox funds when it asks for options."""
        names = (("EVM_CHAIN", "EVM_RPC_URL"), ("SOLANA_CHAIN", "SOLANA_RPC_URL"))
        urls = {
            self.env[f"FLORIN_{chain}"]: self.env[f"FLORIN_{url}"]
            for chain, url in names
            if f"FLORIN_{url}" in self.env
        }
        return Wallet.create(rpc_urls=urls)

    async def pay(self, payment_id: str, wallet: Wallet, chain: str = "", asset: str = "") -> Any:
        """Pays with the first option of a chain (the EVM one) and asset (any); the final status."""
        account = wallet.account(chain or self.env["FLORIN_EVM_CHAIN"])
        offered = await self.gateway.get_payment_options(payment_id, accounts=[account])
        options = [one for one in offered.options if asset in one.amount.unit]
        if not options:
            raise LabError(f"{account} has no option to pay {payment_id}")
        actions = await self.gateway.executable_actions(payment_id, options[0])
        # wallets wait for chains, and streams go on meanwhile
        outputs = await asyncio.to_thread(wallet.execute, actions, option=options[0])
        await self.gateway.confirm_payment(payment_id, option_id=options[0].id, outputs=outputs)
        return await self.merchant.wait_final(payment_id, timeout=60)

    async def chain(self, method: str, *params: Any, solana: bool = False) -> Any:
        """Asks the EVM chain, or Solana, by JSON-RPC."""
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        url = self.env["FLORIN_SOLANA_RPC_URL" if solana else "FLORIN_EVM_RPC_URL"]
        async with self._session.post(url, json=question) as answer:
            content = await answer.json()
        if "error" in content:
            raise RuntimeError(content["error"])
        return content["result"]

    def line(self) -> tuple[str, int]:
        """Host and port of gRPC, to put something between; LabError if that is encrypted."""
        host, _, port = self.env["FLORIN_GRPC_TARGET"].rpartition(":")
        if not is_here(host):
            raise LabError(f"the line to {host} is encrypted: this needs a Florin on this machine")
        return host.strip("[]"), int(port)

    async def balance(self, address: str, token: str = "") -> int:
        """Minor units of a token (the test token) that an address holds, read from the chain."""
        token = token or self.env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(await self.chain("eth_call", {"to": token, "data": data}, "latest"), 16)

    async def operator(self, request: Message) -> Any:
        """The answer to a request of the operator's, where the state folder of this Florin is."""
        from florin_server.boot.home import Home
        from florin_server.boot.operator.client import operator
        from florin_server.config import Settings

        if "FLORIN_HOME" not in self.env:
            raise LabError("the operator's calls need FLORIN_HOME, the state folder of this Florin")
        settings = Settings(home=Path(self.env["FLORIN_HOME"]))
        async with operator(Home(settings.home), lambda: settings, running_only=True) as desk:
            return await desk.ask(type(request).__name__.removesuffix("Request"), request)

    async def close(self) -> None:
        """Ends connections, and Florin if it was started here."""
        await self._stack.aclose()


async def start(
    *, writes: bool = True, own: bool = False, beside: bool = False, **settings: Any
) -> Lab:
    """A lab, connected and ready; `settings` are for a Florin that it has to start.

    With `own` it starts one beside that of `florin lab`: for notebooks that need such settings, and
    cannot use a FLORIN_TARGET; `beside` one, for an experiment of an analysis, it starts it in any
    case. LabError if the environment names a Florin that they cannot use, or that does not answer
    or let anybody in, or if the notebook `writes` and the key is a live one.
    """
    stack = AsyncExitStack()
    try:
        if own:
            refuse()
        return await _start(stack, settings, writes=writes, new=own or beside)
    except BaseException:
        await stack.aclose()
        raise


async def simulate(seed: int = 7, payments: int = 400, days: int = 7, **knobs: Any) -> Lab:
    """A lab on a Florin of its own, with days of payments in it: the same for the same seed.

    They begin on a Monday. Further knobs are the options of `florin simulate`. What was simulated
    is kept, and this Florin works on a copy. LabError, with its sentence, for what cannot be.
    """
    from data import simulated

    stack = AsyncExitStack()
    try:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "home"
        shutil.copytree(await asyncio.to_thread(simulated, seed, payments, days, **knobs), home)
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
        raise LabError(f"the credentials in the environment are none: {error}") from None
    except FlorinError as error:
        raise refusal(target, error) from None
    session = await stack.enter_async_context(aiohttp.ClientSession())
    return Lab(env, wallet.gateway, merchant.merchant, merchant.admin, session, stack)


async def _served(home: Path, stack: AsyncExitStack, settings: Mapping[str, Any]) -> Env:
    # imported here: a notebook that talks to a Florin elsewhere needs no server
    from florin_server.boot.demo_accounts import ensure_demo
    from florin_server.boot.service import Service
    from florin_server.config import Settings

    service = await Service.start(Settings(home=home, http_port=0, grpc_port=0, **settings))
    stack.push_async_callback(service.stop)
    await ensure_demo(service)
    listens = {"operator": service.grpc.operator_target}
    stack.enter_context(service.home.announced(listens))
    return Env({**service.home.read_demo_env(), "FLORIN_HOME": str(home)})


def units(amount_minor: int | str, decimals: int) -> Decimal:
    """Minor units as whole units, exactly: amounts of 256 bits fit in no float."""
    return Decimal(int(amount_minor)).scaleb(-decimals)
