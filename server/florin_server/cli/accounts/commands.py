"""The groups of commands that are about accounts, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import (
    HomeOption,
    IconOption,
    LiveOption,
    YesOption,
    asking,
    given,
    group,
)
from florin_server.cli.server import At

keys = group("Make, list and revoke API keys.")
partners = group("Make, list, suspend and resume partners: they own keys and merchants.")
wallets = group("Register, list and revoke wallets that come with a public app id.")
merchants = group(
    "As a partner, list merchants and where their money goes; as the operator, import and stop "
    "them, and register their bank accounts."
)
versions = group("List versions of the API, and who is pinned to which; move pins forward.")
customers = group("Export or erase what is kept about an account that pays.")

GROUPS = {
    "partners": partners,
    "keys": keys,
    "wallets": wallets,
    "merchants": merchants,
    "versions": versions,
    "customers": customers,
}

KeyId = Annotated[str, typer.Argument(help="The id that `florin keys list` shows.")]
KeyName = Annotated[str | None, typer.Option("--name", help="What you call it.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        help="read, create (and cancel), refund, settle (where money goes) or manage (merchants); "
        "repeatable.  [default: all that its kind may]",
    ),
]
PartnerId = Annotated[str, typer.Argument(help="The id that `florin partners list` shows.")]
MerchantId = Annotated[str, typer.Argument(help="Merchant id.")]
ShownMerchant = Annotated[
    str | None, typer.Argument(help="Merchant id.  [default: as --merchant says]")
]
Account = Annotated[str, typer.Argument(help="CAIP-10 account, e.g. eip155:1:0x….")]


@keys.command("create")
def keys_create(  # noqa: PLR0917  (typer gives them by name)
    kind: Annotated[str, typer.Argument(help="partner or wallet")],
    partner: Annotated[str, typer.Option(help="Partner id, for a partner key.")] = "",
    name: KeyName = None,
    scope: Scopes = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Make a key and show its secret, once."""
    from florin_server.cli.accounts import keys as command

    command.create(given(home=home), kind, partner, name or "", scope or (), live=live)


@keys.command("list")
def keys_list(
    partner: Annotated[str, typer.Option(help="Only this partner's keys.")] = "",
    home: HomeOption = None,
) -> None:
    """List keys without their secrets."""
    from florin_server.cli.accounts import keys as command

    command.show(given(home=home), partner)


@keys.command("set")
def keys_set(
    key_id: KeyId, name: KeyName = None, scope: Scopes = None, home: HomeOption = None
) -> None:
    """Change the name of a key, or what it may do from now on."""
    from florin_server.cli.accounts import keys as command

    command.change(given(home=home), key_id, name, scope or ())


@keys.command("revoke")
def keys_revoke(
    key_id: KeyId,
    home: HomeOption = None,
) -> None:
    """Revoke a key for good."""
    from florin_server.cli.accounts import keys as command

    command.revoke(given(home=home), key_id)


@partners.command("create")
def partners_create(
    name: Annotated[str, typer.Argument(help="Name of the business.")],
    home: HomeOption = None,
) -> None:
    """Make a partner and show its id."""
    from florin_server.cli.accounts import partners as command

    command.create(given(home=home), name)


@partners.command("list")
def partners_list(home: HomeOption = None) -> None:
    """List partners, newest first."""
    from florin_server.cli.accounts import partners as command

    command.show(given(home=home))


@partners.command("suspend")
def partners_suspend(partner_id: PartnerId, home: HomeOption = None) -> None:
    """Make all keys of a partner useless, until it is resumed."""
    from florin_server.cli.accounts import partners as command

    command.suspend(given(home=home), partner_id)


@partners.command("resume")
def partners_resume(partner_id: PartnerId, home: HomeOption = None) -> None:
    """Let the keys of a suspended partner work again."""
    from florin_server.cli.accounts import partners as command

    command.resume(given(home=home), partner_id)


