"""The operator's part of AdminService."""

from __future__ import annotations

from typing import Any

from florin.v1 import access_pb2, account_pb2, admin_pb2, operator_pb2

from florin_server.domain.account import ApiKey
from florin_server.domain.credentials import KeyKind
from florin_server.flows import keys
from florin_server.flows.app import App
from florin_server.rpc.codec import timestamp

_KIND = {
    KeyKind.PARTNER: admin_pb2.API_KEY_KIND_PARTNER,
    KeyKind.WALLET: admin_pb2.API_KEY_KIND_WALLET,
}
_KIND_OF = {number: kind for kind, number in _KIND.items()}


def _scope_name(scope: access_pb2.KeyScope.ValueType) -> str:
    return access_pb2.KeyScope.Name(scope).removeprefix("KEY_SCOPE_").lower()


def _scope(name: str) -> access_pb2.KeyScope.ValueType:
    return access_pb2.KeyScope.Value(f"KEY_SCOPE_{name.upper()}")


def _key(key: ApiKey) -> admin_pb2.ApiKey:
    return admin_pb2.ApiKey(
        key_id=key.key_id,
        kind=_KIND[key.kind],
        live=key.live,
        partner_id=key.partner_id or "",
        last4=key.last4,
        scopes=[_scope(name) for name in sorted(key.scopes)],
        created_at=timestamp(key.created_at_us),
        revoked_at=timestamp(key.revoked_at_us) if key.revoked_at_us else None,
    )


class OperatorCalls:
    """Calls of the operator."""

    _app: App
    _pepper: bytes

    async def CreateApiKey(
        self, request: admin_pb2.CreateApiKeyRequest, context: Any
    ) -> admin_pb2.CreateApiKeyResponse:
        """Makes an API key."""
        key, secret = await keys.create(
            self._app,
            self._pepper,
            kind=_KIND_OF[request.kind],
            live=request.live,
            partner_id=request.partner_id or None,
            scopes=frozenset(_scope_name(scope) for scope in request.scopes),
        )
        return admin_pb2.CreateApiKeyResponse(key=_key(key), secret=secret)

    async def ListApiKeys(
        self, request: admin_pb2.ListApiKeysRequest, context: Any
    ) -> admin_pb2.ListApiKeysResponse:
        """Lists keys without their secrets."""
        found = await keys.listed(self._app, request.partner_id or None)
        return admin_pb2.ListApiKeysResponse(keys=[_key(key) for key in found])

    async def RevokeApiKey(
        self, request: admin_pb2.RevokeApiKeyRequest, context: Any
    ) -> admin_pb2.RevokeApiKeyResponse:
        """Revokes a key for good."""
        return admin_pb2.RevokeApiKeyResponse(
            key=_key(await keys.revoke(self._app, request.key_id))
        )

    async def CreatePartner(
        self, request: operator_pb2.CreatePartnerRequest, context: Any
    ) -> operator_pb2.Partner:
        """SKELETON."""
        raise NotImplementedError

    async def ListPartners(
        self, request: operator_pb2.ListPartnersRequest, context: Any
    ) -> operator_pb2.ListPartnersResponse:
        """SKELETON."""
        raise NotImplementedError

    async def SetPartnerStatus(
        self, request: operator_pb2.SetPartnerStatusRequest, context: Any
    ) -> operator_pb2.Partner:
        """SKELETON."""
        raise NotImplementedError

    async def SetApiVersion(
        self, request: operator_pb2.SetApiVersionRequest, context: Any
    ) -> operator_pb2.SetApiVersionResponse:
        """SKELETON."""
        raise NotImplementedError

    async def RegisterWallet(
        self, request: operator_pb2.RegisterWalletRequest, context: Any
    ) -> operator_pb2.Wallet:
        """SKELETON."""
        raise NotImplementedError

    async def ListWallets(
        self, request: operator_pb2.ListWalletsRequest, context: Any
    ) -> operator_pb2.ListWalletsResponse:
        """SKELETON."""
        raise NotImplementedError

    async def RevokeWallet(
        self, request: operator_pb2.RevokeWalletRequest, context: Any
    ) -> operator_pb2.Wallet:
        """SKELETON."""
        raise NotImplementedError

    async def ImportMerchant(
        self, request: operator_pb2.ImportMerchantRequest, context: Any
    ) -> operator_pb2.OperatorMerchant:
        """SKELETON."""
        raise NotImplementedError

    async def SetMerchantStatus(
        self, request: operator_pb2.SetMerchantStatusRequest, context: Any
    ) -> operator_pb2.OperatorMerchant:
        """SKELETON."""
        raise NotImplementedError

    async def AddFiatSettlement(
        self, request: operator_pb2.AddFiatSettlementRequest, context: Any
    ) -> account_pb2.FiatSettlement:
        """SKELETON."""
        raise NotImplementedError
