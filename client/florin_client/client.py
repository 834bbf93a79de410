"""The clients: one for threads, one for asyncio, with the same calls under the same names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from florin_client import aio, sync
from florin_client.retries import Retries
from florin_client.setup import SDK_NAME, Setup, credentials_of
from florin_client.version import VERSION

_RETRIES = Retries()


class _Client(ABC):
    """Calls one Florin with one set of credentials.

    `target` is its gRPC address, "pay.example:443". Credentials are either an `api_key` of a
    partner, with the `merchant_id` that it acts for, or an `app_id` with a `client_id` of a wallet,
    or a wallet's own `api_key`. TLS is spoken, with the system's certificates or those of
    `root_certificates` (PEM); `plaintext` instead is for a Florin on this machine.

    `timeout` in seconds bounds every call with all its attempts, unless it is told another one;
    streams have none. `retries` says how long a call is made again that got no answer. Each call
    that changes something goes with an idempotency key, the same one in all its attempts, so that
    it is carried out once. `pay_version` asks for a version of the API other than the account's.

    ValueError for credentials that no server would take. All methods raise FlorinError.
    """

    def __init__(
        self,
        target: str,
        *,
        api_key: str | None = None,
        merchant_id: str | None = None,
        app_id: str | None = None,
        client_id: str | None = None,
        plaintext: bool = False,
        root_certificates: bytes | None = None,
        timeout: float | None = 30.0,
        retries: Retries = _RETRIES,
        pay_version: str | None = None,
        sdk_name: str = SDK_NAME,
        sdk_version: str = VERSION,
    ) -> None:
        credentials = credentials_of(
            api_key=api_key,
            merchant_id=merchant_id,
            app_id=app_id,
            client_id=client_id,
            version=pay_version,
            sdk=(sdk_name, sdk_version),
        )
        self._open(Setup(target, credentials, plaintext, root_certificates, timeout, retries))

    @abstractmethod
    def _open(self, setup: Setup) -> None:
        """Makes the services, on a connection of their kind."""


class Client(_Client):
    """Calls one Florin, and waits for its answers. It may be shared by threads."""

    merchant: sync.Merchant
    gateway: sync.Gateway
    admin: sync.Admin
    webhook: sync.Webhook

    def _open(self, setup: Setup) -> None:
        self._transport = sync.Transport(setup)
        self.merchant = sync.Merchant(self._transport)
        self.gateway = sync.Gateway(self._transport)
        self.admin = sync.Admin(self._transport)
        self.webhook = sync.Webhook(self._transport)

    def close(self) -> None:
        """Ends the connection, and calls that are under way."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Closed at the end of the block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Ends the connection."""
        self.close()


class AsyncClient(_Client):
    """Calls one Florin with asyncio; made and used within one running loop."""

    merchant: aio.AsyncMerchant
    gateway: aio.AsyncGateway
    admin: aio.AsyncAdmin
    webhook: aio.AsyncWebhook

    def _open(self, setup: Setup) -> None:
        self._transport = aio.AsyncTransport(setup)
        self.merchant = aio.AsyncMerchant(self._transport)
        self.gateway = aio.AsyncGateway(self._transport)
        self.admin = aio.AsyncAdmin(self._transport)
        self.webhook = aio.AsyncWebhook(self._transport)

    async def close(self) -> None:
        """Ends the connection, and calls that are under way."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        """Closed at the end of the block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Ends the connection."""
        await self.close()
