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
from tests.support.contract_accounts import BATCHES, ContractAccount, encode_batch
from tests.support.solana import SolanaTestWallet
from tests.support.wallet import EvmTestWallet

NAME = "Test purse"
_ICON = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg'/%3E"
# of EIP-5792: never sent, reverted
_NOT_CARRIED_OUT = frozenset({400, 500})
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


@dataclass
class InjectedBundlingWallet(InjectedEvmWallet):
    """A wallet of an account of `BATCHES` that sends several calls together (EIP-5792)."""

    # its answer about chains; None: it never answers
    capabilities: Any = field(
        default_factory=lambda: {"0x7a69": {"atomic": {"status": "supported"}}}
    )
    bundles: list[dict[str, Any]] = field(default_factory=list)
    # how often it reports that a bundle is under way
    pending: int = 1
    # the status that it reports in the end
    status: Any = 200
    # the hash that it reports instead of the bundle's
    reported_hash: str | None = None
    # it sends what it was asked to
    sends: bool = True
    # it answers as the first version of the standard
    is_old: bool = False
    _sent_hashes: list[str] = field(default_factory=list)

    @classmethod
    async def open(
        cls, chain: ChainClient, code: str = BATCHES, **changes: Any
    ) -> InjectedBundlingWallet:
        """Return a wallet whose account has the code, tokens and coin."""
        purse = cls(chain, **changes)
        assert isinstance(purse.wallet, EvmTestWallet)
        await chain.fund(purse.wallet.address)
        contract = await purse.wallet.deploy(chain, bytes.fromhex(code))
        await purse.wallet.delegate(chain, contract.rpartition(":")[2])
        return purse

    async def _answer(self, method: str, params: list[Any]) -> Any:
        if method == "wallet_getCapabilities":
            assert params == [self.wallet.address, ["0x7a69"]]
            if self.capabilities is None:
                await asyncio.Event().wait()
            return self.capabilities
        if method == "wallet_sendCalls":
            if self.released is not None:
                await self.released.wait()
            (bundle,) = params
            self.bundles.append(bundle)
            await self._send_bundle(bundle["calls"])
            bundle_id = f"0xb0{len(self._sent_hashes)}"
            return bundle_id if self.is_old else {"id": bundle_id}
        if method == "wallet_getCallsStatus":
            assert params == [f"0xb0{len(self._sent_hashes)}"]
            return self._report_status()
        return await super()._answer(method, params)

    async def _send_bundle(self, calls: list[dict[str, str]]) -> None:
        """Make the calls in one transaction of the account to itself."""
        if not self.sends or self.status in _NOT_CARRIED_OUT:
            self._sent_hashes.append("0x" + "55" * 32)
            return
        assert isinstance(self.wallet, EvmTestWallet)
        address = bytes.fromhex(self.wallet.address[2:])
        data = encode_batch(calls)
        sent = await self.wallet.transact(self.chain, gas=500_000, to=address, value=0, data=data)
        self._sent_hashes.append(str(sent["transactionHash"]))

    def _report_status(self) -> dict[str, Any]:
        if self.pending > 0:
            self.pending -= 1
            return {"status": "PENDING" if self.is_old else 100}
        tx_hash = self.reported_hash or self._sent_hashes[-1]
        receipts = [{"status": "0x1", "transactionHash": tx_hash}]
        return {"status": "CONFIRMED" if self.is_old else self.status, "receipts": receipts}


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
