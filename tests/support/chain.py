"""The embedded chain, asked like any node."""

from __future__ import annotations

from typing import Any

import aiohttp


class Chain:
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
        """In wei."""
        return int(await self.ask("eth_getBalance", address, "latest"), 16)

    async def balance(self, address: str, token: str | None = None) -> int:
        data = "0x70a08231" + address[2:].lower().rjust(64, "0")
        return int(
            await self.ask("eth_call", {"to": token or self._token, "data": data}, "latest"), 16
        )
