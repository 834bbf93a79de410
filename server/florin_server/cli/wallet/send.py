"""`florin pay --send`: pay by a plain transfer to an address of the payment."""

from __future__ import annotations

from typing import Any

from florin.v1 import payment_pb2
from florin_client import Client
from florin_client.wallet import Wallet, WalletError, plan_transfer, wait_mined
from florin_client.wallet.terms import parse_option

from florin_server.cli.console import print_hint
from florin_server.cli.operation import usage_error
from florin_server.cli.wallet.addresses import SendableAsset, choose_asset, open_address
from florin_server.cli.wallet.assets import find_asset, get_forwarder
from florin_server.cli.wallet.chains import BuyerChains, TracingJsonRpc
from florin_server.cli.wallet.execution import (
    PayOptions,
    check_display,
    check_limits,
    follow_payment,
    read_payment,
    run_plan,
)


class TransferPayment:
    """A payment by a plain transfer of the wallet."""

    def __init__(self, client: Client, options: PayOptions, chains: BuyerChains) -> None:
        self._gateway: Any = client.gateway
        self._options = options
        self._chains = chains

    def pay(self) -> payment_pb2.PaymentStatus.ValueType:
        """Send what is missing, follow the payment to its end, and return its last status."""
        if self._options.data is not None:
            usage_error("--send takes no buyer data: leave out --data, or pay without --send")
        info = read_payment(self._gateway, self._options)
        wallet = self._options.files.load_wallet(self._chains.nodes)
        sendable = self._choose_asset(info.payment_id, wallet)
        pay_address = open_address(self._gateway, info.payment_id, sendable)
        terms, asset = sendable.terms, sendable.asset
        check_display(pay_address.amount, asset)
        forwarder = get_forwarder(terms.chain_id)
        plan = plan_transfer(pay_address, sendable.account, forwarder=forwarder)
        check_limits(self._options, plan.terms, asset)
        (output,) = run_plan(self._options, self._chains, wallet, plan, asset)
        # a transfer that fails would never arrive
        TracingJsonRpc(self._chains.nodes).run(wait_mined(terms.chain_id, output))
        return follow_payment(self._gateway, info.payment_id, info.status)

    def _choose_asset(self, payment_id: str, wallet: Wallet) -> SendableAsset:
        accounts = self._chains.list_accounts(wallet)
        answer = self._gateway.get_payment_options(payment_id, accounts=accounts)
        sendable: dict[str, SendableAsset] = {}
        for option in answer.options:
            try:
                terms = parse_option(option)
            except WalletError as error:
                print_hint(f"Skipped an option: {error}")
                continue
            if terms.is_evm and option.account in accounts and terms.asset not in sendable:
                asset = find_asset(terms, self._chains.nodes)
                sendable[terms.asset] = SendableAsset(option.account, terms, asset)
        return choose_asset(self._options, [*sendable.values()], accounts)
