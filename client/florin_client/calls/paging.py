"""Paged lists: the calls for their pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from florin_client.calls.rpc import RpcCall, RpcSpec

Page = TypeVar("Page", bound=Message)
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class PagedQuery(Generic[Page, Row]):
    """A list, page by page; `find_cursor` returns None for the last page."""

    rpc: RpcSpec[Any, Page]
    request: Message
    options: Mapping[str, Any]
    get_rows: Callable[[Page], Iterable[Row]]
    find_cursor: Callable[[Page], str | None]

    def build_first_call(self) -> RpcCall[Page]:
        """Return the call for the first page."""
        return self.rpc(self.request, self.options)

    def find_next_call(self, page: Page) -> RpcCall[Page] | None:
        """Return the call for the page after the given page; None after the last page."""
        cursor = self.find_cursor(page)
        if cursor is None:
            return None
        request = type(self.request)()
        request.MergeFrom(self.request)
        request.MergeFrom(type(self.request)(cursor=cursor))
        return self.rpc(request, self.options)
