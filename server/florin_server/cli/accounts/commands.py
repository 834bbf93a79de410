"""Define the command groups for accounts, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import (
    HomeOption,
    IconOption,
    LiveOption,
    YesOption,
    build_overrides,
    create_group,
    with_merchant_connection,
)
from florin_server.cli.server import ConnectionOptions

keys = create_group("Create, list, change and revoke API keys.")
partners = create_group("Create, list, suspend and resume partners.")
wallets = create_group("Register, list and revoke wallets with an app id.")
merchants = create_group(
    "List and change merchants and their destinations.\n\n"
    "`list`, `show` and `destinations` need the partner's key; the operator runs the others."
)
versions = create_group("List API versions and version pins; move pins forward.")
customers = create_group("Export or erase the data stored about a payer.")

GROUPS = {
    "partners": partners,
    "keys": keys,
    "wallets": wallets,
    "merchants": merchants,
    "versions": versions,
    "customers": customers,
}

KeyId = Annotated[str, typer.Argument(help="Key id, from `florin keys list`.")]
KeyName = Annotated[str | None, typer.Option("--name", help="Your name for the key.")]
Scopes = Annotated[
    list[str] | None,
    typer.Option(
        "--scope",
        help="read, create (and cancel), refund, settle (destinations) or manage (merchants); "
        "repeatable.  [default: all scopes of the kind of key]",
    ),
]
PartnerId = Annotated[str, typer.Argument(help="Partner id, from `florin partners list`.")]
MerchantId = Annotated[str, typer.Argument(help="Merchant id.")]
SupportEmailOption = Annotated[
    str | None, typer.Option("--support-email", help="Address for questions of buyers.")
]
SupportUrlOption = Annotated[
    str | None, typer.Option("--support-url", help="Page for questions of buyers.")
]
OptionalMerchantId = Annotated[
    str | None, typer.Argument(help="Merchant id.  [default: the one of --merchant]")
]
Account = Annotated[str, typer.Argument(help="CAIP-10 account, e.g. eip155:1:0x…")]


@keys.command("create")
def keys_create(  # noqa: PLR0917  (typer gives them by name)
    kind: Annotated[str, typer.Argument(help="partner or wallet.")],
    partner: Annotated[str, typer.Option(help="Partner id; required for a partner key.")] = "",
    name: KeyName = None,
    scope: Scopes = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Create an API key and show its secret once.

    Example: `florin keys create partner --partner prtn_1a2b --scope read`
    """
    from florin_server.cli.accounts import keys as command

    command.create_key(
        build_overrides(home=home), kind, partner, name or "", scope or (), live=live
    )


@keys.command("list")
def keys_list(
    partner: Annotated[str, typer.Option(help="Only this partner's keys.")] = "",
    home: HomeOption = None,
) -> None:
    """List API keys, without their secrets.

    Example: `florin keys list --partner prtn_1a2b`
    """
    from florin_server.cli.accounts import keys as command

    command.list_keys(build_overrides(home=home), partner)


@keys.command("set")
def keys_set(
    key_id: KeyId, name: KeyName = None, scope: Scopes = None, home: HomeOption = None
) -> None:
    """Change the name or the scopes of a key.

    Example: `florin keys set key_1a2b --scope read --scope create`
    """
    from florin_server.cli.accounts import keys as command

    command.update_key(build_overrides(home=home), key_id, name, scope or ())


@keys.command("revoke")
def keys_revoke(
    key_id: KeyId,
    home: HomeOption = None,
) -> None:
    """Revoke a key permanently.

    Example: `florin keys revoke key_1a2b`
    """
    from florin_server.cli.accounts import keys as command

    command.revoke_key(build_overrides(home=home), key_id)


@partners.command("create")
def partners_create(
    name: Annotated[str, typer.Argument(help="Name of the business.")],
    home: HomeOption = None,
) -> None:
    """Create a partner and show its id.

    A partner is a business that owns API keys and merchants.

    Example: `florin partners create "Tea and Cake"`
    """
    from florin_server.cli.accounts import partners as command

    command.create_partner(build_overrides(home=home), name)


