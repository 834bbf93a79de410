"""The groups of commands that are about money, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, given, group

ledger = group("Compare the books with the chains, and look at them.")
payouts = group("List, begin, refuse and resolve what leaves the treasuries.")
payments = group("List what blocked payers paid, and decide what becomes of it.")

GROUPS = {"ledger": ledger, "payouts": payouts, "payments": payments}

MerchantId = Annotated[str, typer.Argument(help="Merchant id.")]
AssetId = Annotated[str, typer.Argument(help="CAIP-19 asset, e.g. eip155:1/erc20:0x….")]
PayoutId = Annotated[str, typer.Argument(help="The id that `florin payouts list` shows.")]
HeldId = Annotated[str, typer.Argument(help="The id that `florin payments held` shows.")]
Reason = Annotated[str, typer.Option("--note", help="Why, in your words; kept for the books.")]
Account = Annotated[str, typer.Argument(help="CAIP-10 account, e.g. eip155:1:0x….")]


@ledger.command("check")
def ledger_check(home: HomeOption = None) -> None:
    """Prove the books, and compare them with what the wallets hold on the chains."""
    from florin_server.cli.payments import ledger as command

    command.check(given(home=home))


@ledger.command("book")
def ledger_book(
    account: Account,
    asset: AssetId,
    note: Annotated[str, typer.Option(help="What it was, in your words.")],
    home: HomeOption = None,
) -> None:
    """Book the whole difference of a wallet as your own deposit or withdrawal."""
    from florin_server.cli.payments import ledger as command

    command.book(given(home=home), account, asset, note)


@ledger.command("balances")
def ledger_balances(home: HomeOption = None) -> None:
    """List the balances of all accounts: debits less credits."""
    from florin_server.cli.payments import ledger as command

    command.balances(given(home=home))


@ledger.command("entries")
def ledger_entries(
    payment_id: Annotated[str, typer.Argument(help="Payment id.")], home: HomeOption = None
) -> None:
    """List what was booked for a payment."""
    from florin_server.cli.payments import ledger as command

    command.entries(given(home=home), payment_id)


@payouts.command("list")
def payouts_list(
    all_: Annotated[bool, typer.Option("--all", help="Those that are over, too.")] = False,
    home: HomeOption = None,
) -> None:
    """List payouts that are waiting or on their way, and what is wrong with them."""
    from florin_server.cli.payments import payouts as command

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
    from florin_server.cli.payments import payouts as command

    command.create(given(home=home), merchant_id, asset, amount)


@payouts.command("refuse")
def payouts_refuse(payout_id: PayoutId, home: HomeOption = None) -> None:
    """Call a payout off that is not on its way; the refund that it pays fails."""
    from florin_server.cli.payments import payouts as command

    command.refuse(given(home=home), payout_id)


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
    from florin_server.cli.payments import payouts as command

    command.resolve(given(home=home), payout_id, paid=paid)


@payments.command("held")
def payments_held(
    all_: Annotated[
        bool, typer.Option("--all", help="Those that were released or returned, too.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """List what came from payers who were blocked by then, and why they are."""
    from florin_server.cli.payments import held as command

    command.show(given(home=home), all_=all_)


@payments.command("release")
def payments_release(held_id: HeldId, note: Reason, home: HomeOption = None) -> None:
    """Let the merchant have held money; its payment succeeds."""
    from florin_server.cli.payments import held as command

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
    from florin_server.cli.payments import held as command

    command.resolve(given(home=home), held_id, "return", note, even_if_blocked=even_if_blocked)


@payments.command("keep")
def payments_keep(held_id: HeldId, note: Reason, home: HomeOption = None) -> None:
    """Keep held money where it is, e.g. for an authority; its payment fails."""
    from florin_server.cli.payments import held as command

    command.resolve(given(home=home), held_id, "keep", note)
