"""The operator's calls about partners, what they call with, and their merchants."""

from __future__ import annotations

from typing import Any

from florin.v1 import account_pb2, partner_pb2

from florin_server.flows.accounts import keys, merchant_admin, partners, pins, wallets
from florin_server.flows.app import App
from florin_server.rpc.accounts import partner_codec as codec
from florin_server.rpc.accounts.merchant_codec import fiat_settlement


class PartnerCalls:
    """Partners, keys, wallets, version pins, and what is done for merchants."""

    _app: App
    _pepper: bytes

    async def CreateApiKey(
        self, request: partner_pb2.CreateApiKeyRequest, context: Any
    ) -> partner_pb2.CreateApiKeyResponse:
        """Makes an API key."""
        key, secret = await keys.create(
            self._app,
            self._pepper,
            kind=codec.key_kind(request.kind),
            live=request.live,
            partner_id=request.partner_id or None,
            scopes=codec.scopes(request.scopes),
            name=request.name,
        )
        return partner_pb2.CreateApiKeyResponse(key=codec.api_key(key), secret=secret)

    async def ListApiKeys(
        self, request: partner_pb2.ListApiKeysRequest, context: Any
    ) -> partner_pb2.ListApiKeysResponse:
        """Lists keys without their secrets."""
        found = await keys.listed(self._app, request.partner_id or None)
        return partner_pb2.ListApiKeysResponse(keys=[codec.api_key(key) for key in found])

    async def UpdateApiKey(
        self, request: partner_pb2.UpdateApiKeyRequest, context: Any
    ) -> partner_pb2.UpdateApiKeyResponse:
        """Changes the name of a key, or what it may do."""
        name = request.name if request.HasField("name") else None
        key = await keys.change(self._app, request.key_id, name, codec.scopes(request.scopes))
        return partner_pb2.UpdateApiKeyResponse(key=codec.api_key(key))

    async def RevokeApiKey(
        self, request: partner_pb2.RevokeApiKeyRequest, context: Any
    ) -> partner_pb2.RevokeApiKeyResponse:
        """Revokes a key for good."""
        key = await keys.revoke(self._app, request.key_id)
        return partner_pb2.RevokeApiKeyResponse(key=codec.api_key(key))

    async def CreatePartner(
        self, request: partner_pb2.CreatePartnerRequest, context: Any
    ) -> partner_pb2.Partner:
        """Makes a partner."""
        return codec.partner(await partners.create(self._app, request.name))

    async def ListPartners(
        self, request: partner_pb2.ListPartnersRequest, context: Any
    ) -> partner_pb2.ListPartnersResponse:
        """Lists partners."""
        found = await partners.listed(self._app)
        return partner_pb2.ListPartnersResponse(partners=[codec.partner(one) for one in found])

    async def SetPartnerStatus(
        self, request: partner_pb2.SetPartnerStatusRequest, context: Any
    ) -> partner_pb2.Partner:
        """Suspends a partner, or lets it work again."""
        status = codec.partner_status(request.status)
        return codec.partner(await partners.set_status(self._app, request.partner_id, status))

    async def SetApiVersion(
        self, request: partner_pb2.SetApiVersionRequest, context: Any
    ) -> partner_pb2.SetApiVersionResponse:
        """Moves a version pin forward."""
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
        """Registers a wallet."""
        icon_url = request.icon_url if request.HasField("icon_url") else None
        wallet = await wallets.register(self._app, request.name, icon_url, live=request.live)
        return codec.wallet(wallet)

    async def ListWallets(
        self, request: partner_pb2.ListWalletsRequest, context: Any
    ) -> partner_pb2.ListWalletsResponse:
        """Lists wallets, revoked ones too."""
        found = await wallets.listed(self._app)
        return partner_pb2.ListWalletsResponse(wallets=[codec.wallet(one) for one in found])

    async def RevokeWallet(
        self, request: partner_pb2.RevokeWalletRequest, context: Any
    ) -> partner_pb2.Wallet:
        """Revokes a wallet for good."""
        return codec.wallet(await wallets.revoke(self._app, request.app_id))

    async def ImportMerchant(
        self, request: partner_pb2.ImportMerchantRequest, context: Any
    ) -> partner_pb2.OperatorMerchant:
        """Makes a merchant under a given id."""
        merchant = await merchant_admin.add(
            self._app,
            partner_id=request.partner_id,
            merchant_id=request.merchant_id,
            name=request.name,
            email=request.email,
            icon_url=request.icon_url if request.HasField("icon_url") else None,
            live=request.live,
        )
        return codec.merchant(merchant)

    async def SetMerchantStatus(
        self, request: partner_pb2.SetMerchantStatusRequest, context: Any
    ) -> partner_pb2.OperatorMerchant:
        """Changes whether a merchant may take payments."""
        status = codec.merchant_status(request.status)
        return codec.merchant(
            await merchant_admin.set_status(self._app, request.merchant_id, status)
        )

    async def AddFiatSettlement(
        self, request: partner_pb2.AddFiatSettlementRequest, context: Any
    ) -> account_pb2.FiatSettlement:
        """Registers a bank account of a merchant."""
        account = await merchant_admin.add_bank_account(
            self._app, request.merchant_id, status=request.status, bank_type=request.bank_type
        )
        return fiat_settlement(account)