@partners.command("list")
def partners_list(home: HomeOption = None) -> None:
    """List partners, newest first.

    Example: `florin partners list --json`
    """
    from florin_server.cli.accounts import partners as command

    command.list_partners(build_overrides(home=home))


@partners.command("suspend")
def partners_suspend(partner_id: PartnerId, home: HomeOption = None) -> None:
    """Reject all API keys of a partner until it is resumed.

    Example: `florin partners suspend prtn_1a2b`
    """
    from florin_server.cli.accounts import partners as command

    command.suspend_partner(build_overrides(home=home), partner_id)


@partners.command("resume")
def partners_resume(partner_id: PartnerId, home: HomeOption = None) -> None:
    """Accept the API keys of a suspended partner again.

    Example: `florin partners resume prtn_1a2b`
    """
    from florin_server.cli.accounts import partners as command

    command.resume_partner(build_overrides(home=home), partner_id)


@wallets.command("register")
def wallets_register(
    name: Annotated[str, typer.Argument(help="Name that merchants and buyers see.")],
    icon_url: IconOption = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Register a wallet and show its app id.

    Example: `florin wallets register "Purse" --live`
    """
    from florin_server.cli.accounts import wallets as command

    command.register_wallet(build_overrides(home=home), name, icon_url, live=live)


@wallets.command("list")
def wallets_list(home: HomeOption = None) -> None:
    """List wallets, newest first, including revoked ones.

    Example: `florin wallets list --json`
    """
    from florin_server.cli.accounts import wallets as command

    command.list_wallets(build_overrides(home=home))


@wallets.command("revoke")
def wallets_revoke(
    app_id: Annotated[str, typer.Argument(help="App id, from `florin wallets list`.")],
    home: HomeOption = None,
) -> None:
    """Revoke a wallet permanently.

    Example: `florin wallets revoke app_1a2b`
    """
    from florin_server.cli.accounts import wallets as command

    command.revoke_wallet(build_overrides(home=home), app_id)


@merchants.command("list")
@with_merchant_connection
def merchants_list(
    *,
    search: Annotated[
        str | None, typer.Option("--search", help="Part of the name or of the id.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most merchants to list.")] = 50,
    connection: ConnectionOptions,
) -> None:
    """List the partner's merchants, newest first.

    Example: `florin merchants list --search tea`
    """
    from florin_server.cli.accounts import profiles as command

    command.list_merchants(connection, search, limit)


@merchants.command("show")
@with_merchant_connection
def merchants_show(
    merchant_id: OptionalMerchantId = None, *, connection: ConnectionOptions
) -> None:
    """Show a merchant and its destinations.

    Example: `florin merchants show mrch_1a2b`
    """
    from florin_server.cli.accounts import profiles as command

    command.show_merchant(connection, merchant_id)


@merchants.command("destinations")
@with_merchant_connection
def merchants_destinations(
    merchant_id: OptionalMerchantId = None,
    *,
    put: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="ASSET=ACCOUNT, CAIP-19 and CAIP-10: new destination of an asset; repeatable.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            "--remove",
            help="Asset whose destination to remove; Florin then holds its money; repeatable.",
        ),
    ] = None,
    yes: YesOption = False,
    connection: ConnectionOptions,
) -> None:
    """List or change the destinations of a merchant.

    Shows each change and asks before it makes them.

    Example: `florin merchants destinations mrch_1a2b`
    """
    from florin_server.cli.accounts import profiles as command

    command.update_destinations(connection, merchant_id, put or (), remove or (), yes=yes)


@merchants.command("import")
def merchants_import(
    merchant_id: MerchantId,
    *,
    partner: Annotated[str, typer.Option(help="Partner id.")],
    name: Annotated[str, typer.Option(help="Name that buyers see.")],
    email: Annotated[str, typer.Option(help="Contact address of the merchant.")],
    icon_url: IconOption = None,
    support_email: SupportEmailOption = None,
    support_url: SupportUrlOption = None,
    live: LiveOption = False,
    home: HomeOption = None,
) -> None:
    """Create a merchant with an id that you choose.

    Example: `florin merchants import tea --partner p1 --name Tea --email a@b.c`
    """
    from florin_server.cli.accounts import merchants as command

    command.import_merchant(
        build_overrides(home=home),
        merchant_id,
        partner=partner,
        name=name,
        email=email,
        icon_url=icon_url,
        support_email=support_email,
        support_url=support_url,
        live=live,
    )


@merchants.command("support")
def merchants_support(
    merchant_id: MerchantId,
    *,
    email: SupportEmailOption = None,
    url: SupportUrlOption = None,
    home: HomeOption = None,
) -> None:
    """Set the contact for questions of buyers.

    The checkout page shows it. An empty text removes an address.

    Example: `florin merchants support mrch_1a2b --support-email help@b.c`
    """
    from florin_server.cli.accounts import merchants as command

    command.set_support(build_overrides(home=home), merchant_id, email, url)


@merchants.command("status")
def merchants_status(
    merchant_id: MerchantId,
    status: Annotated[str, typer.Argument(help="active, inactive or suspended.")],
    home: HomeOption = None,
) -> None:
    """Set whether a merchant can take new payments.

    Example: `florin merchants status mrch_1a2b suspended`
    """
    from florin_server.cli.accounts import merchants as command

    command.set_status(build_overrides(home=home), merchant_id, status)


@merchants.command("bank")
def merchants_bank(
    merchant_id: MerchantId,
    bank_type: Annotated[str, typer.Option("--type", help="Kind of bank account, e.g. iban.")],
    status: Annotated[str, typer.Option(help="Status of its registration.")] = "active",
    home: HomeOption = None,
) -> None:
    """Register a bank account of a merchant.

    Shows the id of the new settlement.

    Example: `florin merchants bank mrch_1a2b --type iban`
    """
    from florin_server.cli.accounts import merchants as command

    command.add_bank_account(build_overrides(home=home), merchant_id, bank_type, status)


@versions.command("list")
def versions_list(home: HomeOption = None) -> None:
    """List API versions, and the pins of active accounts.

    Example: `florin versions list`
    """
    from florin_server.cli.accounts import versions as command

    command.list_versions(build_overrides(home=home))


@versions.command("pin")
def versions_pin(
    version: Annotated[str, typer.Argument(help="Published version; can be a preview.")],
    partner: Annotated[str, typer.Option(help="Partner id.")] = "",
    wallet: Annotated[str, typer.Option(help="App id of a wallet.")] = "",
    key: Annotated[str, typer.Option(help="Id of a wallet key.")] = "",
    home: HomeOption = None,
) -> None:
    """Move the version pin of one account forward, never back.

    Example: `florin versions pin 2026-02-19.preview --partner prtn_1a2b`
    """
    from florin_server.cli.accounts import versions as command

    command.move_pin(build_overrides(home=home), version, partner=partner, wallet=wallet, key=key)


@customers.command("export")
def customers_export(
    account: Account,
    archive: Annotated[
        bool, typer.Option("--archive/--no-archive", help="Include archived payments.")
    ] = True,
    home: HomeOption = None,
) -> None:
    """Print all data stored about an account, as JSON.

    Reads all files of the archive, where the settings name its folder. Fails if one is missing or
    was changed.

    Example: `florin customers export eip155:1:0x…`
    """
    from florin_server.cli.accounts import customers as command

    command.export_customer(build_overrides(home=home), account, with_archive=archive)


@customers.command("erase")
def customers_erase(account: Account, home: HomeOption = None) -> None:
    """Erase the data stored about an account.

    The records of payments that moved money stay, and the archive is not changed.

    Example: `florin customers erase eip155:1:0x…`
    """
    from florin_server.cli.accounts import customers as command

    command.erase_customer(build_overrides(home=home), account)
