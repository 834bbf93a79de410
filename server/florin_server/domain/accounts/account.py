"""Callers: partners, their keys, and wallet apps."""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_server.domain.accounts.credentials import ApiKeyKind

# scopes that a partner key has unless others are named
SCOPES = frozenset({"read", "create", "refund", "settle", "manage"})
# sends transfers of others (x402), for which the operator pays: a key has it only if it is named
FACILITATE_SCOPE = "facilitate"


@dataclass(frozen=True, slots=True)
class Partner:
    """The owner of merchants and keys. `version_pin` is the oldest API version that it can use."""

    id: str
    name: str
    version_pin: str
    status: str  # active, suspended
    created_at_us: int


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key as it is stored: never itself, only its peppered hash.

    Partner keys have a `partner_id`; wallet keys have none and carry their own `version_pin`. A
    key is revoked from `revoked_at_us` on.
    """

    key_id: str
    kind: ApiKeyKind
    live: bool
    partner_id: str | None
    hash: bytes = field(repr=False)
    last4: str
    scopes: frozenset[str]  # of SCOPES, and FACILITATE_SCOPE
    version_pin: str | None
    created_at_us: int
    revoked_at_us: int | None = None
    name: str = ""  # what people call it


@dataclass(frozen=True, slots=True)
class WalletApp:
    """A wallet that names itself by a public app id. It is revoked from `revoked_at_us` on."""

    app_id: str
    name: str
    icon_url: str | None
    live: bool
    version_pin: str
    created_at_us: int
    revoked_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """The credential that admitted a call, for a later check: a key, or a wallet's app id.

    `merchant_id` is set on merchant paths; with `requires_active_merchant` the merchant must be
    active. `scope` is the scope that the call needs of a key; empty if it needs none.
    """

    key_id: str | None = None
    app_id: str | None = None
    merchant_id: str | None = None
    requires_active_merchant: bool = False
    scope: str = ""
