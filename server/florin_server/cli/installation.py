"""The groups of commands that are about the installation, and their options."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, given, group

executors = group("List, pause and resume what settles payments on the chains.")
customers = group("Export or erase what is kept about an account that pays.")
sanctions = group("Import public lists of accounts that are not served, and look accounts up.")

payouts = group("List, begin, refuse and resolve what leaves the treasuries.")

faults = group("List and clear what was armed to go wrong on the embedded chains.")
payments = group("List what blocked payers paid, and decide what becomes of it.")

ledger = group("Compare the books with the chains, and look at them.")

GROUPS = {
    "ledger": ledger,
    "executors": executors,
    "payouts": payouts,
    "payments": payments,
    "customers": customers,
    "sanctions": sanctions,
    "faults": faults,
}

ExecutorId = Annotated[str, typer.Argument(help="The id that `florin executors list` shows.")]
MerchantId = Annotated[str, typer.Argument(help="Merchant id.")]
AssetId = Annotated[str, typer.Argument(help="CAIP-19 asset, e.g. eip155:1/erc20:0x….")]
PayoutId = Annotated[str, typer.Argument(help="The id that `florin payouts list` shows.")]
HeldId = Annotated[str, typer.Argument(help="The id that `florin payments held` shows.")]
Reason = Annotated[str, typer.Option("--note", help="Why, in your words; kept for the books.")]
Account = Annotated[str, typer.Argument(help="CAIP-10 account, e.g. eip155:1:0x….")]
AnyAddress = Annotated[str, typer.Argument(help="CAIP-10 account, or an address alone.")]
ListFile = Annotated[
    Path, typer.Argument(help="The SDN list as advanced XML, or text with an address a line.")
]
ListName = Annotated[
    str | None, typer.Option("--name", help="What the list is called.  [default: the file's name]")
]
Published = Annotated[
    datetime | None,
    typer.Option(
        "--published", formats=["%Y-%m-%d"], help="Date of the list, if the file has none."
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Even if it is empty, much shorter, or an older one.")
]


@executors.command("list")
def executors_list(home: HomeOption = None) -> None:
    """List executors, and what they have under way."""
    from florin_server.cli import executors as command

    command.show(given(home=home))


@executors.command("pause")
def executors_pause(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Stop an executor from sending anything new; what it sent is still followed."""
    from florin_server.cli import executors as command

    command.pause(given(home=home), executor_id)


