"""The operator's calls about accounts that are not served."""

from __future__ import annotations

from typing import Any

from florin.v1 import screening_pb2

from florin_server.domain.screening.blocklist import ScreeningList
from florin_server.flows.app import App
from florin_server.flows.screening import lists
from florin_server.rpc.server.timestamps import timestamp


class ScreeningCalls:
    """Screening lists, and who is on them."""

    _app: App
    _import: lists.Import

    async def ImportScreeningList(
        self, request: screening_pb2.ImportScreeningListRequest, context: Any
    ) -> screening_pb2.ImportScreeningListResponse:
        """Takes one part of a list; the last one puts it in force."""
        source = lists.Source(request.name, request.digest, _published(request))
        await lists.add_part(self._app, self._import, source, request.part, request.addresses)
        if not request.last:
            return screening_pb2.ImportScreeningListResponse()
        done = await lists.finish(self._app, self._import, force=request.force)
        return screening_pb2.ImportScreeningListResponse(
            list=_list(done.now), former=_list(done.former) if done.former else None
        )

    async def ListScreeningLists(
        self, request: screening_pb2.ListScreeningListsRequest, context: Any
    ) -> screening_pb2.ListScreeningListsResponse:
        """Lists the lists that are in force."""
        found = await self._app.screening.lists()
        return screening_pb2.ListScreeningListsResponse(lists=[_list(one) for one in found])

    async def RemoveScreeningList(
        self, request: screening_pb2.RemoveScreeningListRequest, context: Any
    ) -> screening_pb2.RemoveScreeningListResponse:
        """Takes a list out of force."""
        await lists.remove(self._app, request.name)
        return screening_pb2.RemoveScreeningListResponse()

    async def CheckAccount(
        self, request: screening_pb2.CheckAccountRequest, context: Any
    ) -> screening_pb2.CheckAccountResponse:
        """Tells whether an account is served."""
        found = await lists.check(self._app, request.account)
        return screening_pb2.CheckAccountResponse(blocked=found.blocked, lists=found.lists)


def _published(request: screening_pb2.ImportScreeningListRequest) -> int | None:
    if not request.HasField("published_at"):
        return None
    return int(request.published_at.ToMicroseconds())


def _list(one: ScreeningList) -> screening_pb2.ScreeningList:
    at_us = one.published_at_us
    return screening_pb2.ScreeningList(
        name=one.name,
        digest=one.digest,
        published_at=None if at_us is None else timestamp(at_us),
        imported_at=timestamp(one.imported_at_us),
        count=one.count,
    )
