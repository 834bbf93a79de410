"""Partners, API keys and wallets."""

from __future__ import annotations

from florin.v1 import access_pb2, partner_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import parse_choice
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.undo import UndoOffer
from florin_server.web.console.view import SCOPES

PATH = "/console/accounts"
_KINDS = {"partner": partner_pb2.API_KEY_KIND_PARTNER, "wallet": partner_pb2.API_KEY_KIND_WALLET}
_STATUSES = {
    "active": partner_pb2.PARTNER_STATUS_ACTIVE,
    "suspended": partner_pb2.PARTNER_STATUS_SUSPENDED,
}
_SCOPES = {scope: access_pb2.KeyScope.Value(f"KEY_SCOPE_{scope.upper()}") for scope in SCOPES}


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """List the partners, API keys and wallets."""
    partners = await console_request.call(
        "OperatorService.ListPartners", partner_pb2.ListPartnersRequest()
    )
    keys = await console_request.call(
        "OperatorService.ListApiKeys", partner_pb2.ListApiKeysRequest()
    )
    wallets = await console_request.call(
        "OperatorService.ListWallets", partner_pb2.ListWalletsRequest()
    )
    return console_request.render_page(
        "operator/accounts",
        console_request.texts.plain("nav.accounts"),
        partners=partners.partners,
        keys=keys.keys,
        wallets=wallets.wallets,
        scopes=SCOPES,
    )


async def create_partner(console_request: ConsoleRequest) -> PlainResponse:
    """Create a partner."""
    request = partner_pb2.CreatePartnerRequest(name=console_request.form.text("name"))
    await console_request.call("OperatorService.CreatePartner", request)
    return console_request.redirect_to(PATH)


async def confirm_partner_status(console_request: ConsoleRequest) -> ActionConfirmation | None:
    """Ask before a partner is suspended; activating needs no question."""
    if console_request.form.text("status") != "suspended":
        return None
    partner_id = console_request.form.text("partner")
    listed = await console_request.call(
        "OperatorService.ListPartners", partner_pb2.ListPartnersRequest()
    )
    names = [partner.name for partner in listed.partners if partner.id == partner_id]
    texts = console_request.texts
    return ActionConfirmation(
        title=texts.plain("partner.suspend.ask"),
        button=texts.plain("partner.suspend.button"),
        back=PATH,
        facts=(
            (texts.plain("partner"), names[0] if names else texts.plain("unknown")),
            (texts.plain("id"), partner_id),
        ),
        warning=texts.plain("partner.suspend.warning"),
    )


async def set_partner_status(console_request: ConsoleRequest) -> PlainResponse:
    """Suspend or activate a partner."""
    status = console_request.form.text("status")
    request = partner_pb2.SetPartnerStatusRequest(
        partner_id=console_request.form.text("partner"),
        status=parse_choice(status, _STATUSES, "status"),
    )
    await console_request.call("OperatorService.SetPartnerStatus", request)
    former = "active" if status == "suspended" else "suspended"
    offer = UndoOffer(
        "undo.partner_suspended" if status == "suspended" else "undo.partner_active",
        f"{PATH}/partners/status",
        {"partner": request.partner_id, "status": former},
    )
    return console_request.redirect_with_undo(PATH, offer)


async def create_key(console_request: ConsoleRequest) -> PlainResponse:
    """Create an API key and show its secret once."""
    form = console_request.form
    request = partner_pb2.CreateApiKeyRequest(
        kind=parse_choice(form.text("kind") or "partner", _KINDS, "kind"),
        live=form.text("live") == "1",
        partner_id=form.text("partner"),
        scopes=[parse_choice(scope, _SCOPES, "scopes") for scope in form.texts("scope")],
    )
    created = await console_request.call("OperatorService.CreateApiKey", request)
    return console_request.render_page(
        "operator/key",
        console_request.texts.plain("key.new"),
        key=created.key,
        secret=created.secret,
    )


async def confirm_revoke_key(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before an API key is revoked."""
    key_id = console_request.form.text("key")
    listed = await console_request.call(
        "OperatorService.ListApiKeys", partner_pb2.ListApiKeysRequest()
    )
    texts = console_request.texts
    facts = [
        (
            (texts.plain("key.for"), key.partner_id or texts.plain("key.wallet")),
            (texts.plain("key.ends_in"), key.last4),
        )
        for key in listed.keys
        if key.key_id == key_id
    ]
    return ActionConfirmation(
        title=texts.plain("key.revoke.ask"),
        button=texts.plain("key.revoke.button"),
        back=PATH,
        facts=((texts.plain("key"), key_id), *(facts[0] if facts else ())),
        warning=texts.plain("key.revoke.warning"),
    )


async def revoke_key(console_request: ConsoleRequest) -> PlainResponse:
    """Revoke an API key permanently."""
    request = partner_pb2.RevokeApiKeyRequest(key_id=console_request.form.text("key"))
    await console_request.call("OperatorService.RevokeApiKey", request)
    return console_request.redirect_to(PATH)


async def confirm_revoke_wallet(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a wallet is revoked."""
    app_id = console_request.form.text("app")
    listed = await console_request.call(
        "OperatorService.ListWallets", partner_pb2.ListWalletsRequest()
    )
    names = [wallet.name for wallet in listed.wallets if wallet.app_id == app_id]
    texts = console_request.texts
    return ActionConfirmation(
        title=texts.plain("wallet.revoke.ask"),
        button=texts.plain("wallet.revoke.button"),
        back=PATH,
        facts=(
            (texts.plain("wallet"), names[0] if names else texts.plain("unknown")),
            (texts.plain("app_id"), app_id),
        ),
        warning=texts.plain("wallet.revoke.warning"),
    )


async def revoke_wallet(console_request: ConsoleRequest) -> PlainResponse:
    """Revoke a wallet permanently."""
    request = partner_pb2.RevokeWalletRequest(app_id=console_request.form.text("app"))
    await console_request.call("OperatorService.RevokeWallet", request)
    return console_request.redirect_to(PATH)
