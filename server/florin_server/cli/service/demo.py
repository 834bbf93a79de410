"""`florin demo`: one payment, driven from outside as a merchant and a wallet would drive it.

Nothing here reaches into the service: it speaks public REST, and reads balances from the chain.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvloop
from florin_client.wallet import Wallet, WalletError
from rich.markup import escape
from rich.table import Table

from florin_server.boot.home import Home
from florin_server.cli.console import console, fail, told_line
from florin_server.cli.settings import settings_of

DEMO_OFF = (
    "embedded chains and test accounts are off here, as there is a live chain or FLORIN_DEMO says "
    "so; another home (--home) has its own"
)
_FAILED = "The demo failed"
_PRICE = {"unit": "iso4217/USD", "value": "1250"}
_BALANCE_OF = "0x70a08231"
# far above what the embedded chain takes; only a broken installation gets here
_PATIENCE_S = 60


class DemoFailed(Exception):  # noqa: N818  (an outcome, told to whoever ran the demo)
    """The payment did not come through; the text says where it stopped."""


def has_service(given: dict[str, Any]) -> bool:
    """True if a service runs on the state folder; ends the program where there is no demo."""
    settings = settings_of(given)
    if not settings.has_demo:
        fail(_FAILED, DEMO_OFF)
    return Home(settings.home).addresses() is not None


def run(given: dict[str, Any]) -> None:
    """Runs the demo against the service that runs."""
    home = Home(settings_of(given).home)
    if not has_service(given):
        fail(_FAILED, f"no Florin runs with its state in {home.path}; start one: florin up")
    uvloop.run(pay(home.read_demo_env()))


async def pay(env: dict[str, str]) -> None:
    """One payment, with the credentials of demo.env; ends the program if it fails."""
    try:
        await _pay(env)
    except (DemoFailed, WalletError, aiohttp.ClientError, TimeoutError) as error:
        fail(_FAILED, str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class _Api:
    """Public REST calls with one set of credentials, each shown in short."""

    session: aiohttp.ClientSession
    base: str
    who: str
    headers: dict[str, str]

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        console.print(f"[bold cyan]{self.who}[/]  {method} {escape(path)}", markup=True)
        if body is not None:
            console.print(f"    → {_short(body)}")
        async with self.session.request(
            method, self.base + path, json=body, headers=self.headers
        ) as answer:
            content = await answer.json()
            call = {"who": self.who.strip(), "method": method, "path": path}
            told_line({**call, "status": answer.status, "body": content})
            console.print(f"    ← {answer.status} {_short(content)}")
            if answer.status >= 400:
                raise DemoFailed(f"{path} answered {content['code']}: {content['message']}")
            return content

    async def states(self, path: str) -> None:
        """Prints the payment's states as they come."""
        async with self.session.get(self.base + path, headers=self.headers) as stream:
            async for line in stream.content:
                if line.startswith(b"data:"):
                    state = json.loads(line[5:])
                    told_line({"who": "stream", "state": state})
                    console.print(
                        f"[magenta]stream[/]    version {int(state['version'])}: "
                        f"[bold]{escape(state['status'])}[/]",
                        markup=True,
                    )


def _short(value: Any) -> str:
    """JSON on one line, long texts cut in the middle."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_short(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_short, value)) + "]"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 72 else f"{text[:44]}…{text[-12:]}"


class _Chain:
    """Balances, asked of the chain itself."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url
        self._token = token

    async def balance(self, address: str) -> int:
        call = {"to": self._token, "data": _BALANCE_OF + address[2:].lower().rjust(64, "0")}
        question = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [call, "latest"]}
        async with self._session.post(self._url, json=question) as answer:
            result = await answer.json()
        if "result" not in result:
            raise DemoFailed(f"the chain does not tell a balance: {result}")
        return int(result["result"], 16)


async def _pay(env: dict[str, str]) -> None:
    if not env:
        raise DemoFailed("there are no demo accounts: the state folder belongs to somebody else")
    chain_id = env["FLORIN_EVM_CHAIN"]
    wallet = Wallet.create(rpc_urls={chain_id: env["FLORIN_EVM_RPC_URL"]})
    console.rule("One payment, from order to settlement")
    async with (
        asyncio.timeout(_PATIENCE_S),
        aiohttp.ClientSession() as session,
    ):
        keys = {"Api-Key": env["FLORIN_PARTNER_KEY"], "Merchant-Id": env["FLORIN_MERCHANT_ID"]}
        merchant = _Api(session, env["FLORIN_BASE_URL"], "merchant", keys)
        public = {"App-Id": env["FLORIN_APP_ID"], "Client-Id": env["FLORIN_CLIENT_ID"]}
        buyer = _Api(session, env["FLORIN_BASE_URL"], "wallet  ", public)
        token = env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        chain = _Chain(session, env["FLORIN_EVM_RPC_URL"], token)

        payment = await merchant.call(
            "POST", "/v1/payments", {"amount": _PRICE, "referenceId": "order-1001"}
        )
        link = f"/v1/gateway/payment/{payment['paymentId']}"
        accounts = wallet.accounts(chain_id)
        offered = await buyer.call("POST", f"{link}/options", {"accounts": accounts})
        if not offered["options"]:
            raise DemoFailed("the wallet has no option")
        option = offered["options"][0]
        receiver = env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]
        holders = {"buyer": wallet.evm.address, "merchant": receiver}
        before = {who: await chain.balance(address) for who, address in holders.items()}

        stream = asyncio.create_task(merchant.states(f"/v1/payments/{payment['paymentId']}/events"))
        console.print("[bold cyan]wallet  [/]  signs the authorization", markup=True)
        outputs = await asyncio.to_thread(wallet.execute, option["actions"], option=option)
        results = [{"type": "walletRpc", "data": [output]} for output in outputs]
        await buyer.call("POST", f"{link}/confirm", {"optionId": option["id"], "results": results})
        await stream
        status = await merchant.call(
            "GET", f"/v1/payments/{payment['paymentId']}/status?maxPollMs=25000"
        )
        after = {who: await chain.balance(address) for who, address in holders.items()}
    _report(status, option["amount"], before, after)


def _report(
    status: dict[str, Any], amount: dict[str, Any], before: dict[str, int], after: dict[str, int]
) -> None:
    if status["status"] != "succeeded":
        raise DemoFailed(f"the payment is {status['status']}")
    display, paid = amount["display"], int(amount["value"])

    def units(value: int) -> str:
        scale = 10 ** display["decimals"]
        return f"{value // scale}.{value % scale:0{display['decimals']}d} {display['assetSymbol']}"

    table = Table("", "before", "after", title="Balances, read from the chain")
    for who, balance in before.items():
        table.add_row(who, units(balance), units(after[who]))
    console.print(table)
    moved = before["buyer"] - after["buyer"], after["merchant"] - before["merchant"]
    if moved != (paid, paid):
        raise DemoFailed(f"{paid} should have moved, but the balances say {moved}")
    told_line({"status": status["status"], "txId": status["info"]["txId"]})
    tx_id = escape(status["info"]["txId"])
    console.print(f"[bold green]succeeded[/]  transaction {tx_id}", markup=True)
