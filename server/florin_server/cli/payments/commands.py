"""Define the command groups for payments, payouts and the ledger, and their options."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from florin_server.cli.options import (
    TIME_FORMATS,
    HomeOption,
    YesOption,
    build_overrides,
    create_group,
    with_merchant_connection,
)
from florin_server.cli.server import ConnectionOptions

ledger = create_group("Check the ledger against the chains, and list it.")
payouts = create_group("List, create, refuse and resolve payouts.")
payments = create_group(
    "Create, follow and refund payments; resolve held money.\n\n"
    "The operator runs `held`, `release`, `return` and `keep`, for the money of blocked payers."
)

GROUPS = {"ledger": ledger, "payouts": payouts, "payments": payments}

MerchantId = Annotated[str, typer.Argument(help="Merchant id.")]
AssetId = Annotated[str, typer.Argument(help="CAIP-19 asset, e.g. eip155:1/erc20:0x…")]
PayoutId = Annotated[str, typer.Argument(help="Payout id, from `florin payouts list`.")]
HeldId = Annotated[str, typer.Argument(help="Held id, from `florin payments held`.")]
Reason = Annotated[
    str, typer.Option("--note", help="Reason, in your words; it stays in the records.")
]
PaymentId = Annotated[str, typer.Argument(help="Payment id or payment link.")]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait for the end; exit with 7 unless it succeeds.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        help="Repeating the command with the same key has no further effect.  "
        "[default: chosen by the command]",
    ),
]
Account = Annotated[str, typer.Argument(help="CAIP-10 account, e.g. eip155:1:0x…")]


@ledger.command("check")
def ledger_check(home: HomeOption = None) -> None:
    """Check that the ledger balances and matches the chains.

    Ends with 1 if money is missing, or a chain could not be read.

    Example: `florin ledger check`
    """
    from florin_server.cli.payments import ledger as command

    command.check_ledger(build_overrides(home=home))


@ledger.command("book")
def ledger_book(
    account: Account,
    asset: AssetId,
    note: Annotated[str, typer.Option(help="What the difference was, in your words.")],
    merchant: Annotated[
        str | None, typer.Option(help="Id of the merchant who paid it to you, e.g. for owed fees.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Book a wallet's difference as your deposit or withdrawal.

    Books the whole difference between the ledger and the chain, and prints it.

    Example: `florin ledger book eip155:1:0x… eip155:1/slip44:60 --note "gas"`
    """
    from florin_server.cli.payments import ledger as command

    command.book_adjustment(build_overrides(home=home), account, asset, note, merchant)


@ledger.command("balances")
def ledger_balances(home: HomeOption = None) -> None:
    """List the balances of all accounts, debits minus credits.

    Example: `florin ledger balances --json`
    """
    from florin_server.cli.payments import ledger as command

    command.balances(build_overrides(home=home))


@ledger.command("entries")
def ledger_entries(
    payment_id: Annotated[str, typer.Argument(help="Payment id.")], home: HomeOption = None
) -> None:
    """List the book entries of a payment.

    Example: `florin ledger entries pay_1a2b`
    """
    from florin_server.cli.payments import ledger as command

    command.list_entries(build_overrides(home=home), payment_id)


@payouts.command("list")
def payouts_list(
    all_: Annotated[bool, typer.Option("--all", help="Include finished payouts.")] = False,
    home: HomeOption = None,
) -> None:
    """List open payouts and their problems.

    Example: `florin payouts list --all`
    """
    from florin_server.cli.payments import payouts as command

    command.list_payouts(build_overrides(home=home), all_=all_)


@payouts.command("create")
def payouts_create(
    merchant_id: MerchantId,
    asset: AssetId,
    amount: Annotated[
        str,
        typer.Option(
            help='Minor units of the asset, or "5.00 USDC" while Florin runs.'
            "  [default: everything owed]"
        ),
    ] = "",
    yes: YesOption = False,
    home: HomeOption = None,
) -> None:
    """Pay out what a merchant is owed, to its destination.

    Shows the amount, the receiver and the payer of the network fee, and asks.

    Example: `florin payouts create mrch_1a2b eip155:1/erc20:0x… --amount 500`
    """
    from florin_server.cli.payments import payouts as command

    command.create_payout(build_overrides(home=home), merchant_id, asset, amount, yes=yes)


