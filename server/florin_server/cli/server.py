"""Connect the commands of merchants and wallets to a server, with their credentials."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from florin_server.cli.console import fail
from florin_server.cli.exits import ExitStatus, from_grpc_status

if TYPE_CHECKING:
    from florin_client import AsyncClient, Client, FlorinError

# the same names as in demo.env
TARGET_VARIABLE, PARTNER_KEY_VARIABLE, MERCHANT_ID_VARIABLE = (
    "FLORIN_GRPC_TARGET",
    "FLORIN_PARTNER_KEY",
    "FLORIN_MERCHANT_ID",
)
APP_ID_VARIABLE, CLIENT_ID_VARIABLE = "FLORIN_APP_ID", "FLORIN_CLIENT_ID"
_TIMEOUT_S = 30
# short, because a person waits and may have named the wrong server
_RETRY_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The options of a connection: the server and the credentials."""

    server: str | None = None
    tls: bool = False
    ca: Path | None = None
    api_key: str | None = field(default=None, repr=False)
    merchant: str | None = None
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the credentials for it; those of demo.env go only to the sandbox itself."""

    address: str
    demo_env: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_options(cls, connection: ConnectionOptions) -> Target:
        """Return the named server, or that of the state folder; end the program without one."""
        named = connection.server or os.environ.get(TARGET_VARIABLE, "")
        if connection.server is None and not named:
            return cls._from_home(connection)
        # a shell that has read demo.env has the sandbox's server and all its credentials
        return cls(named, {})

    @classmethod
    def _from_home(cls, connection: ConnectionOptions) -> Target:
        from florin_server.cli.operation import get_home  # noqa: PLC0415  (only if needed)

        home = get_home({} if connection.home is None else {"home": connection.home})
        addresses = home.find_addresses()
        if addresses is None:
            fail(
                "Not sent",
                f"no Florin runs with its state in {home.path}: run `florin up`, or name another "
                "server with --server",
                ExitStatus.UNREACHABLE,
            )
        return cls(addresses["grpc"], home.read_demo_env())

    def get_value(self, variable: str, option_value: str | None = None) -> str:
        """Return the chosen value, else that of the environment or demo.env; empty if unset."""
        return option_value or os.environ.get(variable) or self.demo_env.get(variable, "")


@contextmanager
def connect_as_merchant(connection: ConnectionOptions) -> Iterator[Client]:
    """Open a client with a partner's key and a merchant; end the program if a call fails."""
    place = Target.from_options(connection)
    with _open_client(place, connection, _build_merchant_credentials(place, connection)) as client:
        yield client


@asynccontextmanager
async def connect_as_merchant_async(connection: ConnectionOptions) -> AsyncIterator[AsyncClient]:
    """Open the asynchronous client of a merchant, for several calls at the same time."""
    from florin_client import AsyncClient, FlorinError  # noqa: PLC0415  (slow to load)

    place = Target.from_options(connection)
    with _exit_on_bad_options(connection):
        client = AsyncClient(
            place.address,
            **_build_client_options(connection, _build_merchant_credentials(place, connection)),
        )
    async with client:
        try:
            yield client
        except FlorinError as error:
            fail_with_api_error(error, place.address)


def _build_merchant_credentials(place: Target, connection: ConnectionOptions) -> dict[str, str]:
    return {
        "api_key": _require_value(
            place.get_value(PARTNER_KEY_VARIABLE, connection.api_key),
            PARTNER_KEY_VARIABLE,
            "--api-key",
        ),
        "merchant_id": _require_value(
            place.get_value(MERCHANT_ID_VARIABLE, connection.merchant),
            MERCHANT_ID_VARIABLE,
            "--merchant",
        ),
    }


@contextmanager
def connect_as_partner(connection: ConnectionOptions) -> Iterator[tuple[Client, str]]:
    """Open a client of a partner; yield the chosen merchant too, empty if none is."""
    place = Target.from_options(connection)
    key = _require_value(
        place.get_value(PARTNER_KEY_VARIABLE, connection.api_key), PARTNER_KEY_VARIABLE, "--api-key"
    )
    with _open_client(place, connection, {"api_key": key}) as client:
        yield client, place.get_value(MERCHANT_ID_VARIABLE, connection.merchant)


def _require_value(value: str, variable: str, option: str) -> str:
    if not value:
        how = f"{variable} is not set: set it, or use {option}"
        fail("Not sent", how, ExitStatus.USAGE_ERROR)
    return value


@contextmanager
def connect_as_wallet(connection: ConnectionOptions) -> Iterator[tuple[Client, Target]]:
    """Open a client with a wallet's app id; end the program if a call fails."""
    place = Target.from_options(connection)
    app, device = place.get_value(APP_ID_VARIABLE), place.get_value(CLIENT_ID_VARIABLE)
    if not app:
        why = f"{APP_ID_VARIABLE} is not set: set it to the app id of the wallet"
        fail("Not sent", why, ExitStatus.USAGE_ERROR)
    credentials = {"app_id": app, "client_id": device or "florin-pay"}
    with _open_client(place, connection, credentials) as client:
        yield client, place


@contextmanager
def _open_client(
    place: Target, connection: ConnectionOptions, credentials: Mapping[str, str]
) -> Iterator[Client]:
    # slow to load: errors of the command line come first
    from florin_client import Client, FlorinError  # noqa: PLC0415

    with _exit_on_bad_options(connection):
        client = Client(place.address, **_build_client_options(connection, credentials))
    with client:
        try:
            yield client
        except FlorinError as error:
            fail_with_api_error(error, place.address)


def _build_client_options(
    connection: ConnectionOptions, credentials: Mapping[str, str]
) -> dict[str, Any]:
    from florin_client import Retries  # noqa: PLC0415  (slow to load)

    return {
        **credentials,
        "plaintext": not _is_encrypted(connection),
        "root_certificates": None if connection.ca is None else connection.ca.read_bytes(),
        "timeout": _TIMEOUT_S,
        "retries": Retries(patience_s=_RETRY_PATIENCE_S),
        "sdk_name": "florin-cli",
    }


def _is_encrypted(connection: ConnectionOptions) -> bool:
    return connection.tls or connection.ca is not None


@contextmanager
def _exit_on_bad_options(connection: ConnectionOptions) -> Iterator[None]:
    """End the program if the options are not valid for a client."""
    try:
        yield
    except (ValueError, OSError) as error:
        how = "" if _is_encrypted(connection) else " (use --tls or --ca FILE to encrypt)"
        fail("Not sent", f"{error}{how}", ExitStatus.USAGE_ERROR)


def _json_path(path: str) -> str:
    """Return a path of fields with their REST names."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), path)


def fail_with_api_error(error: FlorinError, target: str) -> NoReturn:
    """End the program with the error of a server that refused or did not answer."""
    status = from_grpc_status(error.status.name)
    report: dict[str, Any] = {
        "code": error.code or None,
        "requestId": error.request_id or None,
        "details": dict(error.details),
        "issues": [
            {"field": _json_path(issue.field), "message": issue.message} for issue in error.issues
        ],
    }
    why = str(error)
    if error.issues:
        why += ": " + "; ".join(f"{issue.field} {issue.message}" for issue in error.issues)
    if status is ExitStatus.UNREACHABLE:
        why = f"{target} does not answer: {why}"
        if error.idempotency_key is not None:
            why += (
                f"; the request may have succeeded, so repeat the command with --idempotency-key "
                f"{error.idempotency_key}"
            )
            report["idempotencyKey"] = error.idempotency_key
    fail("Not done", why, status, **report)
