"""Proves who calls: the credential table of the wire contract, row by row.

Keys and merchants are remembered for a few seconds, so that a busy caller costs no lookup. What is
changed in this process is forgotten at once, what is changed elsewhere within a second, and never
after that time. Where money moves, the transaction looks again (`Caller.standing`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from florin.v1 import access_pb2

from florin_server.domain.accounts.account import ApiKey, Standing, WalletApp
from florin_server.domain.accounts.credentials import KeyKind, hash_key, parse_key
from florin_server.domain.errors import REGISTRY, Code, FlorinError
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.versions import resolve
from florin_server.flows.app import App, Caller
from florin_server.rpc.server import metadata
from florin_server.store.accounts import keys, merchants

_T = TypeVar("_T")
_CACHE_MAX = 10_000
_NAME_CHARS_MAX = 255

_GATEWAY = access_pb2.CALLER_FAMILY_GATEWAY
_PAYMENTS = access_pb2.CALLER_FAMILY_PAYMENTS
_SANDBOX = access_pb2.CALLER_FAMILY_SANDBOX
_OPERATOR = access_pb2.CALLER_FAMILY_OPERATOR
# the headers that prove callers, where it is not the key alone
_HEADERS = {
    _PAYMENTS: "Api-Key and Merchant-Id",
    _GATEWAY: "App-Id and Client-Id, or Api-Key,",
}


class _Cache(Generic[_T]):
    """What was looked up, for a time, and until accounts change."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._known: dict[str, tuple[int, _T]] = {}
        self._generation = app.accounts.generation

    async def get(self, key: str, find: Callable[[str], Awaitable[_T | None]]) -> _T | None:
        """What is known under a key, else what is found; that there is nothing is not kept."""
        generation = self._app.accounts.generation
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        now_us = self._app.clock.steady_us()
        entry = self._known.get(key)
        if entry is not None and entry[0] > now_us:
            return entry[1]
        found = await find(key)
        # a change while it was looked up may be missing from it
        if found is not None and generation == self._app.accounts.generation:
            if len(self._known) >= _CACHE_MAX:
                self._known.clear()
            self._known[key] = (now_us + int(self._app.settings.key_cache_s * 1_000_000), found)
        return found


@dataclass(frozen=True, slots=True)
class _Credential:
    """A proven credential, before the merchant is known."""

    live: bool
    pin: str
    key: ApiKey | None = None
    app: WalletApp | None = None


