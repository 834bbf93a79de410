"""`florin demo`: make one payment from the outside, as a merchant and as a wallet.

Uses only the public REST API, and reads balances from the chain.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvloop
from florin_client.wallet import Wallet, WalletError
from florin_server.app.home import StateFolder
from florin_server.cli.console import console, fail, print_json_line
from florin_server.cli.settings import get_settings
from rich.markup import escape
from rich.table import Table

DEMO_DISABLED = (
    "embedded chains and test accounts are off, because of a live chain or FLORIN_DEMO: use "
    "another state folder (--home)"
)
_FAILED = "The demo failed"
_PRICE = {"unit": "iso4217/USD", "value": "1250"}
_BALANCE_OF = "0x70a08231"
# far longer than the embedded chain needs; only a broken installation reaches it
_TIMEOUT_S = 60


class DemoFailed(Exception):  # noqa: N818  (an outcome that the command reports)
    """The payment failed; the text says at which step."""


def is_service_running(overrides: dict[str, Any]) -> bool:
    """Return True if a service runs on the state folder; end the program if the demo is off."""
    settings = get_settings(overrides)
    if not settings.has_demo:
        fail(_FAILED, DEMO_DISABLED)
    return StateFolder(settings.home).find_addresses() is not None


def run_demo(overrides: dict[str, Any]) -> None:
    """Run the demo against the running service."""
    home = StateFolder(get_settings(overrides).home)
    if not is_service_running(overrides):
        fail(_FAILED, f"no Florin runs with its state in {home.path}: run `florin up`")
    uvloop.run(run_payment(home.read_demo_env()))


async def run_payment(env: dict[str, str]) -> None:
    """Make one payment with the credentials of demo.env; end the program if it fails."""
    try:
        await _run_payment(env)
    except (DemoFailed, WalletError, aiohttp.ClientError, TimeoutError) as error:
        fail(_FAILED, str(error) or type(error).__name__)


@dataclass(frozen=True, slots=True)
class _DemoApi:
    """Public REST calls with one set of credentials; prints each call in short."""

    session: aiohttp.ClientSession
    base_url: str
    caller: str
    headers: dict[str, str]

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        console.print(f"[bold cyan]{self.caller}[/]  {method} {escape(path)}", markup=True)
        if body is not None:
            console.print(f"    → {_format_short(body)}")
        async with self.session.request(
            method, self.base_url + path, json=body, headers=self.headers
        ) as answer:
            content = await answer.json()
            call = {"who": self.caller.strip(), "method": method, "path": path}
            print_json_line({**call, "status": answer.status, "body": content})
            console.print(f"    ← {answer.status} {_format_short(content)}")
            if answer.status >= 400:
                raise DemoFailed(f"{path} returned {content['code']}: {content['message']}")
            return content

    async def print_states(self, path: str) -> None:
        """Print the states of the payment as they arrive."""
        async with self.session.get(self.base_url + path, headers=self.headers) as stream:
            async for line in stream.content:
                if line.startswith(b"data:"):
                    state = json.loads(line[5:])
                    print_json_line({"who": "stream", "state": state})
                    console.print(
                        f"[magenta]stream[/]    version {int(state['version'])}: "
                        f"[bold]{escape(state['status'])}[/]",
                        markup=True,
                    )


def _format_short(value: Any) -> str:
    """Format JSON on one line, with long texts cut in the middle."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_format_short(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_short, value)) + "]"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 72 else f"{text[:44]}…{text[-12:]}"


class _DemoChain:
    """Balances of one token, read from the chain itself."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url
        self._token = token

    async def read_balance(self, address: str) -> int:
        call = {"to": self._token, "data": _BALANCE_OF + address[2:].lower().rjust(64, "0")}
        question = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [call, "latest"]}
        async with self._session.post(self._url, json=question) as answer:
            result = await answer.json()
        if "result" not in result:
            raise DemoFailed(f"the chain returned no balance: {result}")
        return int(result["result"], 16)


async def _run_payment(env: dict[str, str]) -> None:
    if not env:
        raise DemoFailed(
            "the state folder has no demo.env, because it has accounts of its own: use another one "
            "(--home)"
        )
    chain_id = env["FLORIN_EVM_CHAIN"]
    wallet = Wallet.create(rpc_urls={chain_id: env["FLORIN_EVM_RPC_URL"]})
    console.rule("One payment, from order to settlement")
    async with (
        asyncio.timeout(_TIMEOUT_S),
        aiohttp.ClientSession() as session,
    ):
        keys = {"Api-Key": env["FLORIN_PARTNER_KEY"], "Merchant-Id": env["FLORIN_MERCHANT_ID"]}
        merchant = _DemoApi(session, env["FLORIN_BASE_URL"], "merchant", keys)
        public = {"App-Id": env["FLORIN_APP_ID"], "Client-Id": env["FLORIN_CLIENT_ID"]}
        buyer = _DemoApi(session, env["FLORIN_BASE_URL"], "wallet  ", public)
        token = env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        chain = _DemoChain(session, env["FLORIN_EVM_RPC_URL"], token)

        payment = await merchant.call(
            "POST", "/v1/payments", {"amount": _PRICE, "referenceId": "order-1001"}
        )
        link = f"/v1/gateway/payment/{payment['paymentId']}"
        accounts = wallet.accounts(chain_id)
        offered = await buyer.call("POST", f"{link}/options", {"accounts": accounts})
        if not offered["options"]:
            raise DemoFailed("the payment has no option for the wallet")
        option = offered["options"][0]
        receiver = env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]
        holders = {"buyer": wallet.evm.address, "merchant": receiver}
        before = {who: await chain.read_balance(address) for who, address in holders.items()}

        stream = asyncio.create_task(
            merchant.print_states(f"/v1/payments/{payment['paymentId']}/events")
        )
        console.print("[bold cyan]wallet  [/]  signs the authorization", markup=True)
        outputs = await asyncio.to_thread(wallet.execute, option["actions"], option=option)
        results = [{"type": "walletRpc", "data": [output]} for output in outputs]
        await buyer.call("POST", f"{link}/confirm", {"optionId": option["id"], "results": results})
        await stream
        status = await merchant.call(
            "GET", f"/v1/payments/{payment['paymentId']}/status?maxPollMs=25000"
        )
        after = {who: await chain.read_balance(address) for who, address in holders.items()}
    _print_report(status, option["amount"], before, after)


def _print_report(
    status: dict[str, Any],
    amount: dict[str, Any],
    balances_before: dict[str, int],
    balances_after: dict[str, int],
) -> None:
    if status["status"] != "succeeded":
        raise DemoFailed(f"the payment is {status['status']}")
    display, paid = amount["display"], int(amount["value"])

    def units(value: int) -> str:
        scale = 10 ** display["decimals"]
        return f"{value // scale}.{value % scale:0{display['decimals']}d} {display['assetSymbol']}"

    table = Table("", "before", "after", title="Balances, read from the chain")
    for who, balance in balances_before.items():
        table.add_row(who, units(balance), units(balances_after[who]))
    console.print(table)
    moved = (
        balances_before["buyer"] - balances_after["buyer"],
        balances_after["merchant"] - balances_before["merchant"],
    )
    if moved != (paid, paid):
        raise DemoFailed(f"expected {paid} to move, but the balances changed by {moved}")
    print_json_line({"status": status["status"], "txId": status["info"]["txId"]})
    tx_id = escape(status["info"]["txId"])
    console.print(f"[bold green]succeeded[/]  transaction {tx_id}", markup=True)
