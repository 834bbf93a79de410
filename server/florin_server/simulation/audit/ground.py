"""What is judged, and how chains are asked."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from florin_server.chains.solana import spl
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.solana import SOLNET

EVM: Final = f"eip155:{DEVNET.chain_id}"
USD: Final = f"{EVM}/erc20:{DEVNET.token.address}"
EUR: Final = f"{EVM}/erc20:{DEVNET.euro.address}"
ETHER: Final = f"{EVM}/slip44:60"
TOKENS: Final = {USD: DEVNET.token.address, EUR: DEVNET.euro.address}
MINTS: Final = {f"{SOLNET.chain_id}/token:{one.address}": one for one in SOLNET.tokens}
SOL: Final = f"{SOLNET.chain_id}/slip44:501"


class Ask(Protocol):
    """JSON-RPC of a chain: the result of a call."""

    def __call__(self, method: str, /, *params: Any) -> Awaitable[Any]:
        """Asks."""


@dataclass(frozen=True, slots=True)
class Since:
    """From where on is judged, on chains that were used before; all of it by itself.

    `block` is the last EVM block that is left out, `signatures` are those of Solana. `booked` is
    what accounts of the books had by then, by account and asset.
    """

    block: int = -1
    signatures: frozenset[str] = frozenset()
    booked: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ground:
    """One installation on embedded chains, or on others like them.

    Addresses on the EVM chain may have any case. `paid_to` are merchants' own, on either chain.
    """

    database: Path
    evm: Ask
    solana: Ask
    relayers: tuple[str, ...]
    solana_relayer: str
    treasuries: tuple[str, str]
    paid_to: tuple[str, ...]
    confirmations: int
    since: Since = field(default_factory=Since)

    async def held(self, address: str, asset: str) -> int:
        """What an address has of an asset, as its chain tells it."""
        if asset in MINTS:
            return await self._minted(address, asset)
        if asset == ETHER:
            return int(await self.evm("eth_getBalance", address, "latest"), 16)
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(await self.evm("eth_call", {"to": TOKENS[asset], "data": data}, "latest"), 16)

    async def _minted(self, owner: str, asset: str) -> int:
        mint = MINTS[asset]
        program = spl.pubkey(mint.program)
        place = spl.associated(spl.pubkey(owner), spl.pubkey(mint.address), program)
        found = (await self.solana("getAccountInfo", str(place)))["value"]
        if found is None:
            return 0
        held = spl.token_account(base64.b64decode(found["data"][0]))
        return held.amount if held is not None else 0