@payouts.command("refuse")
def payouts_refuse(payout_id: PayoutId, home: HomeOption = None) -> None:
    """Cancel a payout that is not sent yet.

    If the payout pays a refund, the refund fails.

    Example: `florin payouts refuse pout_1a2b`
    """
    from florin_server.cli.payments import payouts as command

    command.refuse_payout(build_overrides(home=home), payout_id)


@payouts.command("resolve")
def payouts_resolve(
    payout_id: PayoutId,
    paid: Annotated[
        bool,
        typer.Option(
            "--paid/--not-paid",
            help="Whether the account received exactly the amount; if not, Florin pays again.",
            show_default=False,
        ),
    ],
    home: HomeOption = None,
) -> None:
    """Decide a payout whose final transaction proves no payment.

    Example: `florin payouts resolve pout_1a2b --paid`
    """
    from florin_server.cli.payments import payouts as command

    command.resolve_payout(build_overrides(home=home), payout_id, is_paid=paid)


@payments.command("create")
@with_merchant_connection
def payments_create(
    amount: Annotated[
        list[str],
        typer.Argument(
            help='Price, e.g. "12.50 USD"; for a token its minor units, e.g. "5 caip19/…".'
        ),
    ],
    *,
    reference: Annotated[
        str | None, typer.Option("--reference", help="Your reference for the order.")
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option("--expires-in", help="Time to pay, e.g. 90s, 30m, 2h or 7d."),
    ] = None,
    success_url: Annotated[
        str | None, typer.Option("--success-url", help="Page for buyers after they pay.")
    ] = None,
    error_url: Annotated[
        str | None, typer.Option("--error-url", help="Page for buyers if they do not pay.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", help="What is paid for; buyers see it.")
    ] = None,
    line: Annotated[
        list[str] | None,
        typer.Option(
            "--line",
            help='Line of the order with its whole amount, e.g. "2 x Flat white=9.00"; '
            "repeatable; the lines add up to the price.",
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", help="KEY=VALUE for your records; repeatable; never shown."),
    ] = None,
    wait: WaitOption = False,
    qr: Annotated[
        bool | None,
        typer.Option("--qr/--no-qr", help="Show the link as a QR code.  [default: on a terminal]"),
    ] = None,
    idempotency_key: KeyOption = None,
    connection: ConnectionOptions,
) -> None:
    """Create a payment and show its link for the buyer.

    Example: `florin payments create 12.50 USD --reference order-2001`
    """
    from florin_server.cli.payments import create as command

    options = command.CreatePaymentOptions(
        amount,
        reference,
        expires_in,
        success_url,
        error_url,
        idempotency_key,
        description,
        line or (),
        metadata or (),
    )
    command.create_payment(connection, options, wait=wait, qr=qr)


@payments.command("list")
@with_merchant_connection
def payments_list(
    *,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only payments with this status; repeatable."),
    ] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="Only payments with this reference.")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since", formats=TIME_FORMATS, help="Only payments created then or later (UTC)."
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option("--until", formats=TIME_FORMATS, help="Only payments created before (UTC)."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most payments to list.")] = 50,
    connection: ConnectionOptions,
) -> None:
    """List the merchant's payments, newest first.

    Example: `florin payments list --status succeeded --limit 5`
    """
    from florin_server.cli.payments import listing as command

    options = command.ListPaymentsOptions(tuple(status or ()), reference, since, until, limit)
    command.list_payments(connection, options)


@payments.command("show")
@with_merchant_connection
def payments_show(payment_id: PaymentId, *, connection: ConnectionOptions) -> None:
    """Show a payment and its refunds.

    Example: `florin payments show pay_1a2b`
    """
    from florin_server.cli.payments import show as command

    command.show_payment(connection, payment_id)


@payments.command("tail")
@with_merchant_connection
def payments_tail(
    payment_id: Annotated[
        str | None,
        typer.Argument(help="Payment id or link.  [default: all payments of the merchant]"),
    ] = None,
    *,
    after_version: Annotated[
        int | None,
        typer.Option(
            "--after-version", min=0, help="Only changes after this version; needs a payment."
        ),
    ] = None,
    connection: ConnectionOptions,
) -> None:
    """Follow a payment, or all payments of the merchant.

    For one payment, prints each change until the payment ends. If the connection is lost, the
    command reconnects and repeats nothing. For all payments, it reads the newest 50 every two
    seconds until Ctrl-C and prints those that changed.

    Example: `florin payments tail pay_1a2b`
    """
    from florin_server.cli.payments import tail as command

    if payment_id is None:
        command.follow_all(connection, after_version)
    else:
        command.follow_one(connection, payment_id, after_version)


