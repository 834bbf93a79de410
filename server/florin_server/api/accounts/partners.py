"""The operator's calls about partners, their credentials, and their merchants."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, partner_pb2

from florin_server.accounts.service import (
    keys,
    merchant_admin,
    partners,
    pins,
    wallets,
)
from florin_server.api.accounts import partner_codec as codec
from florin_server.api.accounts.merchant_codec import parse_support_contact, to_fiat_settlement
from florin_server.api.context import ApiContext


class PartnerCalls:
    """Partners, keys, wallets, version pins, and the operator's work on merchants."""

    _app: ApiContext
    _pepper: bytes

    async def CreateApiKey(
        self, request: partner_pb2.CreateApiKeyRequest, context: Any
    ) -> partner_pb2.CreateApiKeyResponse:
        """Create an API key."""
        key, secret = await keys.create(
            self._app,
            self._pepper,
            kind=codec.parse_key_kind(request.kind),
            live=request.live,
            partner_id=request.partner_id or None,
            scopes=codec.parse_scopes(request.scopes),
            name=request.name,
        )
        return partner_pb2.CreateApiKeyResponse(key=codec.to_api_key(key), secret=secret)

    async def ListApiKeys(
        self, request: partner_pb2.ListApiKeysRequest, context: Any
    ) -> partner_pb2.ListApiKeysResponse:
        """List keys without their secrets."""
        found_keys = await keys.list_keys(self._app, request.partner_id or None)
        uses = await keys.list_uses(self._app, request.partner_id or None)
        return partner_pb2.ListApiKeysResponse(
            keys=[codec.to_api_key(key, uses.get(key.key_id)) for key in found_keys]
        )

    async def UpdateApiKey(
        self, request: partner_pb2.UpdateApiKeyRequest, context: Any
    ) -> partner_pb2.UpdateApiKeyResponse:
        """Change the name or scopes of a key."""
        name = request.name if request.HasField("name") else None
        key = await keys.update(self._app, request.key_id, name, codec.parse_scopes(request.scopes))
        return partner_pb2.UpdateApiKeyResponse(key=codec.to_api_key(key))

    async def RevokeApiKey(
        self, request: partner_pb2.RevokeApiKeyRequest, context: Any
    ) -> partner_pb2.RevokeApiKeyResponse:
        """Revoke a key permanently."""
        key = await keys.revoke(self._app, request.key_id)
        return partner_pb2.RevokeApiKeyResponse(key=codec.to_api_key(key))

    async def CreatePartner(
        self, request: partner_pb2.CreatePartnerRequest, context: Any
    ) -> partner_pb2.Partner:
        """Create a partner."""
        return codec.to_partner(await partners.create(self._app, request.name))

    async def ListPartners(
        self, request: partner_pb2.ListPartnersRequest, context: Any
    ) -> partner_pb2.ListPartnersResponse:
        """List partners."""
        found_partners = await partners.list_partners(self._app)
        return partner_pb2.ListPartnersResponse(
            partners=[codec.to_partner(partner) for partner in found_partners]
        )

    async def SetPartnerStatus(
        self, request: partner_pb2.SetPartnerStatusRequest, context: Any
    ) -> partner_pb2.Partner:
        """Suspend or reactivate a partner."""
        status = codec.parse_partner_status(request.status)
        return codec.to_partner(await partners.set_status(self._app, request.partner_id, status))

    async def SetApiVersion(
        self, request: partner_pb2.SetApiVersionRequest, context: Any
    ) -> partner_pb2.SetApiVersionResponse:
        """Move a version pin forward."""
        pin = await pins.move(
            self._app,
            request.version,
            partner_id=request.partner_id,
            app_id=request.app_id,
            key_id=request.key_id,
        )
        return partner_pb2.SetApiVersionResponse(version_pin=pin)

    async def RegisterWallet(
        self, request: partner_pb2.RegisterWalletRequest, context: Any
    ) -> partner_pb2.Wallet:
        """Register a wallet."""
        icon_url = request.icon_url if request.HasField("icon_url") else None
        wallet = await wallets.register(self._app, request.name, icon_url, live=request.live)
        return codec.to_wallet(wallet)

    async def ListWallets(
        self, request: partner_pb2.ListWalletsRequest, context: Any
    ) -> partner_pb2.ListWalletsResponse:
        """List wallets, including revoked ones."""
        apps = await wallets.list_wallets(self._app)
        return partner_pb2.ListWalletsResponse(wallets=[codec.to_wallet(wallet) for wallet in apps])

    async def RevokeWallet(
        self, request: partner_pb2.RevokeWalletRequest, context: Any
    ) -> partner_pb2.Wallet:
        """Revoke a wallet permanently."""
        return codec.to_wallet(await wallets.revoke(self._app, request.app_id))

    async def ImportMerchant(
        self, request: partner_pb2.ImportMerchantRequest, context: Any
    ) -> partner_pb2.OperatorMerchant:
        """Create a merchant with a given id."""
        merchant = await merchant_admin.add(
            self._app,
            partner_id=request.partner_id,
            merchant_id=request.merchant_id,
            name=request.name,
            email=request.email,
            icon_url=request.icon_url if request.HasField("icon_url") else None,
            support=parse_support_contact(request),
            live=request.live,
        )
        return codec.to_operator_merchant(merchant)

    async def SetMerchantStatus(
        self, request: partner_pb2.SetMerchantStatusRequest, context: Any
    ) -> partner_pb2.OperatorMerchant:
        """Change whether a merchant can accept payments."""
        status = codec.parse_merchant_status(request.status)
        return codec.to_operator_merchant(
            await merchant_admin.set_status(self._app, request.merchant_id, status)
        )

    async def SetMerchantSupport(
        self, request: partner_pb2.SetMerchantSupportRequest, context: Any
    ) -> partner_pb2.OperatorMerchant:
        """Change the contact of a merchant that buyers see."""
        support = parse_support_contact(request)
        return codec.to_operator_merchant(
            await merchant_admin.set_support(self._app, request.merchant_id, support)
        )

    async def AddFiatSettlement(
        self, request: partner_pb2.AddFiatSettlementRequest, context: Any
    ) -> account_pb2.FiatSettlement:
        """Register a bank account of a merchant."""
        account = await merchant_admin.add_bank_account(
            self._app, request.merchant_id, status=request.status, bank_type=request.bank_type
        )
        return to_fiat_settlement(account)
