"""`florin pay`: pays a link as a buyer's wallet does, and shows every step."""

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

from florin_server.boot.home import Refused
from florin_server.cli.console import console, fail, is_seen, note, told_line
from florin_server.cli.exits import Exit
from florin_server.cli.operation import misused
from florin_server.cli.payments import words
from florin_server.cli.payments.amounts import shown
from florin_server.cli.prompt import Prompt
from florin_server.cli.server import At, as_wallet
from florin_server.cli.wallet.assets import Asset, chain_name, find_asset, is_test_chain
from florin_server.cli.wallet.chains import Chains, Shown
from florin_server.cli.wallet.data import collected
from florin_server.cli.wallet.keys import Files
from florin_server.cli.wallet.limits import check_maximum, fee_limit

_FAILED = "Not paid"
# of the coins of EVM chains, whose transactions are the only ones that an account pays for
_COIN_DECIMALS = 18


@dataclass(frozen=True, slots=True)
class PayOptions:
    """The options of the command."""

    link: str
    option: str | None = None
    data: Path | None = None
    files: Files = field(default_factory=Files)
    chains: Sequence[str] = ()
    rpc_urls: Sequence[str] = ()
    yes: bool = False
    maximum: str | None = None
    max_fee: str | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """An option that this wallet can pay, as it was parsed, and the asset that it costs."""

    option: gateway_pb2.PaymentOption
    terms: OptionTerms
    asset: Asset

    @property
    def price(self) -> str:
        return self.asset.format(self.terms.amount)


def run(at: At, wanted: PayOptions) -> None:
    """Pays, and ends as the payment does."""
    try:
        with as_wallet(at) as (client, place):
            chains = Chains.of(wanted.chains, wanted.rpc_urls, place.said)
            status = _Buyer(client, wanted, chains).pay()
    except (WalletError, Refused, OSError) as error:
        fail(_FAILED, error)
    raise SystemExit(int(Exit.DONE if status == words.SUCCEEDED else Exit.UNPAID))


