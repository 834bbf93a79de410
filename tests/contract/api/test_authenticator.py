"""Test how callers are authenticated: the order of refusals and the identity that results."""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass, replace
from typing import Any

import pytest
from florin.v1 import access_pb2
from florin_server.accounts.store import keys, merchants
from florin_server.api.server import auth
from florin_server.api.server.auth import Authenticator
from florin_server.app.app import build_app, build_core
from florin_server.app.core import App
from florin_server.base.clock import TestClock
from florin_server.base.topics import Topic
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import (
    ApiKey,
    CredentialStatus,
    Partner,
    WalletApp,
)
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.credentials import (
    ApiKeyKind,
    generate_key,
    hash_key,
    parse_key,
)
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import encode_base62
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.versions import PREVIEW_VERSIONS, STABLE_VERSIONS
from florin_server.settings import Settings

PEPPER, TOKEN, NETWORK = b"p" * 32, "operator-token", "192.0.2.1/32"
(OLD,), (NEW,) = STABLE_VERSIONS, PREVIEW_VERSIONS
GATEWAY = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_GATEWAY, scope=access_pb2.KEY_SCOPE_READ
)
OPERATOR = access_pb2.AccessRule(family=access_pb2.CALLER_FAMILY_OPERATOR)
ACCOUNT = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_ACCOUNT, scope=access_pb2.KEY_SCOPE_MANAGE
)
SANDBOX = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_SANDBOX, scope=access_pb2.KEY_SCOPE_CREATE
)
READ = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_PAYMENTS, scope=access_pb2.KEY_SCOPE_READ
)
CREATE = access_pb2.AccessRule(
    family=access_pb2.CALLER_FAMILY_PAYMENTS,
    scope=access_pb2.KEY_SCOPE_CREATE,
    active_merchant=True,
)
APP = WalletApp("app_1", "Wallet", None, False, OLD, 1)


@dataclass
class Gate:
    """An authenticator together with its stored keys, partners and clock."""

    app: App
    authenticator: Authenticator

    async def partner(self, **changes: Any) -> Partner:
        partner = replace(Partner("prtn_1", "Partner", OLD, "active", 1), **changes)
        await self.app.store.write(merchants.put_partner(partner))
        return partner

    async def merchant(self, **changes: Any) -> Merchant:
        merchant = Merchant("mrch_1", "prtn_1", "Shop", "a@shop.example", None, "active", False, 1)
        merchant = replace(merchant, **changes)
        await self.app.store.write(merchants.put_merchant(merchant))
        return merchant

    async def key(self, **changes: Any) -> tuple[ApiKey, str]:
        """Create an API key with every scope; return it and its secret."""
        kind, live = changes.get("kind", ApiKeyKind.PARTNER), changes.get("live", False)
        new = generate_key(kind, live, os.urandom)
        scopes = frozenset({"read", "create", "manage"})
        owner = "prtn_1" if kind is ApiKeyKind.PARTNER else None
        key = ApiKey(
            new.key_id, kind, live, owner, hash_key(PEPPER, new.secret), new.last4, scopes, None, 1
        )
        key = replace(key, **changes)
        await self.app.store.write(keys.put_key(key))
        return key, new.secret

    async def caller(self, rule: access_pb2.AccessRule, **sent: str) -> Caller:
        headers = {name.replace("_", "-"): value for name, value in sent.items()}
        return await self.authenticator.authenticate(rule, headers, NETWORK)

    async def code(self, rule: access_pb2.AccessRule, **sent: str) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            await self.caller(rule, **sent)
        return caught.value.code


@pytest.fixture
async def gate(store: Store, tmp_path):
    clock = TestClock(1_800_000_000_000_000)
    off = frozenset({"app_off", "offKey00"})
    app = build_app(build_core(Settings(home=tmp_path), store, clock, (), disabled_ids=off))
    created_gate = Gate(app, Authenticator(app, PEPPER, TOKEN))
    await created_gate.partner()
    await created_gate.merchant()
    await store.write(keys.put_app(APP))
    return created_gate


# the operator


async def test_the_operator_has_the_token_and_no_other_name(gate):
    assert await gate.caller(OPERATOR, authorization=f"Bearer {TOKEN}") == Caller(live=False)
    for wrong in ({}, {"authorization": TOKEN}, {"authorization": f"bearer {TOKEN}"}):
        assert await gate.code(OPERATOR, **wrong) is ErrorCode.UNAUTHORIZED
    assert await gate.code(OPERATOR, authorization=f"Bearer {TOKEN}é") is ErrorCode.UNAUTHORIZED


