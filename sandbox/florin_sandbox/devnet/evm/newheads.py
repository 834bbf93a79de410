"""`eth_subscribe` for new heads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from florin_sandbox.devnet.socket import SubscriptionTopic

_BLOCKS_MAX: Final = 64  # sent to a client that fell behind; a client requests older blocks itself

HeaderReader = Callable[[int | None], Mapping[str, Any]]
"""Return the header of a block, the newest for None; called in the chain's thread."""
WorkerRunner = Callable[[Callable[[], list[Any]]], Awaitable[list[Any]]]
"""Run a job in the chain's thread."""


class NewHeadsTopic:
    """The headers of blocks since the first that was sent, including replacing blocks."""

    def __init__(self, run: WorkerRunner, header: HeaderReader) -> None:
        self._run = run
        self._header = header
        self._announced: dict[int, str] = {}  # hashes by number

    async def read_news(self) -> list[Any]:
        """Return the new headers, in order."""
        return await self._run(self._list_new)

    def _list_new(self) -> list[Any]:
        headers = [self._header(None)]
        while len(headers) < _BLOCKS_MAX and not self._is_continuous(headers[-1]):
            headers.append(self._header(int(headers[-1]["number"], 16) - 1))
        newest = int(headers[0]["number"], 16)
        if self._announced.get(newest) == headers[0]["hash"]:
            return []
        self._announced |= {int(header["number"], 16): header["hash"] for header in headers}
        self._announced = {
            n: h for n, h in self._announced.items() if newest - _BLOCKS_MAX < n <= newest
        }
        return headers[::-1]

    def _is_continuous(self, header: Mapping[str, Any]) -> bool:
        """Return True if no earlier header must be sent before a header."""
        number = int(header["number"], 16)
        parent_hash = self._announced.get(number - 1)
        # blocks below the first that was sent are not news
        oldest = min(self._announced, default=number)
        return number <= oldest or parent_hash == header["parentHash"]


class EvmSubscriptionDialect:
    """Subscriptions in geth's format."""

    def __init__(self, run: WorkerRunner, header: HeaderReader) -> None:
        self._run = run
        self._header = header

    @property
    def subscribe_methods(self) -> frozenset[str]:
        """Return the methods that start a subscription."""
        return frozenset({"eth_subscribe"})

    @property
    def unsubscribe_methods(self) -> frozenset[str]:
        """Return the methods that end a subscription."""
        return frozenset({"eth_unsubscribe"})

    def find_topic(self, method: str, params: list[Any]) -> SubscriptionTopic | None:  # noqa: ARG002
        """Return the topic of new heads if requested; None otherwise."""
        return NewHeadsTopic(self._run, self._header) if params == ["newHeads"] else None

    def format_id(self, number: int) -> Any:
        """Return a hex number."""
        return hex(number)

    def build_notification(
        self,
        method: str,  # noqa: ARG002
        subscription_id: Any,
        result: Any,
    ) -> Mapping[str, Any]:
        """Return a notification."""
        return {
            "method": "eth_subscription",
            "params": {"subscription": subscription_id, "result": result},
        }
