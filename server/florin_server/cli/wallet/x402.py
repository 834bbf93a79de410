"""`florin pay --x402`: pay as programs do, by one signed transfer that the server sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from florin.v1 import gateway_pb2, payment_pb2
from florin_client import Client
from florin_client.wallet import (
    JsonRpc,
    PaymentPlan,
    Wallet,
    WalletError,
    X402Answer,
    X402Way,
    encode_x402_header,
    list_x402_ways,
    plan_payment,
    plan_x402,
    plan_x402_transfer,
    read_blockhash,
    request_x402,
    wait_mined,
)
from florin_client.wallet.terms import parse_option
from florin_client.wallet.x402 import PERMIT2_METHOD
from florin_client.wallet.x402_steps import AddressAuthorization, AddressPermit, MerchantTransfer

from florin_server.cli.console import console, fail, print_hint, print_json_line
from florin_server.cli.operation import usage_error
from florin_server.cli.wallet.addresses import SendableAsset, choose_asset, open_address
from florin_server.cli.wallet.assets import find_asset, get_forwarder
from florin_server.cli.wallet.chains import BuyerChains, TracingJsonRpc
from florin_server.cli.wallet.execution import (
    FAILED,
    PayOptions,
    check_decimals,
    check_display,
    check_limits,
    follow_payment,
    read_payment,
    run_plan,
)
from florin_server.cli.wallet.permit2 import describe_approval, read_allowance


class ProgramPayment:
    """A payment by x402: to the payment's address, or on Solana to its merchant."""

    def __init__(self, client: Client, options: PayOptions, chains: BuyerChains) -> None:
        self._gateway: Any = client.gateway
        self._options = options
        self._chains = chains

    def pay(self) -> payment_pb2.PaymentStatus.ValueType:
        """Sign, send the signature, follow the payment, and return its last status."""
        if self._options.data is not None:
            usage_error("--x402 takes no buyer data: leave out --data, or pay without --x402")
        info = read_payment(self._gateway, self._options)
        if not info.x402_url:
            fail(FAILED, "the payment cannot be paid by x402: leave out --x402")
        wallet = self._options.files.load_wallet(self._chains.nodes)
        # test chains fund the accounts of this call
        accounts = self._chains.list_accounts(wallet)
        options = self._gateway.get_payment_options(info.payment_id, accounts=accounts).options
        answer = request_x402(info.x402_url)
        if not answer.requires_payment:
            _fail_refused(answer)
        way, sendable = self._choose_way(answer, accounts)
        if way.terms.is_evm:
            plan = self._plan_for_address(info.payment_id, way, sendable)
        else:
            plan = self._plan_for_merchant(info.payment_id, way, sendable, options)
        check_limits(self._options, plan.terms, sendable.asset)
        output = self._execute(wallet, plan, sendable)
        step = plan.steps[-1]
        if not isinstance(step, AddressAuthorization | AddressPermit | MerchantTransfer):
            raise WalletError("the plan is not one of x402")
        _hand_in(info.x402_url, encode_x402_header(way, step, output))
        return follow_payment(self._gateway, info.payment_id, info.status)

    def _choose_way(self, answer: X402Answer, accounts: list[str]) -> tuple[X402Way, SendableAsset]:
        by_chain = {account.rpartition(":")[0]: account for account in accounts}
        ways: dict[str, X402Way] = {}
        for way in list_x402_ways(answer.body, by_chain):
            ways.setdefault(way.terms.asset, way)
        sendable = [
            SendableAsset(
                by_chain[way.terms.chain_id], way.terms, find_asset(way.terms, self._chains.nodes)
            )
            for way in ways.values()
        ]
        chosen = choose_asset(self._options, sendable, accounts)
        return ways[chosen.terms.asset], chosen

    def _plan_for_address(
        self, payment_id: str, way: X402Way, sendable: SendableAsset
    ) -> PaymentPlan:
        """Return the plan of a transfer to the payment's address, which follows from its route."""
        pay_address = open_address(self._gateway, payment_id, sendable)
        check_display(pay_address.amount, sendable.asset)
        forwarder = get_forwarder(way.terms.chain_id)
        # the address is checked before a node is asked
        plan = plan_x402(way, pay_address, forwarder=forwarder)
        if way.method != PERMIT2_METHOD:
            return plan
        allowance = read_allowance(self._chains.nodes, sendable)
        return plan_x402(way, pay_address, allowance=allowance, forwarder=forwarder)

    def _plan_for_merchant(
        self,
        payment_id: str,
        way: X402Way,
        sendable: SendableAsset,
        options: Sequence[gateway_pb2.PaymentOption],
    ) -> PaymentPlan:
        """Return the plan of a transfer to the merchant, whom the payment's own option pays."""
        terms = way.terms
        option = next((option for option in options if _is_option_in(option, sendable)), None)
        if option is None:
            raise WalletError(
                f"the payment has no option in {terms.asset} for {sendable.account}, and nothing "
                "else shows the merchant: leave out --x402"
            )
        check_display(option.amount, sendable.asset)
        actions = self._gateway.executable_actions(payment_id, option)
        option_plan = plan_payment(option, actions)
        check_decimals(option_plan, sendable.asset)
        if terms.chain_id not in self._chains.nodes:
            raise WalletError(f"name a node of {terms.chain_id} for the blockhash: --rpc-url")
        blockhash = JsonRpc(self._chains.nodes).run(read_blockhash(terms.chain_id))
        return plan_x402_transfer(way, option_plan, blockhash)

    def _execute(self, wallet: Wallet, plan: PaymentPlan, sendable: SendableAsset) -> str:
        """Execute a plan, and return what pays once its approvals are mined."""
        try:
            *approvals, output = run_plan(self._options, self._chains, wallet, plan, sendable.asset)
            for tx_hash in approvals[-1:]:
                wait = wait_mined(plan.terms.chain_id, tx_hash)
                TracingJsonRpc(self._chains.nodes).run(wait)
        except WalletError as error:
            if not plan.sends_transactions:
                raise
            raise WalletError(f"{describe_approval(sendable)}: {error}") from error
        return output


def _is_option_in(option: gateway_pb2.PaymentOption, sendable: SendableAsset) -> bool:
    """Return True for an option in an asset that the same account pays."""
    try:
        terms = parse_option(option)
    except WalletError:
        return False
    return (option.account, terms.asset) == (sendable.account, sendable.terms.asset)


def _hand_in(url: str, signature: str) -> None:
    """Hand in a signature; WalletError if the server refuses it.

    The same signature moves money once, so it is repeated if the server did not answer.
    """
    try:
        answer = request_x402(url, signature)
    except WalletError as error:
        print_hint(f"Repeats the same signature: {error}")
        answer = request_x402(url, signature)
    transaction = str((answer.settlement or {}).get("transaction", ""))[:100]
    document = {"step": "x402", "status": answer.status, "transaction": transaction}
    if not print_json_line(document):
        sent = f", transaction {transaction}" if transaction else ""
        console.print(f"handed in  status {answer.status}{sent}")
    if answer.status not in {200, 202}:
        _fail_refused(answer)


def _fail_refused(answer: X402Answer) -> None:
    reason = f": {answer.error}" if answer.error else ""
    raise WalletError(f"the server answers {answer.status} to a payment by x402{reason}")
