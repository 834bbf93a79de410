"""The target of an audit, and access to its chains."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from florin_server.domain.chains.solana import spl

from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_sandbox.simulation.audit.facts import AuditedStore

EVM: Final = f"eip155:{DEVNET.chain_id}"
USD: Final = f"{EVM}/erc20:{DEVNET.token.address}"
EUR: Final = f"{EVM}/erc20:{DEVNET.euro.address}"
ETHER: Final = f"{EVM}/slip44:60"
TOKENS: Final = {USD: DEVNET.token.address, EUR: DEVNET.euro.address}
MINTS: Final = {
    f"{SOLANA_DEVNET.chain_id}/token:{token.address}": token for token in SOLANA_DEVNET.tokens
}
SOL: Final = f"{SOLANA_DEVNET.chain_id}/slip44:501"


class RpcCaller(Protocol):
    """Calls JSON-RPC of a chain, and returns the result."""

    def __call__(self, method: str, /, *params: Any) -> Awaitable[Any]:
        """Call a method."""


@dataclass(frozen=True, slots=True)
class AuditBaseline:
    """The start of an audit on chains that were used before; by default it covers everything.

    `block` is the last EVM block to skip; `signatures` are the Solana transactions to skip.
    `booked_amounts` are the ledger balances at that time, by account and asset.
    """

    block: int = -1
    signatures: frozenset[str] = frozenset()
    booked_amounts: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditTarget:
    """One installation on embedded chains, or on similar ones.

    EVM addresses can have any case. `merchant_accounts` are the merchants' own addresses on both
    chains.
    """

    store: AuditedStore
    evm: RpcCaller
    solana: RpcCaller
    relayers: tuple[str, ...]
    solana_relayer: str
    treasuries: tuple[str, str]
    merchant_accounts: tuple[str, ...]
    confirmations: int
    baseline: AuditBaseline = field(default_factory=AuditBaseline)

    async def read_balance(self, address: str, asset: str) -> int:
        """Return the balance of an address in minor units, read from its chain."""
        if asset in MINTS:
            return await self._read_token_balance(address, asset)
        if asset == ETHER:
            return int(await self.evm("eth_getBalance", address, "latest"), 16)
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(await self.evm("eth_call", {"to": TOKENS[asset], "data": data}, "latest"), 16)

    async def _read_token_balance(self, owner: str, asset: str) -> int:
        mint = MINTS[asset]
        program = spl.parse_pubkey(mint.program)
        place = spl.derive_associated_address(
            spl.parse_pubkey(owner), spl.parse_pubkey(mint.address), program
        )
        account = (await self.solana("getAccountInfo", str(place)))["value"]
        if account is None:
            return 0
        held = spl.parse_token_account(base64.b64decode(account["data"][0]))
        return held.amount if held is not None else 0
