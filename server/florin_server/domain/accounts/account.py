"""Who calls: partners, their keys, and wallet apps."""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_server.domain.accounts.credentials import KeyKind

# what a partner key may be allowed to do
SCOPES = frozenset({"read", "create", "refund", "settle", "manage"})


@dataclass(frozen=True, slots=True)
class Partner:
    """Who owns merchants and keys. `version_pin` is the oldest API version it may ask for."""

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
    kind: KeyKind
    live: bool
    partner_id: str | None
    hash: bytes = field(repr=False)
    last4: str
    scopes: frozenset[str]  # of SCOPES
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
class Standing:
    """What a call was admitted by, so that it can be looked at again: a key, or a wallet's app id.

    `merchant_id` is set on merchant paths; with `active_merchant` it has to be active. `scope` is
    what the call asks of a key; empty asks for none.
    """

    key_id: str | None = None
    app_id: str | None = None
    merchant_id: str | None = None
    active_merchant: bool = False
    scope: str = ""
