"""`florin pay`: pay a link as a buyer's wallet does, and show every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from florin.v1 import gateway_pb2, payment_pb2
from florin_client import Client
from florin_client.wallet import Wallet, WalletError, plan_payment
from florin_client.wallet.terms import OptionTerms, parse_option

from florin_server.app.home import SetupError
from florin_server.cli.console import console, fail, print_hint, print_json_line
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import usage_error
from florin_server.cli.payments import formatting
from florin_server.cli.server import ConnectionOptions, connect_as_wallet
from florin_server.cli.wallet.assets import KnownAsset, find_asset, get_chain_name
from florin_server.cli.wallet.chains import BuyerChains
from florin_server.cli.wallet.data import collect_data
from florin_server.cli.wallet.execution import (
    FAILED,
    Choice,
    PayOptions,
    check_decimals,
    check_display,
    check_limits,
    choose_number,
    follow_payment,
    read_payment,
    run_plan,
)
from florin_server.cli.wallet.send import TransferPayment
from florin_server.cli.wallet.x402 import ProgramPayment


@dataclass(frozen=True, slots=True)
class _PayableOption:
    """An option that this wallet can pay, with its parsed terms and its asset."""

    option: gateway_pb2.PaymentOption
    terms: OptionTerms
    asset: KnownAsset

    @property
    def choice(self) -> Choice:
        unit = self.option.amount.unit.removeprefix("caip19/")
        return Choice(frozenset({unit, self.option.id}), self.asset.symbol)


def pay_link(connection: ConnectionOptions, options: PayOptions) -> None:
    """Pay a link, and exit with the outcome of the payment."""
    if options.sends and options.x402:
        usage_error("--send and --x402 are different ways to pay: use one of them")
    payment_type: type[_LinkPayment | TransferPayment | ProgramPayment] = _LinkPayment
    if options.sends:
        payment_type = TransferPayment
    elif options.x402:
        payment_type = ProgramPayment
    try:
        with connect_as_wallet(connection) as (client, place):
            chains = BuyerChains.from_options(options.chains, options.rpc_urls, place.get_value)
            status = payment_type(client, options, chains).pay()
    except (WalletError, SetupError, OSError) as error:
        fail(FAILED, error)
    raise SystemExit(int(ExitStatus.DONE if status == formatting.SUCCEEDED else ExitStatus.UNPAID))


class _LinkPayment:
    def __init__(self, client: Client, options: PayOptions, chains: BuyerChains) -> None:
        self._gateway = client.gateway
        self._options = options
        self._chains = chains

    def pay(self) -> payment_pb2.PaymentStatus.ValueType:
        """Pay, follow the payment to its end, and return its last status."""
        info = read_payment(self._gateway, self._options)
        wallet = self._options.files.load_wallet(self._chains.nodes)
        payable = self._choose_option(info.payment_id, wallet)
        check_limits(self._options, payable.terms, payable.asset)
        data = None
        if payable.option.HasField("collect_data"):
            data = collect_data(payable.option.collect_data, self._options.data)
        outputs = self._execute(info.payment_id, wallet, payable, data)
        return self._confirm(info.payment_id, payable.option, outputs, data)

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
            fail(FAILED, f"the payment has no option for {', '.join(accounts)}")
        number = choose_number(self._options, [payable.choice for payable in choices])
        payable = choices[number]
        check_display(payable.option.amount, payable.asset)
        return payable

    def _find_payable(self, option: gateway_pb2.PaymentOption) -> _PayableOption | None:
        try:
            terms = parse_option(option)
        except WalletError as error:
            print_hint(f"Skipped an option: {error}")
            return None
        return _PayableOption(option, terms, find_asset(terms, self._chains.nodes))

    def _execute(
        self, payment_id: str, wallet: Wallet, payable: _PayableOption, data: dict[str, Any] | None
    ) -> list[str]:
        option, asset = payable.option, payable.asset
        if any(action.HasField("build") for action in option.actions) and not print_json_line(
            {"step": "build"}
        ):
            console.print("fetching the data to sign")
        actions = self._gateway.executable_actions(payment_id, option, collected_data=data)
        plan = plan_payment(option, actions)
        check_decimals(plan, asset)
        return run_plan(self._options, self._chains, wallet, plan, asset)

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
        return follow_payment(self._gateway, payment_id, done.status)


def _format_choice(payable: _PayableOption) -> str:
    option = payable.option
    price = payable.asset.format(payable.terms.amount)
    place = get_chain_name(payable.terms.chain_id)
    data = ", needs buyer data" if option.HasField("collect_data") else ""
    return f"{price} on {place}, about {option.eta_s} s{data}"


def _to_json(option: gateway_pb2.PaymentOption) -> dict[str, Any]:
    """Return the price of an option as JSON; its actions follow as they are executed."""
    return {
        "id": option.id,
        "account": option.account,
        "amount": option.amount,
        "etaS": option.eta_s,
        "collectsData": option.HasField("collect_data"),
    }