# what is missing


@pytest.mark.parametrize(
    ("rule", "sent", "code"),
    [
        (READ, {}, ErrorCode.MISSING_AUTH_HEADERS),
        (READ, {"merchant_id": "mrch_1"}, ErrorCode.MISSING_API_KEY),
        (READ, {"client_id": "c"}, ErrorCode.MISSING_API_KEY),
        (READ, {"wcp_version": OLD}, ErrorCode.MISSING_API_KEY),
        (READ, {"app_id": "app_1"}, ErrorCode.MISSING_MERCHANT_API_KEY),
        (READ, {"app_id": "app_1", "client_id": "c"}, ErrorCode.MISSING_MERCHANT_API_KEY),
        (ACCOUNT, {"app_id": "app_1"}, ErrorCode.MISSING_MERCHANT_API_KEY),
        (READ, {"app_id": "app_1", "api_key": "x"}, ErrorCode.CONFLICTING_AUTH_HEADERS),
        (GATEWAY, {"app_id": "app_1", "api_key": "x"}, ErrorCode.CONFLICTING_AUTH_HEADERS),
        (READ, {"api_key": "x"}, ErrorCode.INVALID_API_KEY),
        (GATEWAY, {"api_key": "x"}, ErrorCode.INVALID_API_KEY),
        (GATEWAY, {}, ErrorCode.MISSING_AUTH_HEADERS),
        (GATEWAY, {"client_id": "c"}, ErrorCode.MISSING_APP_ID),
        (GATEWAY, {"app_id": "app_1"}, ErrorCode.MISSING_CLIENT_ID),
        (GATEWAY, {"app_id": "app_2", "client_id": "c"}, ErrorCode.INVALID_APP_ID),
        (GATEWAY, {"app_id": "app_off", "client_id": "c"}, ErrorCode.INVALID_APP_ID),
    ],
)
async def test_missing_credentials_are_reported_first(gate, rule, sent, code):
    await gate.app.store.write(keys.put_app(replace(APP, app_id="app_off")))
    assert await gate.code(rule, **sent) is code


@pytest.mark.parametrize(
    ("rule", "more", "code", "expected_message"),
    [
        (READ, {}, ErrorCode.MISSING_AUTH_HEADERS, "send Api-Key and Merchant-Id"),
        (
            READ,
            {"merchant_id": "mrch_1"},
            ErrorCode.MISSING_API_KEY,
            "send Api-Key and Merchant-Id",
        ),
        (ACCOUNT, {}, ErrorCode.MISSING_AUTH_HEADERS, "send Api-Key"),
        (GATEWAY, {}, ErrorCode.MISSING_AUTH_HEADERS, "send App-Id and Client-Id"),
        (GATEWAY, {"client_id": "c"}, ErrorCode.MISSING_APP_ID, "send App-Id and Client-Id"),
    ],
)
async def test_authorization_header_is_answered_with_the_headers_to_send(
    gate, rule, more, code, expected_message
):
    with pytest.raises(ApiError) as refused:
        await gate.caller(rule, authorization="Bearer sk_test_secret", **more)
    assert refused.value.code is code
    assert expected_message in refused.value.message
    assert "sk_test_secret" not in refused.value.message
    with pytest.raises(ApiError) as bare:
        await gate.caller(rule, **more)
    assert "Authorization" not in bare.value.message


# keys


async def test_a_partners_key_speaks_for_its_merchant(gate):
    key, secret = await gate.key()
    caller = await gate.caller(CREATE, api_key=secret, merchant_id="mrch_1")
    assert caller == Caller(
        live=False,
        credential=key.key_id,
        partner_id="prtn_1",
        merchant=await gate.merchant(),
        version=OLD,
        network=NETWORK,
        credential_status=CredentialStatus(
            key_id=key.key_id, merchant_id="mrch_1", requires_active_merchant=True, scope="create"
        ),
    )
    # only paths of payments name a merchant
    assert (await gate.caller(ACCOUNT, api_key=secret, merchant_id="mrch_1")).merchant is None
    assert await gate.code(READ, api_key=secret) is ErrorCode.MISSING_MERCHANT_ID


