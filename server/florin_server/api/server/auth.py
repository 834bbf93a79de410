"""Authenticate callers by the credential table of the wire contract, row by row.

Keys and merchants are cached for a few seconds, so that a busy caller costs no lookup. Changes made
in this process take effect at once, changes made elsewhere within a second, and at the latest when
the cache entry expires. Where money moves, the transaction checks again (`Caller.standing`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from florin.v1 import access_pb2

from florin_server.accounts.store import keys, merchants
from florin_server.api.server import metadata
from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.account import ApiKey, CredentialStatus, WalletApp
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.credentials import ApiKeyKind, hash_key, parse_key
from florin_server.domain.audit import AuditChannel
from florin_server.domain.errors import ERROR_SPECS, ApiError, ErrorCode
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.versions import resolve_version
from florin_server.settings.context import SettingsContext


class _Context(EventContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_T = TypeVar("_T")
_CACHE_MAX = 10_000
_NAME_CHARS_MAX = 255

_GATEWAY = access_pb2.CALLER_FAMILY_GATEWAY
_PAYMENTS = access_pb2.CALLER_FAMILY_PAYMENTS
_SANDBOX = access_pb2.CALLER_FAMILY_SANDBOX
_OPERATOR = access_pb2.CALLER_FAMILY_OPERATOR
_SCOPES = {
    number: name.removeprefix("KEY_SCOPE_").lower() if number else ""
    for name, number in access_pb2.KeyScope.items()
}
_CHANNELS = {channel.value: channel for channel in (AuditChannel.CONSOLE, AuditChannel.CLI)}
# the headers that authenticate callers that need more than a key
_CREDENTIAL_HEADERS = {
    _PAYMENTS: "Api-Key and Merchant-Id",
    _GATEWAY: "App-Id and Client-Id, or Api-Key,",
}


class _AccountCache(Generic[_T]):
    """A cache of lookups: entries expire, and account changes invalidate them."""

    def __init__(self, app: _Context) -> None:
        self._app = app
        self._entries: dict[str, tuple[int, _T]] = {}
        app.notifier.subscribe(Topic.ACCOUNTS, self._invalidate)

    async def get_or_load(self, key: str, load: Callable[[str], Awaitable[_T | None]]) -> _T | None:
        """Return the cached value of a key, or look it up; a missing value is not cached."""
        now_us, entries = self._app.clock.steady_us(), self._entries
        entry = entries.get(key)
        if entry is not None and entry[0] > now_us:
            return entry[1]
        result = await load(key)
        # a lookup that can have missed a change stays in the entries of before, which no call reads
        if result is not None:
            if len(entries) >= _CACHE_MAX:
                entries.clear()
            entries[key] = (now_us + int(self._app.settings.key_cache_s * 1_000_000), result)
        return result

    def _invalidate(self) -> None:
        self._entries = {}


@dataclass(frozen=True, slots=True)
class _Credential:
    """An authenticated credential, before the merchant is known."""

    live: bool
    version_pin: str
    key: ApiKey | None = None
    app: WalletApp | None = None


class Authenticator:
    """Converts the metadata of a call into its caller.

    With `accepts_key_ids`, a key is named by its id, because its holder authenticated before. Only
    calls inside this process use it; no other caller can.
    """

    def __init__(
        self, app: _Context, pepper: bytes, operator_token: str, *, accepts_key_ids: bool = False
    ) -> None:
        self._app = app
        self._accepts_key_ids = accepts_key_ids
        self._pepper = pepper
        self._operator_token = operator_token
        self._keys: _AccountCache[_Credential] = _AccountCache(app)
        self._apps: _AccountCache[_Credential] = _AccountCache(app)
        self._merchants: _AccountCache[Merchant] = _AccountCache(app)

    async def authenticate(
        self, rule: access_pb2.AccessRule, headers: Mapping[str, str], network: str
    ) -> Caller:
        """Return the caller; raise the error of the first failing row of the table.

        `network` is the network that the call came from.
        """
        if rule.family == _OPERATOR:
            return self._authenticate_operator(headers)
        wcp_profile = metadata.is_wcp_profile(headers)
        credential = await self._get_credential(rule, headers, wcp_profile=wcp_profile)
        if credential.key is not None:
            _check_key(rule, credential.key)
        merchant = None
        if rule.family == _PAYMENTS:
            merchant = await self._get_merchant(rule, headers, credential)
        header = headers.get("pay-version", headers.get("wcp-version"))
        return Caller(
            live=credential.live,
            credential=_to_credential_id(credential, headers),
            partner_id=credential.key.partner_id if credential.key else None,
            merchant=merchant,
            app=credential.app,
            wcp_profile=wcp_profile,
            version=resolve_version(header, credential.version_pin),
            network=network,
            credential_status=CredentialStatus(
                key_id=credential.key.key_id if credential.key else None,
                app_id=credential.app.app_id if credential.app else None,
                merchant_id=merchant.id if merchant else None,
                requires_active_merchant=rule.active_merchant,
                scope=_get_required_scope(rule) if credential.key else "",
            ),
        )

    def get_channel(self, rule: access_pb2.AccessRule, headers: Mapping[str, str]) -> AuditChannel:
        """Return the way by which a call came; only the operator's programs name their own."""
        if self._accepts_key_ids:
            return AuditChannel.CONSOLE
        if rule.family == _OPERATOR:
            return _CHANNELS.get(headers.get(metadata.CHANNEL_KEY, ""), AuditChannel.API)
        return AuditChannel.API

    def _authenticate_operator(self, headers: Mapping[str, str]) -> Caller:
        expected = f"Bearer {self._operator_token}".encode()
        if not hmac.compare_digest(headers.get("authorization", "").encode(), expected):
            raise ApiError(ErrorCode.UNAUTHORIZED)
        return Caller(live=False)

    async def _get_credential(
        self, rule: access_pb2.AccessRule, headers: Mapping[str, str], *, wcp_profile: bool
    ) -> _Credential:
        key, app_id = headers.get("api-key"), headers.get("app-id")
        if key and app_id:
            raise ApiError(ErrorCode.CONFLICTING_AUTH_HEADERS)
        if key:
            return await self._get_key_credential(key)
        if rule.family == _GATEWAY:
            return await self._get_app_credential(rule, app_id, headers)
        if app_id:
            raise _make_missing_header_error(ErrorCode.MISSING_MERCHANT_API_KEY, rule, headers)
        if wcp_profile or headers.get("merchant-id") or headers.get("client-id"):
            raise _make_missing_header_error(ErrorCode.MISSING_API_KEY, rule, headers)
        raise _make_missing_header_error(ErrorCode.MISSING_AUTH_HEADERS, rule, headers)

    async def _get_key_credential(self, text: str) -> _Credential:
        credential = await self._keys.get_or_load(text, self._find_key_credential)
        if credential is None:
            raise ApiError(ErrorCode.INVALID_API_KEY)
        return credential

    async def _find_key_credential(self, text: str) -> _Credential | None:
        parsed = None if self._accepts_key_ids else parse_key(text)
        key_id = text if self._accepts_key_ids else parsed.key_id if parsed else None
        if key_id in self._app.disabled_ids:
            return None
        key = await self._app.store.read(keys.find_key(key_id)) if key_id else None
        digest = hash_key(self._pepper, text)
        if key is None or key.revoked_at_us:
            return None
        if not self._accepts_key_ids and not hmac.compare_digest(key.hash, digest):
            return None
        pin = key.version_pin or ""
        if key.partner_id is not None:
            partner = await self._app.store.read(merchants.find_partner(key.partner_id))
            if partner is None or partner.status != "active":
                raise ApiError(ErrorCode.FORBIDDEN)
            pin = pin or partner.version_pin
        return _Credential(key.live, pin, key=key)

    async def _get_app_credential(
        self, rule: access_pb2.AccessRule, app_id: str | None, headers: Mapping[str, str]
    ) -> _Credential:
        if not app_id:
            missing = (
                ErrorCode.MISSING_APP_ID
                if headers.get("client-id")
                else ErrorCode.MISSING_AUTH_HEADERS
            )
            raise _make_missing_header_error(missing, rule, headers)
        if not headers.get("client-id"):
            raise _make_missing_header_error(ErrorCode.MISSING_CLIENT_ID, rule, headers)
        credential = await self._apps.get_or_load(app_id, self._find_app_credential)
        if credential is None:
            raise ApiError(ErrorCode.INVALID_APP_ID)
        return credential

    async def _find_app_credential(self, app_id: str) -> _Credential | None:
        if app_id in self._app.disabled_ids:
            return None
        app = await self._app.store.read(keys.find_app(app_id))
        if app is None or app.revoked_at_us:
            return None
        return _Credential(app.live, app.version_pin or "", app=app)

    async def _get_merchant(
        self, rule: access_pb2.AccessRule, headers: Mapping[str, str], credential: _Credential
    ) -> Merchant:
        merchant_id = headers.get("merchant-id")
        if not merchant_id:
            raise ApiError(ErrorCode.MISSING_MERCHANT_ID)
        merchant = await self._merchants.get_or_load(merchant_id, self._find_merchant)
        partner_id = credential.key.partner_id if credential.key else None
        if (
            merchant is None
            or merchant.partner_id != partner_id
            or merchant.live is not credential.live
        ):
            raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
        if rule.active_merchant:
            if merchant.deleted_at_us is not None:
                raise ApiError(ErrorCode.MERCHANT_NOT_FOUND)
            if merchant.status != "active":
                raise ApiError(ErrorCode.FORBIDDEN)
        return merchant

    async def _find_merchant(self, merchant_id: str) -> Merchant | None:
        return await self._app.store.read(merchants.find_merchant(merchant_id))


