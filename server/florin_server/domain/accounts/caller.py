"""The caller of a service: who it is, as proven, and the key of its request."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.domain.accounts.account import CredentialStatus, WalletApp
from florin_server.domain.payments.payment import Merchant


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key, its scope, and the fingerprint of its request."""

    scope: str
    key: str
    fingerprint: bytes
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, as proven by its credential.

    `credential` names the credential (not its secret), for limits; the operator has none.
    `merchant` is set on merchant paths, `app` when a wallet came with an App-Id. `wcp_profile`
    means that the caller uses the deployed wire profile. `network` is the network of the call, as
    limits count addresses. `credential_status` is checked again where money moves; the operator
    has none. `request_id` is set on calls that change something, or have a key.
    """

    live: bool
    credential: str = ""
    partner_id: str | None = None
    merchant: Merchant | None = None
    app: WalletApp | None = None
    wcp_profile: bool = False
    version: str = ""
    idempotency_key: IdempotencyKey | None = None
    network: str = ""
    credential_status: CredentialStatus | None = None
    request_id: str = ""

    @property
    def origin(self) -> str:
        """Return the caller that limits count: a key, or a public App-Id's network."""
        return self.network if self.app is not None else self.credential

    @property
    def required_partner_id(self) -> str:
        """Return the partner on paths where the access rule requires a partner."""
        if self.partner_id is None:
            raise RuntimeError("the access rule of a partner's call must ask for a partner")
        return self.partner_id
