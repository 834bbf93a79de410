"""Python client of Florin: merchants, partners' back ends and wallets over gRPC."""

from florin_client.client import AsyncClient, Client
from florin_client.errors import (
    AuthenticationError,
    ConflictError,
    DeadlineError,
    FlorinError,
    ForbiddenError,
    InvalidRequestError,
    Issue,
    NotFoundError,
    RateLimitedError,
    ServerError,
    StateError,
    UnavailableError,
)
from florin_client.retries import Retries
from florin_client.version import VERSION

__all__ = [
    "VERSION",
    "AsyncClient",
    "AuthenticationError",
    "Client",
    "ConflictError",
    "DeadlineError",
    "FlorinError",
    "ForbiddenError",
    "InvalidRequestError",
    "Issue",
    "NotFoundError",
    "RateLimitedError",
    "Retries",
    "ServerError",
    "StateError",
    "UnavailableError",
]
