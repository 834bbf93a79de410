"""`eth_subscribe` for new heads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from florin_server.devnet.socket import Topic

_BLOCKS_MAX: Final = 64  # told to one who fell behind; a client asks for older ones

Header = Callable[[int | None], Mapping[str, Any]]
"""The header of a block, the newest for None; called where the chain is used."""
Run = Callable[[Callable[[], list[Any]]], Awaitable[list[Any]]]
"""Runs a job where the chain is used."""


class NewHeads:
    """The headers of blocks since the first that is told; those that replace others too."""

    def __init__(self, run: Run, header: Header) -> None:
        self._run = run
        self._header = header
        self._told: dict[int, str] = {}  # hashes by number

    async def news(self) -> list[Any]:
        """The headers that are new, in order."""
        return await self._run(self._new)

    def _new(self) -> list[Any]:
        found = [self._header(None)]
        while len(found) < _BLOCKS_MAX and not self._follows(found[-1]):
            found.append(self._header(int(found[-1]["number"], 16) - 1))
        newest = int(found[0]["number"], 16)
        if self._told.get(newest) == found[0]["hash"]:
            return []
        self._told |= {int(one["number"], 16): one["hash"] for one in found}
        self._told = {n: h for n, h in self._told.items() if newest - _BLOCKS_MAX < n <= newest}
        return found[::-1]

    def _follows(self, header: Mapping[str, Any]) -> bool:
        """True if nothing is to be told before a header."""
        number = int(header["number"], 16)
        told = self._told.get(number - 1)
        # what is below the first that was told is not news
        oldest = min(self._told, default=number)
        return number <= oldest or told == header["parentHash"]


class EvmDialect:
    """Subscriptions as geth has them."""

    def __init__(self, run: Run, header: Header) -> None:
        self._run = run
        self._header = header

    @property
    def subscribe(self) -> frozenset[str]:
        """Methods that begin a subscription."""
        return frozenset({"eth_subscribe"})

    @property
    def unsubscribe(self) -> frozenset[str]:
        """Methods that end one."""
        return frozenset({"eth_unsubscribe"})

    def topic(self, method: str, params: list[Any]) -> Topic | None:  # noqa: ARG002
        """New heads, if they are asked for."""
        return NewHeads(self._run, self._header) if params == ["newHeads"] else None

    def name(self, number: int) -> Any:
        """A hex number."""
        return hex(number)

    def message(self, method: str, name: Any, result: Any) -> Mapping[str, Any]:  # noqa: ARG002
        """A notification."""
        return {"method": "eth_subscription", "params": {"subscription": name, "result": result}}
