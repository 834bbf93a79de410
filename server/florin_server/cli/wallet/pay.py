"""`florin pay`: pay a link as a buyer's wallet does, and show every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from florin.v1 import gateway_pb2, payment_pb2
from florin_client import Client
from florin_client.wallet import Wallet, WalletError, plan_payment
from florin_client.wallet.terms import OptionTerms, parse_option

from florin_server.app.home import SetupError
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
from florin_server.cli.server import ConnectionOptions, connect_as_wallet
from florin_server.cli.wallet.assets import (
    KnownAsset,
    find_asset,
    get_chain_name,
    is_known_test_chain,
)
from florin_server.cli.wallet.chains import BuyerChains, TracingJsonRpc
from florin_server.cli.wallet.data import collect_data
from florin_server.cli.wallet.keys import WalletFiles
from florin_server.cli.wallet.limits import check_maximum, get_fee_limit

_FAILED = "Not paid"
# decimals of native coins on EVM chains, the only chains where the buyer's account pays fees
_COIN_DECIMALS = 18


@dataclass(frozen=True, slots=True)
class PayOptions:
    """The options of the command."""

    link: str
    option: str | None = None
    data: Path | None = None
    files: WalletFiles = field(default_factory=WalletFiles)
    chains: Sequence[str] = ()
    rpc_urls: Sequence[str] = ()
    yes: bool = False
    maximum: str | None = None
    max_fee: str | None = None


@dataclass(frozen=True, slots=True)
class _PayableOption:
    """An option that this wallet can pay, with its parsed terms and its asset."""

    option: gateway_pb2.PaymentOption
    terms: OptionTerms
    asset: KnownAsset

    @property
    def format_price(self) -> str:
        return self.asset.format(self.terms.amount)


def pay_link(connection: ConnectionOptions, options: PayOptions) -> None:
    """Pay a link, and exit with the outcome of the payment."""
    try:
        with connect_as_wallet(connection) as (client, place):
            chains = BuyerChains.from_options(options.chains, options.rpc_urls, place.get_value)
            status = _LinkPayment(client, options, chains).pay()
    except (WalletError, SetupError, OSError) as error:
        fail(_FAILED, error)
    raise SystemExit(int(ExitStatus.DONE if status == formatting.SUCCEEDED else ExitStatus.UNPAID))


class _LinkPayment:
    def __init__(self, client: Client, options: PayOptions, chains: BuyerChains) -> None:
        self._gateway = client.gateway
        self._options = options
        self._chains = chains

    def pay(self) -> payment_pb2.PaymentStatus.ValueType:
        """Pay, follow the payment to its end, and return its last status."""
        info = self._gateway.get_payment(self._options.link)
        if not print_json_line({"step": "payment", "payment": info}):
            test = "" if info.live else ", test data"
            console.print(f"{info.merchant.name} asks for {format_amount(info.amount)}{test}")
        has_keys = bool(self._options.files.keys)
        if info.live and not has_keys:
            fail(_FAILED, "this payment needs real money: pass the key that pays, --keystore FILE")
        if info.is_final:
            fail(
                _FAILED,
                f"the payment is already {formatting.format_status(info.status)}",
                ExitStatus.WRONG_STATE,
            )
        wallet = self._options.files.load_wallet(self._chains.nodes)
        choice = self._choose_option(info.payment_id, wallet)
        self._check_limits(choice)
        data = None
        if choice.option.HasField("collect_data"):
            data = collect_data(choice.option.collect_data, self._options.data)
        outputs = self._execute(info.payment_id, wallet, choice, data)
        return self._confirm(info.payment_id, choice.option, outputs, data)

    def _choose_option(self, payment_id: str, wallet: Wallet) -> _PayableOption:
        accounts = self._chains.list_accounts(wallet)
        answer = self._gateway.get_payment_options(payment_id, accounts=accounts)
        # the wallet can sign only for its own accounts
        own = [option for option in answer.options if option.account in accounts]
        choices = [choice for option in own if (choice := self._find_payable(option)) is not None]
        if not print_json_line(
            {
                "step": "options",
                "options": [
                    _to_json(each_payable_option.option) for each_payable_option in choices
                ],
            }
        ):
            for number, payable_option in enumerate(choices, 1):
                console.print(f"  {number}  {_format_choice(payable_option)}")
        if not choices:
            fail(_FAILED, f"the payment has no option for {', '.join(accounts)}")
        choice = choices[self._ask_number(choices)]
        display = choice.option.amount.display
        if choice.asset.decimals not in {None, display.decimals}:
            raise WalletError(
                f"the server says that {choice.asset.id} has {display.decimals} decimals, but it "
                f"has {choice.asset.decimals}"
            )
        if choice.asset.symbol not in {None, display.asset_symbol}:
            print_hint(f"The server calls {choice.asset.symbol} {display.asset_symbol}.")
        return choice

    def _find_payable(self, option: gateway_pb2.PaymentOption) -> _PayableOption | None:
        try:
            terms = parse_option(option)
        except WalletError as error:
            print_hint(f"Skipped an option: {error}")
            return None
        return _PayableOption(option, terms, find_asset(terms, self._chains.nodes))

    def _check_limits(self, choice: _PayableOption) -> None:
        """Refuse an option above --max; require --max where --yes pays real money."""
        check_maximum(self._options.maximum, choice.terms, choice.asset)
        unbounded = self._options.yes and self._options.maximum is None
        real = self._options.files.keys and not is_known_test_chain(choice.terms.chain_id)
        if unbounded and real:
            usage_error(
                f"--yes pays real money ({choice.format_price}) without asking: add --max AMOUNT"
            )

    def _ask_number(self, options: list[_PayableOption]) -> int:
        """Return the index of the chosen option, from 0."""
        option = self._options.option
        if option is None and len(options) > 1 and is_interactive() and not self._options.yes:
            option = OperatorPrompt(is_quiet=False).ask_text("Option", "--option", None, "1")
        if option is None:
            return 0
        if option.isascii() and option.isdecimal():
            if 1 <= int(option) <= len(options):
                return int(option) - 1
            usage_error(f"unknown option {option[:80]!r}: choose 1 to {len(options)}")
        names = [
            {payable_option.option.amount.unit.removeprefix("caip19/"), payable_option.option.id}
            for payable_option in options
        ]
        symbols = [(payable_option.asset.symbol or "").lower() for payable_option in options]
        matches = [number for number, name in enumerate(names) if option in name]
        matches = matches or [n for n, symbol in enumerate(symbols) if symbol == option.lower()]
        if len(matches) != 1:
            usage_error(
                f"{len(matches)} options match {option!r}: choose a number, 1 to {len(options)}"
            )
        return matches[0]

    def _execute(
        self, payment_id: str, wallet: Wallet, choice: _PayableOption, data: dict[str, Any] | None
    ) -> list[str]:
        option = choice.option
        if any(action.HasField("build") for action in option.actions) and not print_json_line(
            {"step": "build"}
        ):
            console.print("fetching the data to sign")
        actions = self._gateway.executable_actions(payment_id, option, collected_data=data)
        plan = plan_payment(option, actions)
        decimals = getattr(plan.steps[-1], "decimals", None)
        if decimals is not None and choice.asset.decimals not in {None, decimals}:
            raise WalletError(
                f"the transaction says that {choice.asset.id} has {decimals} decimals"
            )
        for step, what in zip(plan.steps, plan.describe(choice.asset.format), strict=True):
            if not print_json_line({"step": "sign", "method": step.method, "what": what}):
                console.print(f"{step.method}  {what}")
        max_fee = get_fee_limit(self._options.max_fee, choice.terms)
        if plan.sends_transactions and not print_json_line({"step": "fee", "maxFee": str(max_fee)}):
            digits = f"{Decimal(f'{max_fee}E-{_COIN_DECIMALS}'):f}"
            text = digits.rstrip("0").rstrip(".") if "." in digits else digits
            console.print(f"fees  at most {text} of the native coin")
        if self._options.files.keys and not formatting.confirm("Sign this?", yes=self._options.yes):
            print_hint("Nothing was signed.")
            raise SystemExit(int(ExitStatus.REFUSED))
        return TracingJsonRpc(self._chains.nodes).run(
            wallet.start_plan_execution(plan, max_fee=max_fee)
        )

    def _confirm(
        self,
        payment_id: str,
        option: gateway_pb2.PaymentOption,
        outputs: list[str],
        data: dict[str, Any] | None,
    ) -> payment_pb2.PaymentStatus.ValueType:
        done = self._gateway.confirm_payment(
            payment_id, option_id=option.id, outputs=outputs, collected_data=data
        )
        if not print_json_line({"step": "confirm", "status": done}):
            console.print(f"confirmed  {formatting.format_status(done.status)}")
        last = done.status
        for update in self._gateway.watch_payment(payment_id):
            last = update.payment.status
            if not print_json_line({"step": "status", "status": update}):
                line = f"{formatting.format_status(last)}  version {update.version}"
                if update.payment.HasField("info"):
                    line += f"  transaction {update.payment.info.tx_id}"
                console.print(line)
        return last


def _format_choice(choice: _PayableOption) -> str:
    option = choice.option
    place = get_chain_name(choice.terms.chain_id)
    data = ", needs buyer data" if option.HasField("collect_data") else ""
    return f"{choice.format_price} on {place}, about {option.eta_s} s{data}"


def _to_json(option: gateway_pb2.PaymentOption) -> dict[str, Any]:
    """Return the price of an option as JSON; its actions follow as they are executed."""
    return {
        "id": option.id,
        "account": option.account,
        "amount": option.amount,
        "etaS": option.eta_s,
        "collectsData": option.HasField("collect_data"),
    }
