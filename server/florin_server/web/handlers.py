"""What the routes of all pages share: handlers by method, headers, and constant answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grpc_rest_gateway.plain import PlainHandler, PlainRequest, PlainResponse

# handlers by method and path template
Routes = Mapping[tuple[str, str], PlainHandler]

READ_METHODS: Final = ("GET", "HEAD")
NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
# for addresses that contain a digest of the content: new content has a new address
CACHE_FOREVER: Final = b"public, max-age=31536000, immutable"


def build_read_routes(handlers: Mapping[str, PlainHandler]) -> Routes:
    """Return handlers by path template as routes for both methods that read."""
    return {(method, path): handlers[path] for method in READ_METHODS for path in handlers}


def make_constant_handler(response: PlainResponse) -> PlainHandler:
    """Return the handler of a response that is the same for all requests."""

    async def answer(_request: PlainRequest) -> PlainResponse:
        return response

    return answer