class _Buyer:
    def __init__(self, client: Client, wanted: PayOptions, chains: Chains) -> None:
        self._gateway = client.gateway
        self._wanted = wanted
        self._chains = chains

    def pay(self) -> payment_pb2.PaymentStatus.ValueType:
        """The payment's last status."""
        info = self._gateway.get_payment(self._wanted.link)
        if not told_line({"step": "payment", "payment": info}):
            test = "" if info.live else ", test data"
            console.print(f"{info.merchant.name} asks for {shown(info.amount)}{test}")
        has_keys = bool(self._wanted.files.keys)
        if info.live and not has_keys:
            fail(_FAILED, "its money is real: --keystore FILE names the key that pays")
        if info.is_final:
            fail(_FAILED, f"the payment is {words.status(info.status)} already", Exit.STATE)
        wallet = self._wanted.files.wallet(self._chains.nodes)
        choice = self._chosen(info.payment_id, wallet)
        self._check_limits(choice)
        data = None
        if choice.option.HasField("collect_data"):
            data = collected(choice.option.collect_data, self._wanted.data)
        outputs = self._executed(info.payment_id, wallet, choice, data)
        return self._confirmed(info.payment_id, choice.option, outputs, data)

    def _chosen(self, payment_id: str, wallet: Wallet) -> _Choice:
        accounts = self._chains.accounts(wallet)
        answer = self._gateway.get_payment_options(payment_id, accounts=accounts)
        # what is not ours is nothing that we can sign for
        own = [one for one in answer.options if one.account in accounts]
        choices = [choice for one in own if (choice := self._choice(one)) is not None]
        if not told_line({"step": "options", "options": [_plain(one.option) for one in choices]}):
            for number, one in enumerate(choices, 1):
                console.print(f"  {number}  {_said(one)}")
        if not choices:
            fail(_FAILED, f"there is no option for {', '.join(accounts)}")
        choice = choices[self._number(choices)]
        display = choice.option.amount.display
        if choice.asset.decimals not in {None, display.decimals}:
            raise WalletError(
                f"the server says that {choice.asset.id} has {display.decimals} decimals, and it "
                f"has {choice.asset.decimals}"
            )
        if choice.asset.symbol not in {None, display.asset_symbol}:
            note(f"The server calls {choice.asset.symbol} {display.asset_symbol}.")
        return choice

    def _choice(self, option: gateway_pb2.PaymentOption) -> _Choice | None:
        try:
            terms = parse_option(option)
        except WalletError as error:
            note(f"An option is left out: {error}")
            return None
        return _Choice(option, terms, find_asset(terms, self._chains.nodes))

    def _check_limits(self, choice: _Choice) -> None:
        """Refuse what costs more than --max, which --yes needs where money is real."""
        check_maximum(self._wanted.maximum, choice.terms, choice.asset)
        unbounded = self._wanted.yes and self._wanted.maximum is None
        real = self._wanted.files.keys and not is_test_chain(choice.terms.chain_id)
        if unbounded and real:
            misused(
                f"--yes pays real money ({choice.price}) without a question: say --max AMOUNT too"
            )

    def _number(self, options: list[_Choice]) -> int:
        """Which of them was asked for, from 0."""
        asked = self._wanted.option
        if asked is None and len(options) > 1 and is_seen() and not self._wanted.yes:
            asked = Prompt(quiet=False).text("Option", "--option", None, "1")
        if asked is None:
            return 0
        if asked.isascii() and asked.isdecimal():
            if 1 <= int(asked) <= len(options):
                return int(asked) - 1
            misused(f"there are options 1 to {len(options)}")
        names = [{one.option.amount.unit.removeprefix("caip19/"), one.option.id} for one in options]
        symbols = [(one.asset.symbol or "").lower() for one in options]
        found = [number for number, some in enumerate(names) if asked in some]
        found = found or [n for n, symbol in enumerate(symbols) if symbol == asked.lower()]
        if len(found) != 1:
            misused(
                f"{len(found)} options are {asked!r}: say one by its number, 1 to {len(options)}"
            )
        return found[0]

    def _executed(
        self, payment_id: str, wallet: Wallet, choice: _Choice, data: dict[str, Any] | None
    ) -> list[str]:
        option = choice.option
        if any(action.HasField("build") for action in option.actions) and not told_line(
            {"step": "build"}
        ):
            console.print("fetches what is to be signed")
        actions = self._gateway.executable_actions(payment_id, option, collected_data=data)
        plan = plan_payment(option, actions)
        decimals = getattr(plan.steps[-1], "decimals", None)
        if decimals is not None and choice.asset.decimals not in {None, decimals}:
            raise WalletError(
                f"the transaction says that {choice.asset.id} has {decimals} decimals"
            )
        for step, what in zip(plan.steps, plan.describe(choice.asset.format), strict=True):
            if not told_line({"step": "sign", "method": step.method, "what": what}):
                console.print(f"{step.method}  {what}")
        max_fee = fee_limit(self._wanted.max_fee, choice.terms)
        if plan.sends and not told_line({"step": "fee", "maxFee": str(max_fee)}):
            digits = f"{Decimal(f'{max_fee}E-{_COIN_DECIMALS}'):f}"
            text = digits.rstrip("0").rstrip(".") if "." in digits else digits
            console.print(f"fees  at most {text} of the chain's coin")
        if self._wanted.files.keys and not words.agreed("Sign that?", yes=self._wanted.yes):
            note("Nothing is signed.")
            raise SystemExit(int(Exit.REFUSED))
        return Shown(self._chains.nodes).run(wallet.executing_plan(plan, max_fee=max_fee))

    def _confirmed(
        self,
        payment_id: str,
        option: gateway_pb2.PaymentOption,
        outputs: list[str],
        data: dict[str, Any] | None,
    ) -> payment_pb2.PaymentStatus.ValueType:
        done = self._gateway.confirm_payment(
            payment_id, option_id=option.id, outputs=outputs, collected_data=data
        )
        if not told_line({"step": "confirm", "status": done}):
            console.print(f"confirmed  {words.status(done.status)}")
        last = done.status
        for update in self._gateway.watch_payment(payment_id):
            last = update.payment.status
            if not told_line({"step": "status", "status": update}):
                line = f"{words.status(last)}  version {update.version}"
                if update.payment.HasField("info"):
                    line += f"  transaction {update.payment.info.tx_id}"
                console.print(line)
        return last


def _said(choice: _Choice) -> str:
    option = choice.option
    place = chain_name(choice.terms.chain_id)
    data = ", asks about the buyer" if option.HasField("collect_data") else ""
    return f"{choice.price} on {place}, about {option.eta_s} s{data}"


def _plain(one: gateway_pb2.PaymentOption) -> dict[str, Any]:
    """What of an option tells what it costs; its actions are told as they are executed."""
    return {
        "id": one.id,
        "account": one.account,
        "amount": one.amount,
        "etaS": one.eta_s,
        "collectsData": one.HasField("collect_data"),
    }
