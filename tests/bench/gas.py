"""Measure the gas of a payment by payment method: alone, and in a batch.

Every payment has a fee that is split off, its own buyer, and receivers that already have the token
or coin, as in a running shop. Payouts go to an account that was paid before. Gas does not depend on
the machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import (
    Asset,
    PayableAsset,
    Split,
    TreasuryTransfer,
)

from tests.bench.report import Figure
from tests.bench.size import sized
from tests.support.contract_accounts import make_contract_account
from tests.support.evm_harness import (
    CHAIN,
    ETHER,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_euro_asset,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)
from tests.support.payout_harness import TREASURY

COIN = f"{CHAIN}/slip44:60"
TOGETHER, FEE = sized(50, 3), 15_000
_APPROVE = bytes.fromhex("095ea7b3" + PERMIT2[2:].rjust(64, "0"))


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    figures = []
    coin = EvmCoinSettings(name="Test Ether", symbol="tETH")
    lab = await open_lab(
        assets=(make_asset(), make_euro_asset()),
        coin=coin,
        opener=DEVNET.opener,
        factories=(DEVNET.wallet_factory,),
        treasury=TREASURY,
    )
    try:
        for name, way, most in (("eip3009", TOKEN, 75_000), ("permit2", EURO, 75_000)):
            await settle_payments(lab, way, [1])  # the receivers' first payment
            alone = await settle_payments(lab, way, [2])
            each = await settle_payments(lab, way, list(range(3, 3 + TOGETHER))) / TOGETHER
            note = f"each of {TOGETHER} payments with a fee in one transaction; {alone:,} alone"
            figures.append(Figure(f"gas_{name}", each, "gas", note, at_most=most))
        for receiver in (MERCHANT, FEES):
            await lab.send(to=receiver, value=1)
        figures.append(await measure_wallet_payment(lab, COIN, PayableAsset("", COIN), 100_000))
        figures.append(
            await measure_wallet_payment(
                lab, TOKEN, PayableAsset("", TOKEN, (PRICE,), "direct"), 130_000
            )
        )
        figures += await _by_contract(lab)
        await lab.send(to=TREASURY.address, value=10 * ETHER)
        await lab.send_tokens(TREASURY.address, 10 * PRICE)
        for name, asset_id, most in (("token", TOKEN, 45_000), ("coin", COIN, 21_000)):
            figures.append(await _paid_out(lab, name, asset_id, most))
    finally:
        await lab.rail.close()
        await lab.chain.close()
    return figures


async def measure_wallet_payment(
    lab: EvmChainHarness, asset_id: str, means: PayableAsset, most: int
) -> Figure:
    """Return the gas of a transaction that a wallet sends itself."""
    wallet = make_buyer(20_000)
    payer = to_account(wallet)
    await lab.payable([payer], {asset_id: PRICE})
    split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
    way, token = replace(means, payer=payer), lab.rail.assets[asset_id]
    number = 20_000 + len(means.approvals)
    option = lab.rail.offers.build_option(
        OptionOffer(make_payment(number), payer, way, token, PRICE, split, 0)
    )
    issued = await lab.rail.offers.resolve_build(option, (), 0)
    if issued is None:
        raise RuntimeError("the build was not resolved")
    gas = []
    for action in issued.actions:
        tx_hash = json.loads(await lab.perform(wallet, action))
        receipt = await lab.control.call("eth_getTransactionReceipt", tx_hash)
        gas.append(int(receipt["gasUsed"], 16))
    if not await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], 0
    ):
        raise RuntimeError("the payment did not settle")
    *before, last = gas
    kind = "direct" if before else "coin"
    note = f"a payment with a fee that a wallet sends directly; {sum(before):,} for approvals"
    return Figure(f"gas_{kind}", last, "gas", note, at_most=most)


async def _by_contract(lab: EvmChainHarness) -> list[Figure]:
    """Return the gas of payments by an account that signed before it existed (ERC-6492)."""
    account = make_contract_account(make_buyer(30_000))
    token = lab.rail.assets[TOKEN]
    await lab.payable([to_account(account.address)], {TOKEN: 2 * PRICE})
    gas = []
    for number in (30_001, 30_002):
        payment, option = _offered(lab, token, to_account(account.address), number)
        typed_data = json.loads(json.loads(option.actions[-1].params_json)[1])
        output = json.dumps(account.sign(typed_data) if gas else account.wrap(typed_data))
        item = make_settlement_item(payment, option, output)
        await lab.rail.verifier.verify(option, (), item.confirmation.outputs)
        gas.append(await _settlement(lab, [item]))
    note = "a payment with a fee by a contract account, in a transaction of its own"
    return [
        Figure("gas_erc6492_first", gas[0], "gas", f"{note}, which creates it", at_most=500_000),
        Figure("gas_erc6492_later", gas[1], "gas", f"{note}, which is there", at_most=135_000),
    ]


async def _paid_out(lab: EvmChainHarness, name: str, asset_id: str, most: int) -> Figure:
    """Return the gas of a transfer out of the treasury."""
    payouts = lab.rail.payouts
    if payouts is None:
        raise RuntimeError("the treasury's key is not there")
    transfer = TreasuryTransfer("pout_bench", asset_id, to_account(MERCHANT), PRICE)
    nonce = await lab.rail.account_nonces.get_next_nonce(payouts.sender)
    signed_transfer = await payouts.sign(nonce, transfer)
    await lab.rail.relay.broadcast(signed_transfer.raw)
    receipt = await lab.control.call("eth_getTransactionReceipt", signed_transfer.hash)
    if int(receipt["status"], 16) != 1:
        raise RuntimeError("the payout failed")
    note = f"a refund or payout in {'the chain’s own coin' if name == 'coin' else 'a token'}"
    return Figure(f"gas_payout_{name}", int(receipt["gasUsed"], 16), "gas", note, at_most=most)


async def settle_payments(lab: EvmChainHarness, asset_id: str, numbers: Sequence[int]) -> int:
    """Return the gas of one transaction that settles a payment per number."""
    token = lab.rail.assets[asset_id]
    wallets = [make_buyer(10_000 + number) for number in numbers]
    await lab.payable([to_account(wallet) for wallet in wallets], {asset_id: PRICE})
    return await _settlement(lab, [await _sold(lab, token, number) for number in numbers])


async def _settlement(lab: EvmChainHarness, items: Sequence[SettlementItem]) -> int:
    """Return the gas of one transaction that settles all items."""
    transaction = await lab.settle(*items)
    paid = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option) for item in items], 0
    )
    if len(paid) != len(items):
        raise RuntimeError(f"{len(items) - len(paid)} of {len(items)} payments did not settle")
    receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    return int(receipt["gasUsed"], 16)


async def _sold(lab: EvmChainHarness, token: Asset, number: int) -> SettlementItem:
    wallet = make_buyer(10_000 + number)
    if token.method == "permit2":
        # more than the price, as for a wallet with an earlier approval
        data = _APPROVE + (PRICE * 2).to_bytes(32, "big")
        await lab.send(key=bytes(wallet.key), to=DEVNET.euro.address, data=data)
    payment, option = _offered(lab, token, to_account(wallet), number)
    return make_settlement_item(payment, option, sign_option(wallet, option))


def _offered(
    lab: EvmChainHarness, token: Asset, payer: str, number: int
) -> tuple[Payment, PaymentOption]:
    payment = make_payment(number)
    split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
    option = lab.rail.offers.build_option(
        OptionOffer(payment, payer, PayableAsset(payer, token.id), token, PRICE, split, 0)
    )
    return payment, option
