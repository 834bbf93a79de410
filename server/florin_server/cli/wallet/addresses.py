"""The address of a payment that a wallet pays to, and the choice of its asset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from florin.v1 import address_pb2
from florin_client.wallet import WalletError
from florin_client.wallet.terms import OptionTerms

from florin_server.cli.console import console, fail, print_json_line
from florin_server.cli.wallet.assets import KnownAsset, get_chain_name
from florin_server.cli.wallet.execution import FAILED, Choice, PayOptions, choose_number


@dataclass(frozen=True, slots=True)
class SendableAsset:
    """An asset that the payment accepts, and an account of the wallet on its chain."""

    account: str
    terms: OptionTerms
    asset: KnownAsset


def choose_asset(
    options: PayOptions, choices: Sequence[SendableAsset], accounts: Sequence[str]
) -> SendableAsset:
    """Show the assets and return the chosen asset; end the program without any."""
    if not print_json_line({"step": "assets", "assets": [item.terms.asset for item in choices]}):
        for number, choice in enumerate(choices, 1):
            place = get_chain_name(choice.terms.chain_id)
            console.print(f"  {number}  {choice.asset.format(choice.terms.amount)} on {place}")
    if not choices:
        fail(FAILED, f"the payment accepts no asset that {', '.join(accounts)} can send")
    named = [Choice(frozenset({item.terms.asset}), item.asset.symbol) for item in choices]
    return choices[choose_number(options, named)]


def open_address(gateway: Any, payment_id: str, sendable: SendableAsset) -> address_pb2.PayAddress:
    """Return the address for an asset, unchecked; WalletError if it is for another asset."""
    answer = gateway.open_addresses(
        payment_id, assets=[sendable.terms.asset], refund_account=sendable.account
    )
    if len(answer.addresses) != 1:
        raise WalletError(f"the server returns {len(answer.addresses)} addresses instead of 1")
    pay_address: address_pb2.PayAddress
    (pay_address,) = answer.addresses
    if pay_address.asset.lower() != sendable.terms.asset.lower():
        raise WalletError(f"the server returns an address for {pay_address.asset[:120]}")
    if not print_json_line({"step": "address", "address": pay_address}):
        console.print(f"address  {pay_address.address}")
    return pay_address
