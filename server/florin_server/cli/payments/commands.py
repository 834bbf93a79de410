"""The groups of commands that are about money, and their options."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from florin_server.cli.options import TIMES, HomeOption, YesOption, asking, given, group
from florin_server.cli.server import At

ledger = group("Compare the books with the chains, and look at them.")
payouts = group("List, begin, refuse and resolve what leaves the treasuries.")
payments = group(
    "Make, list and follow payments, as a merchant; and decide what becomes of what blocked payers "
    "paid."
)

GROUPS = {"ledger": ledger, "payouts": payouts, "payments": payments}

MerchantId = Annotated[str, typer.Argument(help="Merchant id.")]
AssetId = Annotated[str, typer.Argument(help="CAIP-19 asset, e.g. eip155:1/erc20:0x….")]
PayoutId = Annotated[str, typer.Argument(help="The id that `florin payouts list` shows.")]
HeldId = Annotated[str, typer.Argument(help="The id that `florin payments held` shows.")]
Reason = Annotated[str, typer.Option("--note", help="Why, in your words; kept for the books.")]
PaymentId = Annotated[str, typer.Argument(help="Payment id, or its link.")]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Until it is over; ends with 7 if not as it should be.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        help="The same one does the same thing once.  [default: one of its own]",
    ),
]
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
        str,
        typer.Option(
            help='Minor units of the asset, or "5.00 USDC" while Florin runs.'
            "  [default: all that is owed]"
        ),
    ] = "",
    yes: YesOption = False,
    home: HomeOption = None,
) -> None:
    """Pay a merchant what it is owed, to its settlement destination for the asset.

    Shows amount, receiver and who pays the network fee, and asks.
    """
    from florin_server.cli.payments import payouts as command

    command.create(given(home=home), merchant_id, asset, amount, yes=yes)


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


@payments.command("create")
@asking
def payments_create(
    amount: Annotated[
        list[str],
        typer.Argument(help='What it costs, "12.50 USD", or minor units of a token, "5 caip19/…".'),
    ],
    *,
    reference: Annotated[
        str | None, typer.Option("--reference", help="Your own reference of the order.")
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option("--expires-in", help="How long it can be paid: 90s, 30m, 2h or 7d."),
    ] = None,
    success_url: Annotated[
        str | None, typer.Option("--success-url", help="Where the buyer goes who has paid.")
    ] = None,
    error_url: Annotated[
        str | None, typer.Option("--error-url", help="Where the buyer goes who has not.")
    ] = None,
    wait: WaitOption = False,
    qr: Annotated[
        bool | None,
        typer.Option("--qr/--no-qr", help="The link as a code to scan.  [default: on a terminal]"),
    ] = None,
    idempotency_key: KeyOption = None,
    at: At,
) -> None:
    """Make a payment, and show the link that its buyer opens."""
    from florin_server.cli.payments import create as command

    wanted = command.Wanted(amount, reference, expires_in, success_url, error_url, idempotency_key)
    command.run(at, wanted, wait=wait, qr=qr)


@payments.command("list")
@asking
def payments_list(
    *,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="Only in this status; repeatable.")
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="Only with this reference.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option("--since", formats=TIMES, help="Only made then or later (UTC)."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", formats=TIMES, help="Only made before (UTC).")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 50,
    at: At,
) -> None:
    """List the merchant's payments, newest first."""
    from florin_server.cli.payments import listing as command

    wanted = command.Wanted(tuple(status or ()), reference, since, until, limit)
    command.run(at, wanted)


@payments.command("show")
@asking
def payments_show(payment_id: PaymentId, *, at: At) -> None:
    """Show everything about a payment."""
    from florin_server.cli.payments import show as command

    command.run(at, payment_id)


@payments.command("tail")
@asking
def payments_tail(
    payment_id: Annotated[
        str | None, typer.Argument(help="Payment id or link.  [default: all of the merchant]")
    ] = None,
    *,
    after_version: Annotated[
        int | None,
        typer.Option("--after-version", min=0, help="Only what came after it, of one payment."),
    ] = None,
    at: At,
) -> None:
    """Follow a payment to its end, or all of the merchant until Ctrl-C.

    A connection that is lost is made again, and nothing is told twice. Of one payment each change
    is told; of all of them how the newest 50 stand, looked at every two seconds.
    """
    from florin_server.cli.payments import tail as command

    if payment_id is None:
        command.all_(at, after_version)
    else:
        command.one(at, payment_id, after_version)


@payments.command("cancel")
@asking
def payments_cancel(
    payment_id: PaymentId, *, yes: YesOption = False, idempotency_key: KeyOption = None, at: At
) -> None:
    """Call a payment off that nobody has paid; shows it, and asks."""
    from florin_server.cli.payments import cancel as command

    command.run(at, payment_id, yes=yes, key=idempotency_key)


@payments.command("refund")
@asking
def payments_refund(
    payment_id: PaymentId,
    *,
    amount: Annotated[
        str | None,
        typer.Option(
            help='A part: "5.00 USD" at the payment\'s own rate, or "0.002 tETH" of what was paid.'
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why, for your own records.")] = None,
    yes: YesOption = False,
    wait: WaitOption = False,
    idempotency_key: KeyOption = None,
    at: At,
) -> None:
    """Pay a payment, or a part, back to the account that paid it; asks first."""
    from florin_server.cli.payments import refund as command

    part = command.Part(amount, reason)
    command.run(at, payment_id, part, yes=yes, wait=wait, key=idempotency_key)


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