class Authenticator:
    """Turns the metadata of a call into its caller.

    With `proven` a key is named by its id, as its holder showed it before: for calls that are made
    in this process, and that nobody else can make.
    """

    def __init__(
        self, app: App, pepper: bytes, operator_token: str, *, proven: bool = False
    ) -> None:
        self._app = app
        self._proven = proven
        self._pepper = pepper
        self._operator_token = operator_token
        self._keys: _Cache[_Credential] = _Cache(app)
        self._apps: _Cache[_Credential] = _Cache(app)
        self._merchants: _Cache[Merchant] = _Cache(app)

    async def caller(
        self, rule: access_pb2.AccessRule, sent: Mapping[str, str], network: str
    ) -> Caller:
        """The caller, or the refusal that the first failing row of the table demands.

        `network` is where the call came from.
        """
        if rule.family == _OPERATOR:
            return self._operator(sent)
        wcp_profile = metadata.wcp_profile(sent)
        credential = await self._credential(rule, sent, wcp_profile=wcp_profile)
        if credential.key is not None:
            _check_key(rule, credential.key)
        merchant = None
        if rule.family == _PAYMENTS:
            merchant = await self._merchant(rule, sent, credential)
        header = sent.get("pay-version", sent.get("wcp-version"))
        return Caller(
            live=credential.live,
            credential=_name(credential, sent),
            partner_id=credential.key.partner_id if credential.key else None,
            merchant=merchant,
            app=credential.app,
            wcp_profile=wcp_profile,
            version=resolve(header, credential.pin),
            network=network,
            standing=Standing(
                key_id=credential.key.key_id if credential.key else None,
                app_id=credential.app.app_id if credential.app else None,
                merchant_id=merchant.id if merchant else None,
                active_merchant=rule.active_merchant,
                scope=_scope(rule) if credential.key else "",
            ),
        )

    def _operator(self, sent: Mapping[str, str]) -> Caller:
        expected = f"Bearer {self._operator_token}".encode()
        if not hmac.compare_digest(sent.get("authorization", "").encode(), expected):
            raise FlorinError(Code.UNAUTHORIZED)
        return Caller(live=False)

    async def _credential(
        self, rule: access_pb2.AccessRule, sent: Mapping[str, str], *, wcp_profile: bool
    ) -> _Credential:
        key, app_id = sent.get("api-key"), sent.get("app-id")
        if key and app_id:
            raise FlorinError(Code.CONFLICTING_AUTH_HEADERS)
        if key:
            return await self._by_key(key)
        if rule.family == _GATEWAY:
            return await self._by_app(rule, app_id, sent)
        if app_id:
            raise _missing(Code.MISSING_MERCHANT_API_KEY, rule, sent)
        if wcp_profile or sent.get("merchant-id") or sent.get("client-id"):
            raise _missing(Code.MISSING_API_KEY, rule, sent)
        raise _missing(Code.MISSING_AUTH_HEADERS, rule, sent)

    async def _by_key(self, text: str) -> _Credential:
        credential = await self._keys.get(text, self._find_key)
        if credential is None:
            raise FlorinError(Code.INVALID_API_KEY)
        return credential

    async def _find_key(self, text: str) -> _Credential | None:
        parsed = None if self._proven else parse_key(text)
        key_id = text if self._proven else parsed.key_id if parsed else None
        if key_id in self._app.off:
            return None
        key = await self._app.store.read(keys.key_by_id(key_id)) if key_id else None
        digest = hash_key(self._pepper, text)
        if key is None or key.revoked_at_us:
            return None
        if not self._proven and not hmac.compare_digest(key.hash, digest):
            return None
        pin = key.version_pin or ""
        if key.partner_id is not None:
            partner = await self._app.store.read(merchants.partner(key.partner_id))
            if partner is None or partner.status != "active":
                raise FlorinError(Code.FORBIDDEN)
            pin = pin or partner.version_pin
        return _Credential(key.live, pin, key=key)

    async def _by_app(
        self, rule: access_pb2.AccessRule, app_id: str | None, sent: Mapping[str, str]
    ) -> _Credential:
        if not app_id:
            missing = Code.MISSING_APP_ID if sent.get("client-id") else Code.MISSING_AUTH_HEADERS
            raise _missing(missing, rule, sent)
        if not sent.get("client-id"):
            raise _missing(Code.MISSING_CLIENT_ID, rule, sent)
        credential = await self._apps.get(app_id, self._find_app)
        if credential is None:
            raise FlorinError(Code.INVALID_APP_ID)
        return credential

    async def _find_app(self, app_id: str) -> _Credential | None:
        if app_id in self._app.off:
            return None
        app = await self._app.store.read(keys.app(app_id))
        if app is None or app.revoked_at_us:
            return None
        return _Credential(app.live, app.version_pin or "", app=app)

    async def _merchant(
        self, rule: access_pb2.AccessRule, sent: Mapping[str, str], credential: _Credential
    ) -> Merchant:
        merchant_id = sent.get("merchant-id")
        if not merchant_id:
            raise FlorinError(Code.MISSING_MERCHANT_ID)
        merchant = await self._merchants.get(merchant_id, self._find_merchant)
        partner_id = credential.key.partner_id if credential.key else None
        if (
            merchant is None
            or merchant.partner_id != partner_id
            or merchant.live is not credential.live
        ):
            raise FlorinError(Code.MERCHANT_NOT_FOUND)
        if rule.active_merchant:
            if merchant.deleted_at_us is not None:
                raise FlorinError(Code.MERCHANT_NOT_FOUND)
            if merchant.status != "active":
                raise FlorinError(Code.FORBIDDEN)
        return merchant

    async def _find_merchant(self, merchant_id: str) -> Merchant | None:
        return await self._app.store.read(merchants.merchant(merchant_id))


def _name(credential: _Credential, sent: Mapping[str, str]) -> str:
    """What limits and keys are counted by; a client writes what it likes into its own id."""
    if credential.key is not None:
        return credential.key.key_id
    app_id, client = sent["app-id"], sent["client-id"]
    if len(app_id) + len(client) >= _NAME_CHARS_MAX:
        client = hashlib.sha256(client.encode()).hexdigest()
    return f"{app_id}/{client}"


def _scope(rule: access_pb2.AccessRule) -> str:
    """What a call asks of a key, in the words of the domain; empty if it asks for nothing."""
    if not rule.scope:
        return ""
    return access_pb2.KeyScope.Name(rule.scope).removeprefix("KEY_SCOPE_").lower()


def _missing(code: Code, rule: access_pb2.AccessRule, sent: Mapping[str, str]) -> FlorinError:
    """Return the refusal of a missing header; callers used to `Authorization` learn the names."""
    if not sent.get("authorization"):
        return FlorinError(code)
    wanted = _HEADERS.get(rule.family, "Api-Key")
    return FlorinError(code, f"{REGISTRY[code].message}: send {wanted} instead of Authorization")


def _check_key(rule: access_pb2.AccessRule, key: ApiKey) -> None:
    if rule.family != _GATEWAY and key.kind is not KeyKind.PARTNER:
        raise FlorinError(Code.FORBIDDEN)
    scope = _scope(rule)
    if scope and scope not in key.scopes:
        raise FlorinError(Code.FORBIDDEN)
    if rule.family == _SANDBOX and key.live:
        raise FlorinError(Code.NOT_SANDBOX_API_KEY)
