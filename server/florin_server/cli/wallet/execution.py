"""The steps that every way to pay a link shares, each shown before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from florin.v1 import gateway_pb2, payment_pb2
from florin.v1.money_pb2 import Amount
from florin_client.wallet import PaymentPlan, Wallet, WalletError
from florin_client.wallet.terms import OptionTerms

from florin_server.cli.console import (
    console,
    fail,
    is_interactive,
    print_hint,
    print_json_line,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import usage_error
from florin_server.cli.payments import formatting
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.prompt import OperatorPrompt
from florin_server.cli.wallet.assets import KnownAsset, is_known_test_chain
from florin_server.cli.wallet.chains import BuyerChains, TracingJsonRpc
from florin_server.cli.wallet.keys import WalletFiles
from florin_server.cli.wallet.limits import check_maximum, get_fee_limit

FAILED = "Not paid"
# decimals of native coins on EVM chains, the only chains where the buyer's account pays fees
_COIN_DECIMALS = 18


@dataclass(frozen=True, slots=True)
class PayOptions:
    """The options of the command.

    With `sends`, it pays by a transfer to an address; with `x402`, by a signed one that the server
    sends.
    """

    link: str
    option: str | None = None
    data: Path | None = None
    files: WalletFiles = field(default_factory=WalletFiles)
    chains: Sequence[str] = ()
    rpc_urls: Sequence[str] = ()
    yes: bool = False
    maximum: str | None = None
    max_fee: str | None = None
    sends: bool = False
    x402: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Something to choose by number, by symbol, or by one of its names."""

    names: frozenset[str]
    symbol: str | None


def read_payment(gateway: Any, options: PayOptions) -> gateway_pb2.PaymentInfo:
    """Show a payment and return it; end the program if this command cannot pay it."""
    info: gateway_pb2.PaymentInfo = gateway.get_payment(options.link)
    if not print_json_line({"step": "payment", "payment": info}):
        test = "" if info.live else ", test data"
        console.print(f"{info.merchant.name} asks for {format_amount(info.amount)}{test}")
    if info.live and not options.files.keys:
        fail(FAILED, "this payment needs real money: pass the key that pays, --keystore FILE")
    if info.is_final:
        status = formatting.format_status(info.status)
        fail(FAILED, f"the payment is already {status}", ExitStatus.WRONG_STATE)
    return info


def choose_number(options: PayOptions, choices: Sequence[Choice]) -> int:
    """Return the index of the choice of --option, else of the prompt, else 0."""
    option = options.option
    if option is None and len(choices) > 1 and is_interactive() and not options.yes:
        option = OperatorPrompt(is_quiet=False).ask_text("Option", "--option", None, "1")
    if option is None:
        return 0
    if option.isascii() and option.isdecimal():
        if 1 <= int(option) <= len(choices):
            return int(option) - 1
        usage_error(f"unknown option {option[:80]!r}: choose 1 to {len(choices)}")
    matches = [number for number, choice in enumerate(choices) if option in choice.names]
    matches = matches or [
        number
        for number, choice in enumerate(choices)
        if (choice.symbol or "").lower() == option.lower()
    ]
    if len(matches) != 1:
        usage_error(
            f"{len(matches)} options match {option!r}: choose a number, 1 to {len(choices)}"
        )
    return matches[0]


def check_display(amount: Amount, asset: KnownAsset) -> None:
    """Raise WalletError if the server shows an amount with other decimals than its asset has."""
    display = amount.display
    if asset.decimals not in {None, display.decimals}:
        raise WalletError(
            f"the server says that {asset.id} has {display.decimals} decimals, but it "
            f"has {asset.decimals}"
        )
    if asset.symbol not in {None, display.asset_symbol}:
        print_hint(f"The server calls {asset.symbol} {display.asset_symbol}.")


def check_decimals(plan: PaymentPlan, asset: KnownAsset) -> None:
    """Raise WalletError if the transaction of a plan says other decimals than its asset has."""
    decimals = getattr(plan.steps[-1], "decimals", None)
    if decimals is not None and asset.decimals not in {None, decimals}:
        raise WalletError(f"the transaction says that {asset.id} has {decimals} decimals")


def check_limits(options: PayOptions, terms: OptionTerms, asset: KnownAsset) -> None:
    """Refuse a price above --max; require --max where --yes pays real money."""
    check_maximum(options.maximum, terms, asset)
    unbounded = options.yes and options.maximum is None
    real = options.files.keys and not is_known_test_chain(terms.chain_id)
    if unbounded and real:
        price = asset.format(terms.amount)
        usage_error(f"--yes pays real money ({price}) without asking: add --max AMOUNT")


def run_plan(
    options: PayOptions, chains: BuyerChains, wallet: Wallet, plan: PaymentPlan, asset: KnownAsset
) -> list[str]:
    """Show a plan, ask, execute it, and return its outputs."""
    for step, what in zip(plan.steps, plan.describe(asset.format), strict=True):
        if not print_json_line({"step": "sign", "method": step.method, "what": what}):
            console.print(f"{step.method}  {what}")
    max_fee = get_fee_limit(options.max_fee, plan.terms)
    if plan.sends_transactions and not print_json_line({"step": "fee", "maxFee": str(max_fee)}):
        digits = f"{Decimal(f'{max_fee}E-{_COIN_DECIMALS}'):f}"
        text = digits.rstrip("0").rstrip(".") if "." in digits else digits
        console.print(f"fees  at most {text} of the native coin")
    if options.files.keys and not formatting.confirm("Sign this?", yes=options.yes):
        print_hint("Nothing was signed.")
        raise SystemExit(int(ExitStatus.REFUSED))
    execution = wallet.start_plan_execution(plan, max_fee=max_fee)
    return TracingJsonRpc(chains.nodes).run(execution)


def follow_payment(
    gateway: Any, payment_id: str, last: payment_pb2.PaymentStatus.ValueType
) -> payment_pb2.PaymentStatus.ValueType:
    """Show each change of a payment until its end, and return its last status."""
    for update in gateway.watch_payment(payment_id):
        last = update.payment.status
        if not print_json_line({"step": "status", "status": update}):
            line = f"{formatting.format_status(last)}  version {update.version}"
            if update.payment.HasField("info"):
                line += f"  transaction {update.payment.info.tx_id}"
            console.print(line)
    return last