@executors.command("resume")
def executors_resume(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Let an executor send again."""
    from florin_server.cli import executors as command

    command.resume(given(home=home), executor_id)


@payouts.command("list")
def payouts_list(
    all_: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    home: HomeOption = None,
) -> None:
    """List payouts that are waiting or on their way, and what is wrong with them."""
    from florin_server.cli import payouts as command

    command.show(given(home=home), all_=all_)


@payouts.command("create")
def payouts_create(
    merchant_id: MerchantId,
    asset: AssetId,
    amount: Annotated[
        str, typer.Option(help="Minor units of the asset.  [default: all that is owed]")
    ] = "",
    home: HomeOption = None,
) -> None:
    """Pay a merchant what it is owed, to its settlement destination for the asset."""
    from florin_server.cli import payouts as command

    command.create(given(home=home), merchant_id, asset, amount)


@payouts.command("refuse")
def payouts_refuse(payout_id: PayoutId, home: HomeOption = None) -> None:
    """Call a payout off that is not on its way; the refund that it pays fails."""
    from florin_server.cli import payouts as command

    command.refuse(given(home=home), payout_id)


@ledger.command("check")
def ledger_check(home: HomeOption = None) -> None:
    """Prove the books, and compare them with what the wallets hold on the chains."""
    from florin_server.cli import ledger as command

    command.check(given(home=home))


@ledger.command("book")
def ledger_book(
    account: Account,
    asset: AssetId,
    note: Annotated[str, typer.Option(help="What it was, in your words.")],
    home: HomeOption = None,
) -> None:
    """Book the whole difference of a wallet as your own deposit or withdrawal."""
    from florin_server.cli import ledger as command

    command.book(given(home=home), account, asset, note)


@ledger.command("balances")
def ledger_balances(home: HomeOption = None) -> None:
    """List the balances of all accounts: debits less credits."""
    from florin_server.cli import ledger as command

    command.balances(given(home=home))


@ledger.command("entries")
def ledger_entries(
    payment_id: Annotated[str, typer.Argument(help="Payment id.")], home: HomeOption = None
) -> None:
    """List what was booked for a payment."""
    from florin_server.cli import ledger as command

    command.entries(given(home=home), payment_id)


@payouts.command("resolve")
def payouts_resolve(
    payout_id: PayoutId,
    paid: Annotated[
        bool,
        typer.Option(
            "--paid/--not-paid",
            help="Whether the account has got exactly the amount; if not, it is paid once more.",
            show_default=False,
        ),
    ],
    home: HomeOption = None,
) -> None:
    """End a payout whose transaction is final and does not prove what it moved."""
    from florin_server.cli import payouts as command

    command.resolve(given(home=home), payout_id, paid=paid)


@payments.command("held")
def payments_held(
    all_: Annotated[
        bool, typer.Option("--all", help="Those that were released or returned, too.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """List what came from payers who were blocked by then, and why they are."""
    from florin_server.cli import payments as command

    command.show(given(home=home), all_=all_)


@payments.command("release")
def payments_release(held_id: HeldId, note: Reason, home: HomeOption = None) -> None:
    """Let the merchant have held money; its payment succeeds."""
    from florin_server.cli import payments as command

    command.resolve(given(home=home), held_id, "release", note)


@payments.command("return")
def payments_return(
    held_id: HeldId,
    note: Reason,
    even_if_blocked: Annotated[
        bool, typer.Option("--even-if-blocked", help="To a payer who is still blocked, too.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """Send held money back, with the fee, from the treasury to its payer; its payment fails.

    What the merchant's own destination received is not here, and stays with the merchant.
    """
    from florin_server.cli import payments as command

    command.resolve(given(home=home), held_id, "return", note, even_if_blocked=even_if_blocked)


@payments.command("keep")
def payments_keep(held_id: HeldId, note: Reason, home: HomeOption = None) -> None:
    """Keep held money where it is, e.g. for an authority; its payment fails."""
    from florin_server.cli import payments as command

    command.resolve(given(home=home), held_id, "keep", note)


@customers.command("export")
def customers_export(account: Account, home: HomeOption = None) -> None:
    """Show everything that is kept about an account, as JSON."""
    from florin_server.cli import customers as command

    command.export(given(home=home), account)


@customers.command("erase")
def customers_erase(account: Account, home: HomeOption = None) -> None:
    """Delete what is kept about an account, as far as the books allow."""
    from florin_server.cli import customers as command

    command.erase(given(home=home), account)


@sanctions.command("import")
def sanctions_import(
    file: ListFile,
    name: ListName = None,
    published: Published = None,
    force: Force = False,
    home: HomeOption = None,
) -> None:
    """Put a list in force, in place of the one that has its name."""
    from florin_server.cli import sanctions as command

    command.put(given(home=home), file, name, published, force=force)


@sanctions.command("list")
def sanctions_list(home: HomeOption = None) -> None:
    """List what is in force, and how old it is."""
    from florin_server.cli import sanctions as command

    command.show(given(home=home))


@sanctions.command("check")
def sanctions_check(account: AnyAddress, home: HomeOption = None) -> None:
    """Tell whether an account is served, and which lists it is on."""
    from florin_server.cli import sanctions as command

    command.check(given(home=home), account)


@sanctions.command("remove")
def sanctions_remove(
    name: Annotated[str, typer.Argument(help="Name of the list.")], home: HomeOption = None
) -> None:
    """Take a list out of force."""
    from florin_server.cli import sanctions as command

    command.remove(given(home=home), name)


@faults.command("list")
def faults_list(home: HomeOption = None) -> None:
    """List the faults that are armed; they last until they happen, or Florin stops."""
    from florin_server.cli import faults as command

    command.show(given(home=home))


@faults.command("clear")
def faults_clear(
    kind: Annotated[
        str | None,
        typer.Argument(help="answer, mining, revert, lag or landing.  [default: all]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """End all faults that are armed, or those of one kind."""
    from florin_server.cli import faults as command

    command.clear(given(home=home), kind)
