"""Convert accounts to messages, as the operator sees them."""

from __future__ import annotations

from collections.abc import Iterable

from florin.v1 import access_pb2, account_pb2, partner_pb2

from florin_server.api.accounts.merchant_codec import to_merchant_record
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.accounts.account import ApiKey, Partner, WalletApp
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.payments.payment import Merchant

_KEY_KIND_NUMBERS = {
    kind: partner_pb2.ApiKeyKind.Value(f"API_KEY_KIND_{kind.upper()}") for kind in ApiKeyKind
}
_KIND_BY_NUMBER = {number: kind for kind, number in _KEY_KIND_NUMBERS.items()}


def parse_key_kind(number: partner_pb2.ApiKeyKind.ValueType) -> ApiKeyKind:
    """Return the kind of a key; the number must be one of the protos."""
    return _KIND_BY_NUMBER[number]


def parse_scope(scope: access_pb2.KeyScope.ValueType) -> str:
    """Return a scope by its name in the domain."""
    return access_pb2.KeyScope.Name(scope).removeprefix("KEY_SCOPE_").lower()


def parse_scopes(numbers: Iterable[access_pb2.KeyScope.ValueType]) -> frozenset[str]:
    """Return several scopes by their names in the domain."""
    return frozenset(map(parse_scope, numbers))


def parse_partner_status(number: partner_pb2.PartnerStatus.ValueType) -> str:
    """Return a partner's status by its name in the domain."""
    return partner_pb2.PartnerStatus.Name(number).removeprefix("PARTNER_STATUS_").lower()


def parse_merchant_status(number: account_pb2.MerchantStatus.ValueType) -> str:
    """Return a merchant's status by its name in the domain."""
    return account_pb2.MerchantStatus.Name(number).removeprefix("MERCHANT_STATUS_").lower()


def to_api_key(key: ApiKey, last_used_at_us: int | None = None) -> partner_pb2.ApiKey:
    """Return a key without its secret, with its last use if that is known."""
    return partner_pb2.ApiKey(
        key_id=key.key_id,
        kind=_KEY_KIND_NUMBERS[key.kind],
        live=key.live,
        partner_id=key.partner_id or "",
        last4=key.last4,
        scopes=[
            access_pb2.KeyScope.Value(f"KEY_SCOPE_{name.upper()}") for name in sorted(key.scopes)
        ],
        created_at=to_timestamp(key.created_at_us),
        revoked_at=to_timestamp(key.revoked_at_us) if key.revoked_at_us else None,
        version_pin=key.version_pin or "",
        name=key.name,
        last_used_at=to_timestamp(last_used_at_us) if last_used_at_us else None,
    )


def to_partner(partner: Partner) -> partner_pb2.Partner:
    """Return a partner as a message."""
    return partner_pb2.Partner(
        id=partner.id,
        name=partner.name,
        status=partner_pb2.PartnerStatus.Value(f"PARTNER_STATUS_{partner.status.upper()}"),
        version_pin=partner.version_pin,
        created_at=to_timestamp(partner.created_at_us),
    )


def to_wallet(app: WalletApp) -> partner_pb2.Wallet:
    """Return a wallet as a message."""
    return partner_pb2.Wallet(
        app_id=app.app_id,
        name=app.name,
        icon_url=app.icon_url,
        live=app.live,
        version_pin=app.version_pin,
        created_at=to_timestamp(app.created_at_us),
        revoked_at=to_timestamp(app.revoked_at_us) if app.revoked_at_us else None,
    )


def to_operator_merchant(merchant: Merchant) -> partner_pb2.OperatorMerchant:
    """Return a merchant with the members that only the operator sees."""
    return partner_pb2.OperatorMerchant(
        merchant=to_merchant_record(merchant), partner_id=merchant.partner_id, live=merchant.live
    )