async def test_api_key_must_match_in_full(gate):
    key, secret = await gate.key()
    _, other = await gate.key()
    # the ID of one key and the secret of the other, with a correct checksum
    forged = f"{secret[:20]}{other[20:-6]}"
    forged += encode_base62(zlib.crc32(forged.encode()), 6)
    parsed = parse_key(forged)
    assert parsed is not None
    assert parsed.key_id == key.key_id
    assert await gate.code(ACCOUNT, api_key=forged) is ErrorCode.INVALID_API_KEY
    ended, old = await gate.key(revoked_at_us=1)
    assert ended.revoked_at_us
    assert await gate.code(ACCOUNT, api_key=old) is ErrorCode.INVALID_API_KEY
    gone, off = await gate.key()
    object.__setattr__(gate.app, "disabled_ids", frozenset({gone.key_id}))
    assert await gate.code(ACCOUNT, api_key=off) is ErrorCode.INVALID_API_KEY


async def test_a_partner_that_is_not_active_may_do_nothing(gate):
    _, secret = await gate.key()
    await gate.partner(status="suspended")
    for rule in (ACCOUNT, READ, GATEWAY):
        assert await gate.code(rule, api_key=secret, merchant_id="mrch_1") is ErrorCode.FORBIDDEN


async def test_api_key_is_limited_to_its_kind_and_scopes(gate):
    _, wallet = await gate.key(kind=ApiKeyKind.WALLET, version_pin=OLD)
    assert (await gate.caller(GATEWAY, api_key=wallet)).partner_id is None
    assert await gate.code(ACCOUNT, api_key=wallet) is ErrorCode.FORBIDDEN
    _, reads = await gate.key(scopes=frozenset({"read"}))
    assert (await gate.caller(READ, api_key=reads, merchant_id="mrch_1")).merchant is not None
    # a call that requires no scope accepts every key
    assert (await gate.caller(GATEWAY, api_key=reads)).partner_id == "prtn_1"
    for rule in (ACCOUNT, CREATE, SANDBOX):
        assert await gate.code(rule, api_key=reads, merchant_id="mrch_1") is ErrorCode.FORBIDDEN


async def test_live_keys_simulate_nothing(gate):
    await gate.merchant(id="mrch_live", live=True)
    _, live = await gate.key(live=True)
    _, test = await gate.key()
    assert await gate.code(SANDBOX, api_key=live) is ErrorCode.NOT_SANDBOX_API_KEY
    assert not (await gate.caller(SANDBOX, api_key=test)).live
    assert (await gate.caller(READ, api_key=live, merchant_id="mrch_live")).live
    assert (await gate.caller(ACCOUNT, api_key=live)).live


# merchants


@pytest.mark.parametrize(
    ("change", "reads", "creates"),
    [
        ({"partner_id": "prtn_2"}, ErrorCode.MERCHANT_NOT_FOUND, ErrorCode.MERCHANT_NOT_FOUND),
        ({"live": True}, ErrorCode.MERCHANT_NOT_FOUND, ErrorCode.MERCHANT_NOT_FOUND),
        ({"id": "mrch_2"}, ErrorCode.MERCHANT_NOT_FOUND, ErrorCode.MERCHANT_NOT_FOUND),
        ({"deleted_at_us": 0}, None, ErrorCode.MERCHANT_NOT_FOUND),
        ({"status": "suspended"}, None, ErrorCode.FORBIDDEN),
        ({"status": "suspended", "deleted_at_us": 5}, None, ErrorCode.MERCHANT_NOT_FOUND),
    ],
)
async def test_a_merchant_is_ones_own_and_takes_new_payments_while_active(
    gate, change, reads, creates
):
    await gate.partner(id="prtn_2")
    expected = change.get("id", "mrch_1")
    if "id" not in change:
        await gate.merchant(**change)
    _, secret = await gate.key()
    sent = {"api_key": secret, "merchant_id": expected}
    if reads is None:
        assert (await gate.caller(READ, **sent)).merchant is not None
    else:
        assert await gate.code(READ, **sent) is reads
    assert await gate.code(CREATE, **sent) is creates


# wallets


async def test_a_wallet_is_its_app_and_client(gate):
    caller = await gate.caller(GATEWAY, app_id="app_1", client_id="c")
    assert caller == Caller(
        live=False,
        credential="app_1/c",
        app=APP,
        version=OLD,
        network=NETWORK,
        credential_status=CredentialStatus(app_id="app_1"),
    )
    assert caller.origin == NETWORK
    await gate.app.store.write(keys.revoke_app("app_1", 5))
    gate.app.notifier.publish(Topic.ACCOUNTS)
    assert await gate.code(GATEWAY, app_id="app_1", client_id="c") is ErrorCode.INVALID_APP_ID


