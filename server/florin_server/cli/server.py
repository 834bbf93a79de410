"""Where the merchant's and the wallet's commands ask, and as whom."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from florin_server.cli.console import fail
from florin_server.cli.exits import Exit, of_status

if TYPE_CHECKING:
    from florin_client import AsyncClient, Client, FlorinError

# as in demo.env
TARGET, KEY, MERCHANT = "FLORIN_GRPC_TARGET", "FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID"
APP, CLIENT = "FLORIN_APP_ID", "FLORIN_CLIENT_ID"
_TIMEOUT_S = 30
# somebody waits who may have named the wrong server
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class At:
    """What was said on the command line about where to ask, and as whom."""

    server: str | None = None
    tls: bool = False
    ca: Path | None = None
    api_key: str | None = field(default=None, repr=False)
    merchant: str | None = None
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and the credentials for it. Those of demo.env go to no server but their own."""

    target: str
    sandbox: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, at: At) -> Place:
        """The server that was named, or the one of the state folder; else the program ends."""
        named = at.server or os.environ.get(TARGET, "")
        if at.server is None and not named:
            return cls._of_home(at)
        # a shell that has read demo.env names the sandbox's server with all its accounts
        return cls(named, {})

    @classmethod
    def _of_home(cls, at: At) -> Place:
        from florin_server.cli.operation import home_of  # noqa: PLC0415  (only if it is needed)

        home = home_of({} if at.home is None else {"home": at.home})
        addresses = home.addresses()
        if addresses is None:
            fail(
                "Not asked",
                f"no Florin runs with its state in {home.path}; start one: florin up, or name one "
                "elsewhere with --server",
                Exit.UNREACHABLE,
            )
        return cls(addresses["grpc"], home.read_demo_env())

    def said(self, variable: str, chosen: str | None = None) -> str:
        """What was chosen, or the environment says, or demo.env; empty if nothing does."""
        return chosen or os.environ.get(variable) or self.sandbox.get(variable, "")


@contextmanager
def as_merchant(at: At) -> Iterator[Client]:
    """A client with a partner's key, for one merchant; ends the program if asked in vain."""
    place = Place.of(at)
    with _asked(place, at, _merchants(place, at)) as client:
        yield client


@asynccontextmanager
async def as_merchant_at_once(at: At) -> AsyncIterator[AsyncClient]:
    """The same for what has several calls under way."""
    from florin_client import AsyncClient, FlorinError  # noqa: PLC0415  (slow to load)

    place = Place.of(at)
    with _refusals_of_options(at):
        client = AsyncClient(place.target, **_options(at, _merchants(place, at)))
    async with client:
        try:
            yield client
        except FlorinError as error:
            refused(error, place.target)


def _merchants(place: Place, at: At) -> dict[str, str]:
    return {
        "api_key": _needed(place.said(KEY, at.api_key), KEY, "--api-key"),
        "merchant_id": _needed(place.said(MERCHANT, at.merchant), MERCHANT, "--merchant"),
    }


@contextmanager
def as_partner(at: At) -> Iterator[tuple[Client, str]]:
    """The same for all merchants of the partner, with the one that was named, if any was."""
    place = Place.of(at)
    key = _needed(place.said(KEY, at.api_key), KEY, "--api-key")
    with _asked(place, at, {"api_key": key}) as client:
        yield client, place.said(MERCHANT, at.merchant)


def _needed(said: str, variable: str, option: str) -> str:
    if not said:
        how = f"{variable} is not in the environment: set it, or say {option}"
        fail("Not asked", how, Exit.MISUSED)
    return said


@contextmanager
def as_wallet(at: At) -> Iterator[tuple[Client, Place]]:
    """A client with a wallet's app id; ends the program if asked in vain."""
    place = Place.of(at)
    app, device = place.said(APP), place.said(CLIENT)
    if not app:
        why = f"{APP} is not in the environment: wallets have an app id"
        fail("Not asked", why, Exit.MISUSED)
    credentials = {"app_id": app, "client_id": device or "florin-pay"}
    with _asked(place, at, credentials) as client:
        yield client, place


@contextmanager
def _asked(place: Place, at: At, credentials: Mapping[str, str]) -> Iterator[Client]:
    # the client is slow to load, and what is wrong of the command is told at once
    from florin_client import Client, FlorinError  # noqa: PLC0415

    with _refusals_of_options(at):
        client = Client(place.target, **_options(at, credentials))
    with client:
        try:
            yield client
        except FlorinError as error:
            refused(error, place.target)


def _options(at: At, credentials: Mapping[str, str]) -> dict[str, Any]:
    from florin_client import Retries  # noqa: PLC0415  (slow to load)

    return {
        **credentials,
        "plaintext": not _encrypts(at),
        "root_certificates": None if at.ca is None else at.ca.read_bytes(),
        "timeout": _TIMEOUT_S,
        "retries": Retries(patience_s=_PATIENCE_S),
        "sdk_name": "florin-cli",
    }


def _encrypts(at: At) -> bool:
    return at.tls or at.ca is not None


@contextmanager
def _refusals_of_options(at: At) -> Iterator[None]:
    """Ends the program if there can be no client of what was said."""
    try:
        yield
    except (ValueError, OSError) as error:
        how = "" if _encrypts(at) else " (--tls, or --ca FILE, encrypts)"
        fail("Not asked", f"{error}{how}", Exit.MISUSED)


def _json_path(path: str) -> str:
    """Return a path of fields in the names that REST has for them."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), path)


def refused(error: FlorinError, target: str) -> NoReturn:
    """Ends the program as a server refused, or did not answer."""
    status = of_status(error.status.name)
    told: dict[str, Any] = {
        "code": error.code or None,
        "requestId": error.request_id or None,
        "details": dict(error.details),
        "issues": [
            {"field": _json_path(one.field), "message": one.message} for one in error.issues
        ],
    }
    why = str(error)
    if error.issues:
        why += ": " + "; ".join(f"{one.field} {one.message}" for one in error.issues)
    if status is Exit.UNREACHABLE:
        why = f"{target} does not answer: {why}"
        if error.idempotency_key is not None:
            why += (
                f"; it may have been done all the same, so ask again with --idempotency-key "
                f"{error.idempotency_key}"
            )
            told["idempotencyKey"] = error.idempotency_key
    fail("Not done", why, status, **told)
