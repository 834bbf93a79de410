"""Importing and removing screening lists."""

from __future__ import annotations

from florin.v1 import screening_pb2

DIGEST = "ab" * 32


def make_import_part(*addresses: str, published_s: int | None = None, **changes):
    result = {"name": "sdn", "digest": DIGEST, "last": True, "addresses": addresses, **changes}
    request = screening_pb2.ImportScreeningListRequest(**result)
    if published_s is not None:
        request.published_at.FromSeconds(published_s)
    return request


async def import_list(operator, *addresses: str, **changes):
    return await operator.call("ImportScreeningList", make_import_part(*addresses, **changes))


async def remove_list(operator, name: str) -> None:
    request = screening_pb2.RemoveScreeningListRequest(name=name)
    await operator.call("RemoveScreeningList", request)