def _to_credential_id(credential: _Credential, headers: Mapping[str, str]) -> str:
    """Return the id that rate limits and keys are counted by; clients choose their client id."""
    if credential.key is not None:
        return credential.key.key_id
    app_id, client = headers["app-id"], headers["client-id"]
    if len(app_id) + len(client) >= _NAME_CHARS_MAX:
        client = hashlib.sha256(client.encode()).hexdigest()
    return f"{app_id}/{client}"


def _get_required_scope(rule: access_pb2.AccessRule) -> str:
    """Return the scope that a call needs, by its name in the domain; empty if it needs none."""
    return _SCOPES[rule.scope]


def _make_missing_header_error(
    code: ErrorCode, rule: access_pb2.AccessRule, headers: Mapping[str, str]
) -> ApiError:
    """Return the error for a missing header; after `Authorization`, name the right headers."""
    if not headers.get("authorization"):
        return ApiError(code)
    header_name = _CREDENTIAL_HEADERS.get(rule.family, "Api-Key")
    return ApiError(
        code, f"{ERROR_SPECS[code].message}: send {header_name} instead of Authorization"
    )


def _check_key(rule: access_pb2.AccessRule, key: ApiKey) -> None:
    if rule.family != _GATEWAY and key.kind is not ApiKeyKind.PARTNER:
        raise ApiError(ErrorCode.FORBIDDEN)
    scope = _get_required_scope(rule)
    if scope and scope not in key.scopes:
        raise ApiError(ErrorCode.FORBIDDEN)
    if rule.family == _SANDBOX and key.live:
        raise ApiError(ErrorCode.NOT_SANDBOX_API_KEY)
