"""Wallets that a test injects into a browser: scripts announce them, and the test answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from florin_client.wallet.evm import to_transaction_fields
from playwright.async_api import Page
from solders.transaction import VersionedTransaction

from tests.support.chain import ChainClient
from tests.support.contract_accounts import ContractAccount
from tests.support.solana import SolanaTestWallet
from tests.support.wallet import EvmTestWallet

NAME = "Test purse"
_ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E"
_READS = frozenset({"eth_call", "eth_getBalance", "eth_estimateGas", "eth_gasPrice"})

# EIP-6963, and what of EIP-1193 pages rely on
_EVM = """
const listeners = [];
const request = async (call) => {
  const reply = JSON.parse(await window.requestWallet(JSON.stringify(call)));
  if (reply.error) throw Object.assign(new Error(reply.error.message), reply.error);
  return reply.result;
};
window.purseChanged = () => listeners.forEach((listener) => listener());
const on = (event, listener) => event === "accountsChanged" && listeners.push(listener);
const provider = {request, on};
const info = {uuid: "350670db-19fa-4704-a166-e52e178b59d2", rdns: "example.purse", ...%s};
const detail = Object.freeze({info, provider});
const announce = () => dispatchEvent(new CustomEvent("eip6963:announceProvider", {detail}));
addEventListener("eip6963:requestProvider", announce);
"""
# the Wallet Standard
_SOLANA = """
const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
const account = {address: %s, publicKey: new Uint8Array(32), chains: [], features: []};
const purse = {version: "1.0.0", ...%s, chains: [], accounts: [], features: {
  "standard:connect": {version: "1.0.0", connect: async () => {
    purse.accounts = [account];
    return {accounts: purse.accounts};
  }},
  "solana:signTransaction": {version: "1.0.0", signTransaction: async ({transaction}) => {
    const request = btoa(String.fromCharCode(...transaction));
    const reply = JSON.parse(await window.requestWallet(request));
    if (reply.error) throw new Error(reply.error);
    return [{signedTransaction: bytes(reply.result)}];
  }},
}};
const register = (api) => api.register(purse);
dispatchEvent(new CustomEvent("wallet-standard:register-wallet", {detail: register}));
addEventListener("wallet-standard:app-ready", (event) => register(event.detail));
"""


@dataclass
class InjectedEvmWallet:
    """An EVM wallet that records its requests; `refuses` sets an error answer."""

    chain: ChainClient
    wallet: EvmTestWallet | ContractAccountSigner = field(default_factory=EvmTestWallet)
    number: int = 31337
    name: str = NAME
    icon: str = _ICON
    methods: list[str] = field(default_factory=list)
    refuses: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # how it writes the chain's id
    chain_form: Callable[[int], Any] = hex
    # the chains that it knows; None: all
    knows: set[int] | None = None
    # its error for an unknown chain
    unknown: tuple[Any, ...] = (4902, "Unrecognized chain")
    # how often it still reports the previous chain after a switch
    lag: int = 0
    added: list[dict[str, Any]] = field(default_factory=list)
    # the signer that replaces the account that it shows
    signer: EvmTestWallet | None = None
    # it signs once this is set; None: at once
    released: asyncio.Event | None = None
    _before: int | None = None

    def _knows(self, request: dict[str, str]) -> bool:
        return self.knows is None or int(request["chainId"], 16) in self.knows

    async def put_into(self, page: Page) -> None:
        """Make the page find it, from the next load on."""
        await page.expose_function("requestWallet", self._handle_request)
        output = json.dumps({"name": self.name, "icon": self.icon})
        await page.add_init_script(_EVM % output)

    async def _handle_request(self, text: str) -> str:
        request = json.loads(text)
        method, params = request["method"], request.get("params", [])
        self.methods.append(method)
        if method in self.refuses:
            return _format_error(*self.refuses[method])
        if method == "wallet_switchEthereumChain" and not self._knows(params[0]):
            return _format_error(*self.unknown)
        return json.dumps({"result": await self._answer(method, params)})

    async def _answer(self, method: str, params: list[Any]) -> Any:
        if method in {"eth_requestAccounts", "eth_accounts"}:
            return [self.wallet.address]
        if method == "eth_chainId":
            if self._before is not None and self.lag > 0:
                self.lag -= 1
                return self.chain_form(self._before)
            return self.chain_form(self.number)
        if method == "wallet_switchEthereumChain":
            self._before, self.number = self.number, int(params[0]["chainId"], 16)
            return None
        if method == "wallet_addEthereumChain":
            self.added.append(params[0])
            (self.knows or set()).add(int(params[0]["chainId"], 16))
            return None
        if method == "eth_signTypedData_v4":
            if self.released is not None:
                await self.released.wait()
            return (self.signer or self.wallet).sign(json.loads(params[1]))
        if method == "eth_sendTransaction":
            return await self._send(params[0])
        assert method in _READS, method
        return await self.chain.ask(method, *params)

    async def _send(self, call: dict[str, str]) -> str:
        gas = int(await self.chain.ask("eth_estimateGas", call), 16)
        sent = await self.wallet.transact(self.chain, gas=gas, **to_transaction_fields(call))
        return str(sent["transactionHash"])


def _format_error(code: Any, message: str, data: Any = None) -> str:
    return json.dumps({"error": {"code": code, "message": message, "data": data}})


@dataclass
class ContractAccountSigner:
    """An account with code, as its wallet sees it: the code decides which signatures it accepts."""

    address: str
    signs: Callable[[dict[str, Any]], str]

    @property
    def account(self) -> str:
        """Return the account as CAIP-10."""
        return f"eip155:31337:{self.address}"

    def sign(self, typed_data: dict[str, Any]) -> str:
        return self.signs(typed_data)


@dataclass
class InjectedContractWallet(InjectedEvmWallet):
    """A wallet of an account with code.

    Such accounts bundle the requested transaction with others, so that the chain knows no
    transaction with the hash that they return.
    """

    async def _send(self, _call: dict[str, str]) -> str:
        return "0x" + "11" * 32


def make_contract_signer(account: ContractAccount) -> ContractAccountSigner:
    """Return a signer of an account that does not exist yet; signatures say how to create it."""
    return ContractAccountSigner(account.address, account.wrap)


@dataclass
class InjectedSolanaWallet:
    """A Solana wallet; `refuses` is its answer instead of a signed transaction.

    `delay` runs before it answers.
    """

    wallet: SolanaTestWallet = field(default_factory=SolanaTestWallet)
    refuses: str = ""
    delay: Callable[[], Awaitable[Any]] | None = None

    async def put_into(self, page: Page) -> None:
        """Make the page find it, from the next load on."""
        await page.expose_function("requestWallet", self._handle_request)
        output = json.dumps({"name": NAME, "icon": _ICON})
        await page.add_init_script(_SOLANA % (json.dumps(self.wallet.address), output))

    async def _handle_request(self, text: str) -> str:
        if self.refuses:
            return json.dumps({"error": self.refuses})
        if self.delay is not None:
            await self.delay()
        versioned_transaction = VersionedTransaction.from_bytes(base64.b64decode(text))
        return json.dumps({"result": self.wallet.sign(versioned_transaction)})
