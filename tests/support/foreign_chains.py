"""EVM chains as an operator finds them: a node's address, foreign tokens, no contract of Florin's.

The embedded chain can play one, with the deterministic deployer that real chains have; anvil is
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import rlp
from eth_utils import keccak
from florin_sandbox.devnet.evm import DEVNET, EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.evm.token_fees import TokenFees
from florin_sandbox.devnet.genesis import FAUCET_WEI, load_artifact
from florin_server.rails.connection.jsonrpc import JsonRpcClient, LocalTransport
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.setup.deployment import DEPLOYER_CODE

from tests.support import anvil
from tests.support.anvil_node import sign_faucet_transaction


class ForeignChain(Protocol):
    url: str
    token: str

    async def ask(self, method: str, *params: Any) -> Any: ...

    async def fund(self, address: str, wei: int = 10**18) -> None:
        """Give an address native coin."""

    async def give(self, address: str, units: int) -> None:
        """Give an address tokens."""


class EmbeddedForeignChain:
    def __init__(self, chain: EvmDevChain, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.token = DEVNET.token.address
        self._rpc = JsonRpcClient(LocalTransport(chain.handle))

    async def ask(self, method: str, *params: Any) -> Any:
        return await self._rpc.call(method, *params)

    async def fund(self, address: str, wei: int = 10**18) -> None:
        await self._faucet(address, nativeWei=hex(wei), tokenUnits="0x0")

    async def give(self, address: str, units: int) -> None:
        await self._faucet(address, nativeWei="0x0", tokenUnits=hex(units))

    async def _faucet(self, address: str, **gift: str) -> None:
        await self.ask("florin_faucet", {"accounts": [address], **gift})


class AnvilForeignChain:
    def __init__(self, running: anvil.AnvilProcess) -> None:
        self.url = running.url
        self._anvil = running
        faucet = bytes.fromhex(DEVNET.faucet[2:])
        running.ask("anvil_setBalance", DEVNET.faucet, hex(FAUCET_WEI))
        code = load_artifact("TestDollar").init + faucet.rjust(32, b"\0")
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
        raw = sign_faucet_transaction(nonce, chainId=self._anvil.chain_id, **fields)
        receipt = self._anvil.ask("eth_sendRawTransactionSync", "0x" + raw.hex())
        assert receipt["status"] == "0x1"


@asynccontextmanager
async def open_embedded(
    chain_id: int,
    code: Mapping[str, bytes] | None = None,
    *,
    deployer: bool = True,
    block_interval_s: float = 0,
    fees: TokenFees | None = None,
) -> AsyncIterator[EmbeddedForeignChain]:
    """Serve the embedded chain with another chain id; `fees` as on Tempo."""
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
        yield EmbeddedForeignChain(chain, await chain.serve_http())
    finally:
        await chain.close()


@asynccontextmanager
async def open_on_anvil(chain_id: int, *options: str) -> AsyncIterator[AnvilForeignChain]:
    with anvil.run_anvil(*options, chain_id=chain_id) as running:
        yield AnvilForeignChain(running)


async def get_balance(foreign: ForeignChain, address: str) -> int:
    """Return the balance in the token's minor units."""
    data = "0x70a08231" + address[2:].lower().rjust(64, "0")
    return int(await foreign.ask("eth_call", {"to": foreign.token, "data": data}, "latest"), 16)
