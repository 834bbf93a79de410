"""The configuration of a console: its navigation, its sign-in and the host names it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from grpc_rest_gateway.plain import PlainRequest
from grpc_rest_gateway.rpc import Metadata

from florin_server.accounts.context import KeyUseContext
from florin_server.db.context import StorageContext
from florin_server.operations.context import SignInContext
from florin_server.web.console.session import ConsoleSession
from florin_server.web.console.shell import Shell


class RecordContext(KeyUseContext, SignInContext, StorageContext, Protocol):
    """The store, and what is recorded there later: uses of keys, failed sign-ins."""


class SecretVerifier(Protocol):
    """Verifies a secret."""

    async def __call__(self, secret: str, peer: str) -> tuple[str, bool]:
        """Return the holder and whether its data is live; RefusedError for a wrong secret."""
        ...


class NavLink(NamedTuple):
    """A link of the navigation, with the message key of its name and its icon.

    `by_merchant` if a merchant filters its page.
    """

    path: str
    name: str
    sign: str
    by_merchant: bool = False


class NavGroup(NamedTuple):
    """Links of the navigation below a heading, a message key; the first group has none."""

    name: str
    links: Sequence[NavLink]


@dataclass(frozen=True, slots=True)
class ConsoleConfig:
    """One of the two consoles.

    `build_metadata` returns the metadata of a session's calls. `has_idempotency_keys` RPCs
    recognize a repeated form by its id; for others the console refuses it. `is_allowed_host`
    returns whether a request used a host name of this machine. `read_shell` returns what the frame
    of its pages shows.
    """

    name: str
    groups: tuple[NavGroup, ...]
    verify_secret: SecretVerifier
    build_metadata: Callable[[ConsoleSession], Metadata]
    has_idempotency_keys: bool
    is_allowed_host: Callable[[PlainRequest], bool]
    read_shell: Callable[[ConsoleSession, str], Awaitable[Shell]]
