"""The clients: one for threads, one for asyncio, with the same calls under the same names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from florin_client import aio, sync
from florin_client.retries import Retries
from florin_client.setup import SDK_NAME, ClientConfig, build_credentials
from florin_client.version import VERSION

_DEFAULT_RETRIES = Retries()


class _BaseClient(ABC):
    """Base of the clients: calls one Florin with one set of credentials.

    `target` is its gRPC address, "pay.example:443". Credentials are one of three: the `api_key` of
    a partner, with the `merchant_id` that it acts for; an `app_id` with a `client_id` of a wallet;
    or a wallet's own `api_key`. The connection uses TLS, with the system's certificates or those of
    `root_certificates` (PEM). `plaintext` disables TLS, for a Florin on this machine.

    `timeout` in seconds limits every call with all its attempts, unless the call sets its own;
    streams have none. `retries` sets how long a call without a response is repeated. Each call that
    changes data sends an idempotency key, the same in all its attempts, so that it has one effect.
    `pay_version` selects a version of the API other than the account's.

    Raise ValueError for credentials that no server accepts. All methods raise FlorinError.
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
        retries: Retries = _DEFAULT_RETRIES,
        pay_version: str | None = None,
        sdk_name: str = SDK_NAME,
        sdk_version: str = VERSION,
    ) -> None:
        credentials = build_credentials(
            api_key=api_key,
            merchant_id=merchant_id,
            app_id=app_id,
            client_id=client_id,
            version=pay_version,
            sdk=(sdk_name, sdk_version),
        )
        self._open_services(
            ClientConfig(target, credentials, plaintext, root_certificates, timeout, retries)
        )

    @abstractmethod
    def _open_services(self, config: ClientConfig) -> None:
        """Create the services, on a connection of their kind."""


class Client(_BaseClient):
    """Calls one Florin, and waits for its responses. Threads can share it."""

    merchant: sync.Merchant
    gateway: sync.Gateway
    admin: sync.Admin
    webhook: sync.Webhook

    def _open_services(self, config: ClientConfig) -> None:
        self._transport = sync.SyncTransport(config)
        self.merchant = sync.Merchant(self._transport)
        self.gateway = sync.Gateway(self._transport)
        self.admin = sync.Admin(self._transport)
        self.webhook = sync.Webhook(self._transport)

    def close(self) -> None:
        """End the connection and running calls."""
        self._transport.close()

    def __enter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connection."""
        self.close()


class AsyncClient(_BaseClient):
    """Calls one Florin with asyncio; create and use it within one running loop."""

    merchant: aio.AsyncMerchant
    gateway: aio.AsyncGateway
    admin: aio.AsyncAdmin
    webhook: aio.AsyncWebhook

    def _open_services(self, config: ClientConfig) -> None:
        self._transport = aio.AsyncTransport(config)
        self.merchant = aio.AsyncMerchant(self._transport)
        self.gateway = aio.AsyncGateway(self._transport)
        self.admin = aio.AsyncAdmin(self._transport)
        self.webhook = aio.AsyncWebhook(self._transport)

    async def close(self) -> None:
        """End the connection and running calls."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the connection."""
        await self.close()