@wallets.command("register")
def wallets_register(
    name: Annotated[str, typer.Argument(help="What merchants and buyers read.")],
    icon_url: IconOption = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Register a wallet and show its app id."""
    from florin_server.cli.accounts import wallets as command

    command.register(given(home=home), name, icon_url, live=live)


@wallets.command("list")
def wallets_list(home: HomeOption = None) -> None:
    """List wallets, newest first, revoked ones too."""
    from florin_server.cli.accounts import wallets as command

    command.show(given(home=home))


@wallets.command("revoke")
def wallets_revoke(
    app_id: Annotated[str, typer.Argument(help="The id that `florin wallets list` shows.")],
    home: HomeOption = None,
) -> None:
    """Revoke a wallet for good."""
    from florin_server.cli.accounts import wallets as command

    command.revoke(given(home=home), app_id)


@merchants.command("list")
@asking
def merchants_list(
    *,
    search: Annotated[
        str | None, typer.Option("--search", help="A part of the name or the id.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 50,
    at: At,
) -> None:
    """List the partner's merchants, newest first."""
    from florin_server.cli.accounts import profiles as command

    command.show_all(at, search, limit)


@merchants.command("show")
@asking
def merchants_show(merchant_id: ShownMerchant = None, *, at: At) -> None:
    """Show a merchant, and where its money goes."""
    from florin_server.cli.accounts import profiles as command

    command.show(at, merchant_id)


@merchants.command("destinations")
@asking
def merchants_destinations(
    merchant_id: ShownMerchant = None,
    *,
    put: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="ASSET=ACCOUNT, CAIP-19 and CAIP-10: where it goes from now on; repeatable.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option("--remove", help="An asset that is held for the merchant then; repeatable."),
    ] = None,
    yes: YesOption = False,
    at: At,
) -> None:
    """List where a merchant's money goes, or change it; shows what changes, and asks."""
    from florin_server.cli.accounts import profiles as command

    command.destinations(at, merchant_id, put or (), remove or (), yes=yes)


@merchants.command("import")
def merchants_import(
    merchant_id: MerchantId,
    *,
    partner: Annotated[str, typer.Option(help="Partner id.")],
    name: Annotated[str, typer.Option(help="What buyers read.")],
    email: Annotated[str, typer.Option(help="Where you reach it.")],
    icon_url: IconOption = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Make a merchant under a given id, e.g. one that is known elsewhere."""
    from florin_server.cli.accounts import merchants as command

    command.add(
        given(home=home),
        merchant_id,
        partner=partner,
        name=name,
        email=email,
        icon_url=icon_url,
        live=live,
    )


@merchants.command("status")
def merchants_status(
    merchant_id: MerchantId,
    status: Annotated[str, typer.Argument(help="active, inactive or suspended")],
    home: HomeOption = None,
) -> None:
    """Change whether a merchant may take new payments."""
    from florin_server.cli.accounts import merchants as command

    command.set_status(given(home=home), merchant_id, status)


@merchants.command("bank")
def merchants_bank(
    merchant_id: MerchantId,
    bank_type: Annotated[str, typer.Option("--type", help="Kind of account, e.g. iban.")],
    status: Annotated[str, typer.Option(help="Where its registration stands.")] = "active",
    home: HomeOption = None,
) -> None:
    """Add a bank account to the settlements of a merchant and show the settlement's id."""
    from florin_server.cli.accounts import merchants as command

    command.add_bank_account(given(home=home), merchant_id, bank_type, status)


@versions.command("list")
def versions_list(home: HomeOption = None) -> None:
    """List the published versions, and every account that is not revoked with its pin."""
    from florin_server.cli.accounts import versions as command

    command.show(given(home=home))


@versions.command("pin")
def versions_pin(
    version: Annotated[str, typer.Argument(help="A published version, previews too.")],
    partner: Annotated[str, typer.Option(help="Partner id.")] = "",
    wallet: Annotated[str, typer.Option(help="App id.")] = "",
    key: Annotated[str, typer.Option(help="Id of a wallet key.")] = "",
    home: HomeOption = None,
) -> None:
    """Move the version pin of one account forward; it never moves back."""
    from florin_server.cli.accounts import versions as command

    command.pin(given(home=home), version, partner=partner, wallet=wallet, key=key)


@customers.command("export")
def customers_export(account: Account, home: HomeOption = None) -> None:
    """Show everything that is kept about an account, as JSON."""
    from florin_server.cli.accounts import customers as command

    command.export(given(home=home), account)


@customers.command("erase")
def customers_erase(account: Account, home: HomeOption = None) -> None:
    """Delete what is kept about an account, as far as the books allow."""
    from florin_server.cli.accounts import customers as command

    command.erase(given(home=home), account)
