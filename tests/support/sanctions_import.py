"""Importing and removing screening lists."""

from __future__ import annotations

from florin.v1 import screening_pb2

DIGEST = "ab" * 32


def part(*addresses: str, published_s: int | None = None, **changes):
    told = {"name": "sdn", "digest": DIGEST, "last": True, "addresses": addresses, **changes}
    request = screening_pb2.ImportScreeningListRequest(**told)
    if published_s is not None:
        request.published_at.FromSeconds(published_s)
    return request


async def put(operator, *addresses: str, **changes):
    return await operator.ask("ImportScreeningList", part(*addresses, **changes))


async def remove(operator, name: str) -> None:
    request = screening_pb2.RemoveScreeningListRequest(name=name)
    await operator.ask("RemoveScreeningList", request)