async def test_long_client_id_is_recorded_by_its_hash(gate):
    fits, long = "c" * (254 - len("app_1")), "c" * (256 - len("app_1"))
    assert (await gate.caller(GATEWAY, app_id="app_1", client_id=fits)).credential == (
        f"app_1/{fits}"
    )
    hashed = hashlib.sha256(long.encode()).hexdigest()
    assert (await gate.caller(GATEWAY, app_id="app_1", client_id=long)).credential == (
        f"app_1/{hashed}"
    )


# versions and profiles


async def test_the_pin_is_the_keys_else_its_partners(gate):
    _, plain = await gate.key()
    _, pinned = await gate.key(version_pin=NEW)
    assert (await gate.caller(ACCOUNT, api_key=plain)).version == OLD
    assert (await gate.caller(ACCOUNT, api_key=pinned)).version == NEW
    assert (await gate.caller(ACCOUNT, api_key=plain, pay_version=NEW)).version == NEW
    code = await gate.code(ACCOUNT, api_key=pinned, pay_version=OLD)
    assert code is ErrorCode.API_VERSION_DOWNGRADE
    # another refusal takes precedence over the version error
    assert await gate.code(READ, api_key=pinned, pay_version=OLD) is ErrorCode.MISSING_MERCHANT_ID


async def test_wcp_profile_follows_from_the_version_header(gate):
    _, secret = await gate.key()
    old = await gate.caller(ACCOUNT, api_key=secret, wcp_version=NEW)
    assert (old.wcp_profile, old.version) == (True, NEW)
    both = await gate.caller(ACCOUNT, api_key=secret, wcp_version="?", pay_version=OLD)
    assert (both.wcp_profile, both.version) == (False, OLD)


# what is cached


async def test_cached_credential_is_reread_after_its_ttl(gate):
    _, secret = await gate.key()
    ttl_us = int(gate.app.settings.key_cache_s * 1_000_000)
    assert (await gate.caller(ACCOUNT, api_key=secret)).version == OLD
    await gate.partner(status="suspended")
    gate.app.clock.advance((ttl_us - 1) / 1_000_000)
    assert (await gate.caller(ACCOUNT, api_key=secret)).version == OLD
    gate.app.clock.advance(1 / 1_000_000)
    assert await gate.code(ACCOUNT, api_key=secret) is ErrorCode.FORBIDDEN


async def test_local_change_applies_at_once_and_missing_rows_are_not_cached(gate):
    _, secret = await gate.key()
    assert (
        await gate.code(READ, api_key=secret, merchant_id="mrch_2") is ErrorCode.MERCHANT_NOT_FOUND
    )
    await gate.merchant(id="mrch_2")
    assert (await gate.caller(READ, api_key=secret, merchant_id="mrch_2")).merchant is not None
    await gate.partner(status="suspended")
    gate.app.notifier.publish(Topic.ACCOUNTS)
    assert await gate.code(ACCOUNT, api_key=secret) is ErrorCode.FORBIDDEN
    # and cached from then on
    await gate.partner()
    assert (await gate.caller(ACCOUNT, api_key=secret)).version == OLD
    await gate.partner(status="suspended")
    assert (await gate.caller(ACCOUNT, api_key=secret)).version == OLD


async def test_so_many_are_remembered_at_a_time(gate, monkeypatch):
    monkeypatch.setattr(auth, "_CACHE_MAX", 2)
    secrets = [(await gate.key())[1] for _ in range(3)]
    for secret in secrets:
        await gate.caller(ACCOUNT, api_key=secret)
    await gate.partner(status="suspended")
    assert (await gate.caller(ACCOUNT, api_key=secrets[2])).version == OLD
    for secret in secrets[:2]:
        assert await gate.code(ACCOUNT, api_key=secret) is ErrorCode.FORBIDDEN


async def test_proven_key_is_accepted_by_id_only_at_the_console(gate):
    """A console session stores no secret."""
    key, secret = await gate.key()
    at_console = Gate(gate.app, Authenticator(gate.app, PEPPER, TOKEN, accepts_key_ids=True))
    named = {"api_key": key.key_id, "merchant_id": "mrch_1"}
    caller = await at_console.caller(READ, **named)
    assert (caller.credential_status.key_id, caller.merchant.id) == (key.key_id, "mrch_1")
    assert await gate.code(READ, **named) is ErrorCode.INVALID_API_KEY
    assert await at_console.code(READ, **{**named, "api_key": secret}) is ErrorCode.INVALID_API_KEY
    await gate.key(key_id="offKey00")
    off = {**named, "api_key": "offKey00"}
    assert await at_console.code(READ, **off) is ErrorCode.INVALID_API_KEY
