"""What a payment costs in gas, by the way it is paid: alone, and as one of many.

Every payment has a fee that is split off, a buyer of its own, and receivers that hold the token or
coin already: what a running shop sees. Gas does not depend on the machine.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from florin_server.devnet.evm import DEVNET
from florin_server.domain.journal import Accepted
from florin_server.rails.base import Asset, Means, Split
from florin_server.rails.evm.settings import EvmCoin
from florin_server.rails.evm.typed_data import PERMIT2

from tests.bench.report import Figure
from tests.contract.evm_lab import (
    CHAIN,
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    TOKEN,
    Lab,
    accept,
    account_of,
    asset,
    buyer,
    euro,
    new_payment,
    open_lab,
    signed,
)

COIN = f"{CHAIN}/slip44:60"
TOGETHER, FEE = 50, 15_000
_APPROVE = bytes.fromhex("095ea7b3" + PERMIT2[2:].rjust(64, "0"))


def measure(_pool: ProcessPoolExecutor) -> list[Figure]:
    return asyncio.run(_measure())


async def _measure() -> list[Figure]:
    figures = []
    coin = EvmCoin(name="Test Ether", symbol="tETH")
    lab = await open_lab(assets=(asset(), euro()), coin=coin)
    try:
        for name, way, most in (("eip3009", TOKEN, 75_000), ("permit2", EURO, 75_000)):
            await _settled(lab, way, [1])  # the receivers' first
            alone = await _settled(lab, way, [2])
            each = await _settled(lab, way, list(range(3, 3 + TOGETHER))) / TOGETHER
            note = f"each of {TOGETHER} payments with a fee in one transaction; {alone:,} alone"
            figures.append(Figure(f"gas_{name}", each, "gas", note, at_most=most))
        for receiver in (MERCHANT, FEES):
            await lab.send(to=receiver, value=1)
        figures.append(await _sent(lab, COIN, Means("", COIN), 100_000))
        figures.append(await _sent(lab, TOKEN, Means("", TOKEN, (PRICE,), "direct"), 130_000))
    finally:
        await lab.rail.close()
        await lab.chain.close()
    return figures


async def _sent(lab: Lab, asset_id: str, means: Means, most: int) -> Figure:
    """The gas of what a wallet sends by itself."""
    wallet = buyer(20_000)
    payer = account_of(wallet)
    await lab.rail.payable([payer], {asset_id: PRICE})
    split = Split(account_of(MERCHANT), account_of(FEES), FEE, settled=True)
    way, token = replace(means, payer=payer), lab.rail.assets[asset_id]
    number = 20_000 + len(means.approvals)
    option = lab.rail.offer(new_payment(number), payer, way, token, PRICE, split, 0)
    issued = await lab.rail.build(option, (), 0)
    if issued is None:
        raise RuntimeError("the build was not resolved")
    gas = []
    for action in issued.actions:
        tx_hash = json.loads(await lab.perform(wallet, action))
        receipt = await lab.control.call("eth_getTransactionReceipt", tx_hash)
        gas.append(int(receipt["gasUsed"], 16))
    if not await lab.rail.paid([lab.rail.reference(option)], 0):
        raise RuntimeError("the payment did not settle")
    *before, last = gas
    kind = "direct" if before else "coin"
    note = f"a payment with a fee that a wallet sends by itself; {sum(before):,} for approvals"
    return Figure(f"gas_{kind}", last, "gas", note, at_most=most)


async def _settled(lab: Lab, asset_id: str, numbers: list[int]) -> int:
    """The gas of one transaction that settles a payment for each number."""
    token = lab.rail.assets[asset_id]
    wallets = [buyer(10_000 + number) for number in numbers]
    await lab.rail.payable([account_of(wallet) for wallet in wallets], {asset_id: PRICE})
    items = [await _sold(lab, token, number) for number in numbers]
    transaction = await lab.settle(*items)
    paid = await lab.rail.paid([lab.rail.reference(item.option) for item in items], 0)
    if len(paid) != len(items):
        raise RuntimeError(f"{len(items) - len(paid)} of {len(items)} payments did not settle")
    receipt = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    return int(receipt["gasUsed"], 16)


async def _sold(lab: Lab, token: Asset, number: int) -> Accepted:
    wallet, payment = buyer(10_000 + number), new_payment(number)
    if token.method == "permit2":
        # some more than the price, as for a wallet that approved before
        data = _APPROVE + (PRICE * 2).to_bytes(32, "big")
        await lab.send(key=bytes(wallet.key), to=DEVNET.euro.address, data=data)
    payer = account_of(wallet)
    split = Split(account_of(MERCHANT), account_of(FEES), FEE, settled=True)
    option = lab.rail.offer(payment, payer, Means(payer, token.id), token, PRICE, split, 0)
    return accept(payment, option, signed(wallet, option))
