"""Partners, keys and wallets."""

from __future__ import annotations

from florin.v1 import access_pb2, partner_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.fields import chosen
from florin_server.web.console.site import Visit
from florin_server.web.console.view import SCOPES

PATH = "/console/accounts"
_KINDS = {"partner": partner_pb2.API_KEY_KIND_PARTNER, "wallet": partner_pb2.API_KEY_KIND_WALLET}
_STATUSES = {
    "active": partner_pb2.PARTNER_STATUS_ACTIVE,
    "suspended": partner_pb2.PARTNER_STATUS_SUSPENDED,
}
_SCOPES = {one: access_pb2.KeyScope.Value(f"KEY_SCOPE_{one.upper()}") for one in SCOPES}


async def show(visit: Visit) -> PlainAnswer:
    """All of them."""
    partners = await visit.ask("OperatorService.ListPartners", partner_pb2.ListPartnersRequest())
    keys = await visit.ask("OperatorService.ListApiKeys", partner_pb2.ListApiKeysRequest())
    wallets = await visit.ask("OperatorService.ListWallets", partner_pb2.ListWalletsRequest())
    return visit.page(
        "operator/accounts",
        "Accounts",
        partners=partners.partners,
        keys=keys.keys,
        wallets=wallets.wallets,
        scopes=SCOPES,
    )


async def create_partner(visit: Visit) -> PlainAnswer:
    """Makes a partner."""
    request = partner_pb2.CreatePartnerRequest(name=visit.form.text("name"))
    await visit.ask("OperatorService.CreatePartner", request)
    return visit.see(PATH)


async def set_partner(visit: Visit) -> PlainAnswer:
    """Suspends a partner, or lets it work again."""
    request = partner_pb2.SetPartnerStatusRequest(
        partner_id=visit.form.text("partner"),
        status=chosen(visit.form.text("status"), _STATUSES, "status"),
    )
    await visit.ask("OperatorService.SetPartnerStatus", request)
    return visit.see(PATH)


async def create_key(visit: Visit) -> PlainAnswer:
    """Makes a key, and shows its secret, this once."""
    form = visit.form
    request = partner_pb2.CreateApiKeyRequest(
        kind=chosen(form.text("kind") or "partner", _KINDS, "kind"),
        live=form.text("live") == "1",
        partner_id=form.text("partner"),
        scopes=[chosen(one, _SCOPES, "scopes") for one in form.texts("scope")],
    )
    made = await visit.ask("OperatorService.CreateApiKey", request)
    return visit.page("operator/key", "New key", key=made.key, secret=made.secret)


async def revoke_key(visit: Visit) -> PlainAnswer:
    """Revokes a key for good."""
    request = partner_pb2.RevokeApiKeyRequest(key_id=visit.form.text("key"))
    await visit.ask("OperatorService.RevokeApiKey", request)
    return visit.see(PATH)


async def revoke_wallet(visit: Visit) -> PlainAnswer:
    """Revokes a wallet for good."""
    request = partner_pb2.RevokeWalletRequest(app_id=visit.form.text("app"))
    await visit.ask("OperatorService.RevokeWallet", request)
    return visit.see(PATH)
