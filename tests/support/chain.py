"""A chain under the service, called like any node."""

from __future__ import annotations

from typing import Any

import aiohttp
from florin_sandbox.devnet.genesis import DEVNET


class ChainClient:
    """Client of the embedded chain: methods where chains differ, calls by name for the rest."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str) -> None:
        self._session = session
        self._url = url
        self._token = token

    async def ask(self, method: str, *params: Any) -> Any:
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        async with self._session.post(self._url, json=question) as answer:
            content = await answer.json()
        assert "error" not in content, content["error"]
        return content["result"]

    async def coin(self, address: str) -> int:
        """Return the balance of an address in wei."""
        return int(await self.ask("eth_getBalance", address, "latest"), 16)

    async def balance(self, address: str, token: str | None = None) -> int:
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(
            await self.ask("eth_call", {"to": token or self._token, "data": data}, "latest"), 16
        )

    async def fund(self, *addresses: str) -> None:
        """Give addresses the coin and the tokens that they lack."""
        tokens = [token.address for token in DEVNET.tokens]
        await self.ask("florin_faucet", {"accounts": addresses, "tokens": tokens})

    async def mine(self, blocks: int = 1) -> None:
        """Seal blocks, however few transactions wait."""
        for _ in range(blocks):
            await self.ask("evm_mine")

    async def send(self, raw: bytes) -> Any:
        """Return the receipt of a transaction; None if it is not mined at once."""
        tx_hash = await self.ask("eth_sendRawTransaction", "0x" + raw.hex())
        return await self.ask("eth_getTransactionReceipt", tx_hash)
