"""The operator's calls about screening lists and blocked accounts."""

from __future__ import annotations

from typing import Any

from florin.v1 import screening_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.compliance.screening.service import lists
from florin_server.domain.screening.blocklist import ScreeningList


class ScreeningCalls:
    """Screening lists, and the accounts on them."""

    _app: ApiContext
    _import: lists.ScreeningImport

    async def ImportScreeningList(
        self, request: screening_pb2.ImportScreeningListRequest, context: Any
    ) -> screening_pb2.ImportScreeningListResponse:
        """Receive one part of a list; the last part activates the list."""
        source = lists.ScreeningListSource(
            request.name, request.digest, _find_published_at_us(request)
        )
        await lists.add_part(self._app, self._import, source, request.part, request.addresses)
        if not request.last:
            return screening_pb2.ImportScreeningListResponse()
        done = await lists.finish_import(self._app, self._import, force=request.force)
        return screening_pb2.ImportScreeningListResponse(
            list=_to_screening_list(done.current),
            former=_to_screening_list(done.previous) if done.previous else None,
        )

    async def ListScreeningLists(
        self, request: screening_pb2.ListScreeningListsRequest, context: Any
    ) -> screening_pb2.ListScreeningListsResponse:
        """List the active lists."""
        screening_lists = await self._app.screening.get_lists()
        return screening_pb2.ListScreeningListsResponse(
            lists=[_to_screening_list(screening_list) for screening_list in screening_lists]
        )

    async def RemoveScreeningList(
        self, request: screening_pb2.RemoveScreeningListRequest, context: Any
    ) -> screening_pb2.RemoveScreeningListResponse:
        """Deactivate a list."""
        await lists.remove(self._app, request.name)
        return screening_pb2.RemoveScreeningListResponse()

    async def CheckAccount(
        self, request: screening_pb2.CheckAccountRequest, context: Any
    ) -> screening_pb2.CheckAccountResponse:
        """Return whether an account is blocked."""
        result = await lists.check(self._app, request.account)
        return screening_pb2.CheckAccountResponse(blocked=result.is_blocked, lists=result.lists)


def _find_published_at_us(request: screening_pb2.ImportScreeningListRequest) -> int | None:
    if not request.HasField("published_at"):
        return None
    return int(request.published_at.ToMicroseconds())


def _to_screening_list(screening_list: ScreeningList) -> screening_pb2.ScreeningList:
    at_us = screening_list.published_at_us
    return screening_pb2.ScreeningList(
        name=screening_list.name,
        digest=screening_list.digest,
        published_at=None if at_us is None else to_timestamp(at_us),
        imported_at=to_timestamp(screening_list.imported_at_us),
        count=screening_list.count,
    )