@payments.command("cancel")
@with_merchant_connection
def payments_cancel(
    payment_id: PaymentId,
    *,
    yes: YesOption = False,
    idempotency_key: KeyOption = None,
    connection: ConnectionOptions,
) -> None:
    """Cancel an unpaid payment.

    Shows the payment and asks.

    Example: `florin payments cancel pay_1a2b`
    """
    from florin_server.cli.payments import cancel as command

    command.cancel_payment(connection, payment_id, yes=yes, key=idempotency_key)


@payments.command("refund")
@with_merchant_connection
def payments_refund(
    payment_id: PaymentId,
    *,
    amount: Annotated[
        str | None,
        typer.Option(
            help='Part to refund: "5.00 USD" at the rate of the payment, or "0.002 tETH" of the '
            "asset that was paid.  [default: everything]"
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, for your records.")] = None,
    yes: YesOption = False,
    wait: WaitOption = False,
    idempotency_key: KeyOption = None,
    connection: ConnectionOptions,
) -> None:
    """Refund a payment, or a part of it, to its payer.

    Shows the amount and the account, and asks.

    Example: `florin payments refund pay_1a2b --amount "5.00 USD" --wait`
    """
    from florin_server.cli.payments import refund as command

    part = command.RefundOptions(amount, reason)
    command.refund_payment(connection, payment_id, part, yes=yes, wait=wait, key=idempotency_key)


@payments.command("held")
def payments_held(
    all_: Annotated[bool, typer.Option("--all", help="Include resolved payments.")] = False,
    home: HomeOption = None,
) -> None:
    """List held payments of blocked payers, with the reason.

    Example: `florin payments held --all`
    """
    from florin_server.cli.payments import held as command

    command.list_held(build_overrides(home=home), all_=all_)


@payments.command("release")
def payments_release(held_id: HeldId, note: Reason, home: HomeOption = None) -> None:
    """Release held money to the merchant; the payment succeeds.

    Example: `florin payments release held_1a2b --note "cleared by compliance"`
    """
    from florin_server.cli.payments import held as command

    command.resolve_held(build_overrides(home=home), held_id, "release", note)


@payments.command("return")
def payments_return(
    held_id: HeldId,
    note: Reason,
    even_if_blocked: Annotated[
        bool,
        typer.Option("--even-if-blocked", help="Return it even if the payer is still blocked."),
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            help="Account (CAIP-10) to return it to, for money that came to a payment's own "
            "address; required if its sender is unknown."
        ),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Return held money to the payer; the payment fails.

    The treasury sends the money and the fee. Money that went directly to the merchant's destination
    stays there.

    Example: `florin payments return held_1a2b --note "ticket 17"`
    """
    from florin_server.cli.payments import held as command

    command.resolve_held(
        build_overrides(home=home),
        held_id,
        "return",
        note,
        ignores_block=even_if_blocked,
        return_to=to,
    )


@payments.command("recover")
def payments_recover(
    payment_id: Annotated[str, typer.Argument(help="The payment.", show_default=False)],
    chain_id: Annotated[str, typer.Argument(help="Chain of the money.", show_default=False)],
    asset: Annotated[str, typer.Argument(help="Asset (CAIP-19).", show_default=False)],
    home: HomeOption = None,
) -> None:
    """Send home what is left at a payment's addresses.

    Example: `florin payments recover pay_1a2b eip155:10 eip155:10/slip44:60`
    """
    from florin_server.cli.payments import held as command

    command.recover(build_overrides(home=home), payment_id, chain_id, asset)


@payments.command("keep")
def payments_keep(held_id: HeldId, note: Reason, home: HomeOption = None) -> None:
    """Keep held money, e.g. for an authority; the payment fails.

    Example: `florin payments keep held_1a2b --note "order of 2 May"`
    """
    from florin_server.cli.payments import held as command

    command.resolve_held(build_overrides(home=home), held_id, "keep", note)
