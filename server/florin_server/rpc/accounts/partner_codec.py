"""Accounts to messages, as the operator sees them."""

from __future__ import annotations

from collections.abc import Iterable

from florin.v1 import access_pb2, account_pb2, partner_pb2

from florin_server.domain.accounts.account import ApiKey, Partner, WalletApp
from florin_server.domain.accounts.credentials import KeyKind
from florin_server.domain.payments.payment import Merchant
from florin_server.rpc.accounts.merchant_codec import record
from florin_server.rpc.server.timestamps import timestamp

_KEY_KIND = {kind: partner_pb2.ApiKeyKind.Value(f"API_KEY_KIND_{kind.upper()}") for kind in KeyKind}
_KIND_OF = {number: kind for kind, number in _KEY_KIND.items()}


def key_kind(number: partner_pb2.ApiKeyKind.ValueType) -> KeyKind:
    """What a key is for; the number is one that the protos know."""
    return _KIND_OF[number]


def scope_name(scope: access_pb2.KeyScope.ValueType) -> str:
    """A scope in the words of the domain."""
    return access_pb2.KeyScope.Name(scope).removeprefix("KEY_SCOPE_").lower()


def scopes(named: Iterable[access_pb2.KeyScope.ValueType]) -> frozenset[str]:
    """Several of them."""
    return frozenset(map(scope_name, named))


def partner_status(number: partner_pb2.PartnerStatus.ValueType) -> str:
    """A partner's status in the words of the domain."""
    return partner_pb2.PartnerStatus.Name(number).removeprefix("PARTNER_STATUS_").lower()


def merchant_status(number: account_pb2.MerchantStatus.ValueType) -> str:
    """A merchant's status in the words of the domain."""
    return account_pb2.MerchantStatus.Name(number).removeprefix("MERCHANT_STATUS_").lower()


def api_key(key: ApiKey) -> partner_pb2.ApiKey:
    """A key without its secret."""
    return partner_pb2.ApiKey(
        key_id=key.key_id,
        kind=_KEY_KIND[key.kind],
        live=key.live,
        partner_id=key.partner_id or "",
        last4=key.last4,
        scopes=[
            access_pb2.KeyScope.Value(f"KEY_SCOPE_{name.upper()}") for name in sorted(key.scopes)
        ],
        created_at=timestamp(key.created_at_us),
        revoked_at=timestamp(key.revoked_at_us) if key.revoked_at_us else None,
        version_pin=key.version_pin or "",
        name=key.name,
    )


def partner(one: Partner) -> partner_pb2.Partner:
    """A partner."""
    return partner_pb2.Partner(
        id=one.id,
        name=one.name,
        status=partner_pb2.PartnerStatus.Value(f"PARTNER_STATUS_{one.status.upper()}"),
        version_pin=one.version_pin,
        created_at=timestamp(one.created_at_us),
    )


def wallet(app: WalletApp) -> partner_pb2.Wallet:
    """A wallet."""
    return partner_pb2.Wallet(
        app_id=app.app_id,
        name=app.name,
        icon_url=app.icon_url,
        live=app.live,
        version_pin=app.version_pin,
        created_at=timestamp(app.created_at_us),
        revoked_at=timestamp(app.revoked_at_us) if app.revoked_at_us else None,
    )


def merchant(one: Merchant) -> partner_pb2.OperatorMerchant:
    """A merchant with what its partner need not be told."""
    return partner_pb2.OperatorMerchant(
        merchant=record(one), partner_id=one.partner_id, live=one.live
    )
