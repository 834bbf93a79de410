"""`florin pay`: pays a link as a buyer's wallet does, and shows every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from florin.v1 import gateway_pb2, payment_pb2
from florin_client import Client
from florin_client.wallet import Wallet, WalletError, steps_of

from florin_server.boot.home import Refused
from florin_server.cli.console import console, fail, is_seen, note, told_line
from florin_server.cli.exits import Exit
from florin_server.cli.operation import misused
from florin_server.cli.payments import words
from florin_server.cli.payments.amounts import shown
from florin_server.cli.prompt import Prompt
from florin_server.cli.server import At, as_wallet
from florin_server.cli.wallet import meaning
from florin_server.cli.wallet.chains import Chains, Shown
from florin_server.cli.wallet.data import collected
from florin_server.cli.wallet.keys import Files

_FAILED = "Not paid"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was said on the command line."""

    link: str
    option: str | None = None
    data: Path | None = None
    files: Files = field(default_factory=Files)
    chains: Sequence[str] = ()
    rpc_urls: Sequence[str] = ()
    yes: bool = False


def run(at: At, wanted: Wanted) -> None:
    """Pays, and ends as the payment does."""
    try:
        with as_wallet(at) as (client, place):
            chains = Chains.of(wanted.chains, wanted.rpc_urls, place.said)
            status = _Buyer(client, wanted, chains).pay()
    except (WalletError, Refused, OSError) as error:
        fail(_FAILED, error)
    raise SystemExit(int(Exit.DONE if status == words.SUCCEEDED else Exit.UNPAID))


class _Buyer:
    def __init__(self, client: Client, wanted: Wanted, chains: Chains) -> None:
        self._gateway = client.gateway
        self._wanted = wanted
        self._chains = chains

    def pay(self) -> payment_pb2.PaymentStatus.ValueType:
        """The payment's last status."""
        info = self._gateway.get_payment(self._wanted.link)
        if not told_line({"step": "payment", "payment": info}):
            test = "" if info.live else ", test data"
            console.print(f"{info.merchant.name} asks for {shown(info.amount)}{test}", markup=False)
        has_keys = bool(self._wanted.files.keys)
        if info.live and not has_keys:
            fail(_FAILED, "its money is real: --keystore FILE names the key that pays")
        if info.is_final:
            fail(_FAILED, f"the payment is {words.status(info.status)} already", Exit.STATE)
        wallet = self._wanted.files.wallet(self._chains.nodes)
        option = self._chosen(info.payment_id, wallet)
        data = None
        if option.HasField("collect_data"):
            data = collected(option.collect_data, self._wanted.data)
        outputs = self._executed(info.payment_id, wallet, option, data)
        return self._confirmed(info.payment_id, option, outputs, data)

    def _chosen(self, payment_id: str, wallet: Wallet) -> gateway_pb2.PaymentOption:
        accounts = self._chains.accounts(wallet)
        answer = self._gateway.get_payment_options(payment_id, accounts=accounts)
        # what is not ours is nothing that we can sign for
        options = [one for one in answer.options if one.account in accounts]
        if not told_line({"step": "options", "options": [_plain(one) for one in options]}):
            for number, one in enumerate(options, 1):
                console.print(f"  {number}  {_said(one)}", markup=False)
        if not options:
            fail(_FAILED, f"there is no option for {', '.join(accounts)}")
        return options[self._number(options)]

    def _number(self, options: list[gateway_pb2.PaymentOption]) -> int:
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
        names = [{one.amount.unit.removeprefix("caip19/"), one.id} for one in options]
        symbols = [one.amount.display.asset_symbol.lower() for one in options]
        found = [number for number, some in enumerate(names) if asked in some]
        found = found or [n for n, symbol in enumerate(symbols) if symbol == asked.lower()]
        if len(found) != 1:
            misused(
                f"{len(found)} options are {asked!r}: say one by its number, 1 to {len(options)}"
            )
        return found[0]

    def _executed(
        self,
        payment_id: str,
        wallet: Wallet,
        option: gateway_pb2.PaymentOption,
        data: dict[str, Any] | None,
    ) -> list[str]:
        if any(action.HasField("build") for action in option.actions) and not told_line(
            {"step": "build"}
        ):
            console.print("fetches what is to be signed")
        steps = steps_of(self._gateway.executable_actions(payment_id, option, collected_data=data))
        for step in steps:
            what = meaning.of(step, option)
            if not told_line({"step": "sign", "method": step.method, "what": what}):
                console.print(f"{step.method}  {what}", markup=False)
        if self._wanted.files.keys and not words.agreed("Sign that?", yes=self._wanted.yes):
            note("Nothing is signed.")
            raise SystemExit(int(Exit.REFUSED))
        return Shown(self._chains.nodes).run(wallet.executing(steps))

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
                console.print(line, markup=False)
        return last


def _said(one: gateway_pb2.PaymentOption) -> str:
    place = one.amount.display.network_name or one.account.rpartition(":")[0]
    data = ", asks about the buyer" if one.HasField("collect_data") else ""
    return f"{shown(one.amount)} on {place}, about {one.eta_s} s{data}"


def _plain(one: gateway_pb2.PaymentOption) -> dict[str, Any]:
    """What of an option tells what it costs; its actions are told as they are executed."""
    return {
        "id": one.id,
        "account": one.account,
        "amount": one.amount,
        "etaS": one.eta_s,
        "collectsData": one.HasField("collect_data"),
    }
