"""EVM chains as an operator finds them: a node's address, somebody's tokens, nothing of ours.

The embedded chain plays one, with the deterministic deployer that real chains have; anvil is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import rlp
from eth_utils import keccak
from florin_server.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_server.devnet.evm.token_fees import TokenFees
from florin_server.devnet.genesis import FAUCET_WEI, artifact
from florin_server.rails.connection.jsonrpc import JsonRpc, LocalTransport
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.setup.deployment import DEPLOYER_CODE

from tests.support import anvil
from tests.support.anvil_node import by_faucet


class Foreign(Protocol):
    url: str
    token: str

    async def ask(self, method: str, *params: Any) -> Any: ...

    async def fund(self, address: str, wei: int = 10**18) -> None:
        """Gives coin."""

    async def give(self, address: str, units: int) -> None:
        """Gives tokens."""


class Embedded:
    def __init__(self, chain: EvmDevChain, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.token = DEVNET.token.address
        self._rpc = JsonRpc(LocalTransport(chain.handle))

    async def ask(self, method: str, *params: Any) -> Any:
        return await self._rpc.call(method, *params)

    async def fund(self, address: str, wei: int = 10**18) -> None:
        await self._faucet(address, nativeWei=hex(wei), tokenUnits="0x0")

    async def give(self, address: str, units: int) -> None:
        await self._faucet(address, nativeWei="0x0", tokenUnits=hex(units))

    async def _faucet(self, address: str, **gift: str) -> None:
        await self.ask("florin_faucet", {"accounts": [address], **gift})


class OnAnvil:
    def __init__(self, running: anvil.Anvil) -> None:
        self.url = running.url
        self._anvil = running
        faucet = bytes.fromhex(DEVNET.faucet[2:])
        running.ask("anvil_setBalance", DEVNET.faucet, hex(FAUCET_WEI))
        code = artifact("TestDollar").bytecode + faucet.rjust(32, b"\0")
        self._by_faucet(0, data=code, gas=4_000_000)
        self.token = "0x" + keccak(rlp.encode([faucet, 0]))[12:].hex()

    async def ask(self, method: str, *params: Any) -> Any:
        return await asyncio.to_thread(self._anvil.ask, method, *params)

    async def fund(self, address: str, wei: int = 10**18) -> None:
        await self.ask("anvil_setBalance", address, hex(wei))

    async def give(self, address: str, units: int) -> None:
        nonce = int(await self.ask("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        mint = f"0x40c10f19{address[2:].lower().rjust(64, '0')}{units:064x}"
        self._by_faucet(nonce, to=bytes.fromhex(self.token[2:]), data=mint)

    def _by_faucet(self, nonce: int, **fields: Any) -> None:
        raw = by_faucet(nonce, chainId=self._anvil.chain_id, **fields)
        receipt = self._anvil.ask("eth_sendRawTransactionSync", "0x" + raw.hex())
        assert receipt["status"] == "0x1"


@asynccontextmanager
async def embedded(
    chain_id: int,
    code: Mapping[str, bytes] | None = None,
    *,
    deployer: bool = True,
    block_interval_s: float = 0,
    fees: TokenFees | None = None,
) -> AsyncIterator[Embedded]:
    """The embedded chain with another chain id, served to whoever asks; `fees` as on Tempo."""
    there = {DEPLOYER: DEPLOYER_CODE} if deployer else {}
    chain = await EvmDevChain.open(
        None,
        EvmDevSettings(
            chain_id=chain_id,
            code={**there, **(code or {})},
            block_interval_s=block_interval_s,
            fees=fees,
        ),
    )
    try:
        yield Embedded(chain, await chain.serve_http())
    finally:
        await chain.close()


@asynccontextmanager
async def on_anvil(chain_id: int, *options: str) -> AsyncIterator[OnAnvil]:
    with anvil.running(*options, chain_id=chain_id) as running:
        yield OnAnvil(running)


async def balance(foreign: Foreign, address: str) -> int:
    """In the token's minor units."""
    data = "0x70a08231" + address[2:].lower().rjust(64, "0")
    return int(await foreign.ask("eth_call", {"to": foreign.token, "data": data}, "latest"), 16)
