"""Payments by transactions that wallets send themselves, under a Solana rail."""

from __future__ import annotations

import base64

from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset
from solders.hash import Hash
from solders.message import Message, MessageV0
from solders.transaction import Transaction, VersionedTransaction

from tests.support.evm_harness import make_payment
from tests.support.solana import ASSETS, SolanaTestWallet
from tests.support.solana_devnet import START_S, make_wallet
from tests.support.solana_pay import list_legacy_instructions
from tests.support.solana_rail_harness import FINAL, PRICE, SolanaRailHarness, make_split

FEE = 15_000


async def open_receivers(lab: SolanaRailHarness) -> None:
    """Give merchant and operator their token accounts."""
    for number in (90, 91):
        await lab.node.fund(make_wallet(number))


async def offer_request(
    lab: SolanaRailHarness, wallet: SolanaTestWallet
) -> tuple[Payment, PaymentOption]:
    payment = make_payment(1)
    payer = lab.rail.find_payer(wallet.account)
    assert payer is not None
    await lab.payable([payer], {ASSETS[0]: PRICE})
    payable = PayableAsset(payer, ASSETS[0], method=lab.rail.transaction_requests.method)
    asset, now_us = lab.rail.assets[ASSETS[0]], START_S * 1_000_000
    split = make_split(FEE)
    option = lab.rail.offers.build_option(
        OptionOffer(payment, wallet.account, payable, asset, PRICE, split, now_us)
    )
    return payment, option


async def pay_request(
    lab: SolanaRailHarness, wallet: SolanaTestWallet, *, version: int = -1
) -> tuple[Payment, PaymentOption, str]:
    """Send the transaction of an option; return its signature once it is final."""
    payment, option = await offer_request(lab, wallet)
    encoded = await lab.rail.transaction_requests.build_transaction(payment, option)
    message = Transaction.from_bytes(base64.b64decode(encoded)).message
    latest = await lab.node.ask("getLatestBlockhash", {"commitment": "processed"})
    blockhash = Hash.from_string(latest["value"]["blockhash"])
    steps, payer = list_legacy_instructions(message), wallet.key.pubkey()
    sent_message = (
        MessageV0.try_compile(payer, steps, [], blockhash)
        if version == 0
        else Message.new_with_blockhash(steps, payer, blockhash)
    )
    raw = bytes(VersionedTransaction(sent_message, [wallet.key]))
    config = {"encoding": "base64"}
    signature = await lab.node.ask("sendTransaction", base64.b64encode(raw).decode(), config)
    await lab.slots(FINAL + 1)
    return payment, option, signature
