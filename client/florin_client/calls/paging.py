"""Lists that come in pages: what to ask for next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from florin_client.calls.rpc import Call, Rpc

Page = TypeVar("Page", bound=Message)
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Page, Row]):
    """A list, page by page; `rows` and `cursor` (None on the last one) are read from a page."""

    rpc: Rpc[Any, Page]
    request: Message
    options: Mapping[str, Any]
    rows: Callable[[Page], Iterable[Row]]
    cursor: Callable[[Page], str | None]

    def first(self) -> Call[Page]:
        """Asks for the beginning."""
        return self.rpc(self.request, self.options)

    def after(self, page: Page) -> Call[Page] | None:
        """Asks for what follows a page; None if nothing does."""
        cursor = self.cursor(page)
        if cursor is None:
            return None
        request = type(self.request)()
        request.MergeFrom(self.request)
        request.MergeFrom(type(self.request)(cursor=cursor))
        return self.rpc(request, self.options)
