"""Test that hostile payers cannot stop honest payments in the same transaction.

The gas reserved for each payment covers the most that it can burn. So it hardly matters what an
account becomes after its payment was confirmed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.types import SignedTransaction

from tests.support.contract_accounts import wrap_signature
from tests.support.evm_harness import (
    ACCEPTS_ALL,
    RELAYER,
    EvmChainHarness,
    make_buyer,
    make_chain_settings,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

pytestmark = pytest.mark.both_chains

# what code can do when it is asked to verify its signature
HOSTILE = {
    "burns all gas": "5b5f56",
    "burns it at once": "fe",
    "answers 100,000 bytes": "620186a05ff3",
    "reverts with 100,000 bytes": "620186a05ffd",
    "asks itself again and again": "5f5f5f5f305afa00",
    "is mute": "00",
}
TOGETHER = 50


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def gain_code(
    lab: EvmChainHarness, wallets: Sequence[LocalAccount], runtimes: Sequence[str]
) -> None:
    """Give accounts code (EIP-7702), in one transaction."""
    placed = {runtime: await lab.deploy(runtime) for runtime in sorted(set(runtimes))}
    authorizations = []
    for wallet, runtime in zip(wallets, runtimes, strict=True):
        nonce = await lab.control.call("eth_getTransactionCount", wallet.address, "latest")
        authorizations.append(
            wallet.sign_authorization(
                {
                    "chainId": DEVNET.chain_id,
                    "address": placed[runtime],
                    "nonce": int(nonce, 16),
                }
            )
        )
    await lab.send(to=DEVNET.faucet, gas=3_000_000, authorizationList=authorizations)


def confirmed(lab: EvmChainHarness, wallet: LocalAccount, number: int) -> SettlementItem:
    """Return a payment as it was accepted, whatever its payer has become since."""
    payment = make_payment(number)
    option = lab.offer(wallet, payment)
    return make_settlement_item(payment, option, sign_option(wallet, option))


async def paid(
    lab: EvmChainHarness, items: Sequence[SettlementItem], transaction: SignedTransaction
) -> list[bool]:
    """Return which payments one transaction settled."""
    results = {}
    for first in range(0, len(items), 25):
        references = [
            lab.rail.terms.get_reference(item.option) for item in items[first : first + 25]
        ]
        results |= {
            event.ref: event
            for event in await lab.rail.direct_settlement.list_settlement_events(references, 0)
        }
    result = [results.get(lab.rail.terms.get_reference(item.option)) for item in items]
    return [item is not None and item.tx_hash == transaction.hash for item in result]


async def receipt_of(lab: EvmChainHarness, transaction: SignedTransaction) -> dict[str, Any]:
    receipt: dict[str, Any] = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    return receipt


async def test_hostile_accounts_do_not_affect_honest_payments(lab):
    """The accounts signed with their keys, were accepted, and got their code only afterwards."""
    good = [make_buyer(2_000 + number) for number in range(TOGETHER)]
    bad = [make_buyer(3_000 + number) for number in range(TOGETHER - 1)]
    await lab.fund(*good[:25])
    await lab.fund(*good[25:])
    for wallet in good:
        await lab.send_tokens(wallet.address, 10**9)
    kinds = list(HOSTILE.values())
    # every second account burns gas
    runtimes = [HOSTILE["burns all gas"] if at % 2 else kinds[at % len(kinds)] for at in range(49)]
    await gain_code(lab, bad, runtimes)
    order = random.Random("hostile")
    for count in (0, 1, 2, 5, 10, 25, 49):
        honest = [
            confirmed(lab, wallet, 1_000 * (count + 1) + at)
            for at, wallet in enumerate(good[count:])
        ]
        hostile = [
            confirmed(lab, wallet, 1_000 * (count + 1) + 100 + at)
            for at, wallet in enumerate(bad[:count])
        ]
        items = [*honest, *hostile]
        order.shuffle(items)
        assert lab.rail.gas.split_into_batches(items) == [items]
        transaction = await lab.settle(*items)
        receipt = await receipt_of(lab, transaction)
        assert receipt["status"] == "0x1"
        assert await paid(lab, honest, transaction) == [True] * len(honest)
        assert not any(await paid(lab, hostile, transaction))


@pytest.mark.parametrize("how", HOSTILE)
async def test_contract_with_a_hostile_signature_does_not_affect_honest_payments(lab, how):
    """Contract accounts get more gas than keys, and their signatures are long."""
    contract = await lab.deploy(HOSTILE[how])
    honest = [await lab.create_verified_item(number) for number in range(3)]
    hostile = []
    for number in range(100, 108):
        option = lab.offer(contract, make_payment(number))
        hostile.append(
            make_settlement_item(make_payment(number), option, json.dumps("0x" + "ff" * 4096))
        )
    items = [*hostile[:4], honest[0], *hostile[4:], *honest[1:]]
    assert lab.rail.gas.split_into_batches(items) == [items]
    transaction = await lab.settle(*items)
    assert (await receipt_of(lab, transaction))["status"] == "0x1"
    assert await paid(lab, honest, transaction) == [True] * 3


async def test_dry_run_separates_hostile_from_honest_payments(lab):
    good = [make_buyer(2_000 + number) for number in range(10)]
    bad = [make_buyer(3_000 + number) for number in range(40)]
    await lab.fund(*good)
    await gain_code(lab, bad, [HOSTILE["burns all gas"]] * 40)
    items = [confirmed(lab, wallet, at) for at, wallet in enumerate([*bad[:20], *good, *bad[20:]])]
    assert await lab.rail.relay.simulate(items) == [False] * 20 + [True] * 10 + [False] * 20


@pytest.mark.parametrize("how", HOSTILE)
async def test_hostile_factory_does_not_affect_honest_payments(lab, how):
    """The operator allowed this factory; the buyer chose its call."""
    factory = await lab.deploy(HOSTILE[how])
    rail = EvmRail(
        make_chain_settings(opener=DEVNET.opener, factories=(factory, DEVNET.wallet_factory)),
        RELAYER,
        lab.node,
    )
    await rail.start()
    lab.rail = rail
    honest = [await lab.create_verified_item(number) for number in range(3)]
    hostile = []
    for number in range(100, 108):
        account = "0x" + f"{number:02x}" * 20
        option = lab.offer(account, make_payment(number))
        output = wrap_signature(factory, b"\xff" * 3_000, b"\xff" * 65)
        hostile.append(make_settlement_item(make_payment(number), option, json.dumps(output)))
    items = [*hostile[:4], honest[0], *hostile[4:], *honest[1:]]
    assert rail.gas.split_into_batches(items) == [items]
    transaction = await lab.settle(*items)
    receipt = await receipt_of(lab, transaction)
    assert (receipt["status"], receipt["to"].lower()) == ("0x1", DEVNET.opener)
    assert await paid(lab, honest, transaction) == [True] * 3


async def test_an_account_that_takes_all_that_it_may_for_its_signature_still_pays(lab):
    """The loop ends: the simulation and the settlement give it the same gas."""
    # burns about 100,000 gas in a countdown, then accepts
    slow = "610fa05b6001900380600357" + ACCEPTS_ALL
    contract = await lab.deploy(slow)
    await lab.send_tokens(contract, 10**9)
    payment = make_payment(7)
    option = lab.offer(contract, payment)
    item = make_settlement_item(payment, option, json.dumps("0x" + "5a" * 65))
    await lab.rail.verifier.verify(option, (), item.confirmation.outputs)
    transaction = await lab.settle(item)
    assert await paid(lab, [item], transaction) == [True]
    assert to_account(contract) == option.payer
