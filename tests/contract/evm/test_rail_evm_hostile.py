"""In a transaction with hostile payers every honest one is paid, by that very transaction.

What is reserved for each covers the most that it can burn, so that it matters little what became of
an account after its payment was confirmed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount
from florin_server.devnet.evm import DEVNET
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.types import Signed

from tests.support.evm_lab import (
    ACCEPTS_ALL,
    RELAYER,
    Lab,
    accept,
    account_of,
    buyer,
    new_payment,
    open_lab,
    settings,
    signed,
)
from tests.support.smart import wrapped

pytestmark = pytest.mark.both_chains

# what code may do when it is asked for its signature
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


async def gain_code(lab: Lab, wallets: Sequence[LocalAccount], runtimes: Sequence[str]) -> None:
    """Gives accounts code (EIP-7702), in one transaction."""
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


def confirmed(lab: Lab, wallet: LocalAccount, number: int) -> Accepted:
    """A payment as it was accepted, whatever its payer has become since."""
    payment = new_payment(number)
    option = lab.offer(wallet, payment)
    return accept(payment, option, signed(wallet, option))


async def paid(lab: Lab, items: Sequence[Accepted], transaction: Signed) -> list[bool]:
    """Which payments one transaction has settled."""
    found = {}
    for first in range(0, len(items), 25):
        references = [lab.rail.terms.reference(one.option) for one in items[first : first + 25]]
        found |= {event.ref: event for event in await lab.rail.direct.paid(references, 0)}
    told = [found.get(lab.rail.terms.reference(one.option)) for one in items]
    return [one is not None and one.tx_hash == transaction.hash for one in told]


async def receipt_of(lab: Lab, transaction: Signed) -> dict[str, Any]:
    receipt: dict[str, Any] = await lab.control.call("eth_getTransactionReceipt", transaction.hash)
    return receipt


async def test_any_number_of_hostile_accounts_leaves_the_others_alone(lab):
    """They signed with their keys, were accepted, and gained their code only then."""
    good = [buyer(2_000 + number) for number in range(TOGETHER)]
    bad = [buyer(3_000 + number) for number in range(TOGETHER - 1)]
    await lab.fund(*good[:25])
    await lab.fund(*good[25:])
    for wallet in good:
        await lab.send_tokens(wallet.address, 10**9)
    kinds = list(HOSTILE.values())
    # most of them burn
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
        assert lab.rail.gas.batches(items) == [items]
        transaction = await lab.settle(*items)
        receipt = await receipt_of(lab, transaction)
        assert receipt["status"] == "0x1"
        assert await paid(lab, honest, transaction) == [True] * len(honest)
        assert not any(await paid(lab, hostile, transaction))


@pytest.mark.parametrize("how", HOSTILE)
async def test_a_contract_that_signs_in_no_good_way_leaves_the_others_alone(lab, how):
    """Contract accounts have more gas than keys, and their signatures are long."""
    contract = await lab.deploy(HOSTILE[how])
    honest = [await lab.sold(number) for number in range(3)]
    hostile = []
    for number in range(100, 108):
        option = lab.offer(contract, new_payment(number))
        hostile.append(accept(new_payment(number), option, json.dumps("0x" + "ff" * 4096)))
    items = [*hostile[:4], honest[0], *hostile[4:], *honest[1:]]
    assert lab.rail.gas.batches(items) == [items]
    transaction = await lab.settle(*items)
    assert (await receipt_of(lab, transaction))["status"] == "0x1"
    assert await paid(lab, honest, transaction) == [True] * 3


async def test_a_dry_run_of_fifty_tells_the_honest_ones_from_the_others(lab):
    good = [buyer(2_000 + number) for number in range(10)]
    bad = [buyer(3_000 + number) for number in range(40)]
    await lab.fund(*good)
    await gain_code(lab, bad, [HOSTILE["burns all gas"]] * 40)
    items = [confirmed(lab, wallet, at) for at, wallet in enumerate([*bad[:20], *good, *bad[20:]])]
    assert await lab.rail.relay.simulate(items) == [False] * 20 + [True] * 10 + [False] * 20


@pytest.mark.parametrize("how", HOSTILE)
async def test_a_hostile_factory_leaves_the_others_alone(lab, how):
    """It is one that the operator named; what it is called with, the buyer chose."""
    factory = await lab.deploy(HOSTILE[how])
    rail = EvmRail(
        settings(opener=DEVNET.opener, factories=(factory, DEVNET.wallet_factory)),
        RELAYER,
        lab.node,
    )
    await rail.start()
    lab.rail = rail
    honest = [await lab.sold(number) for number in range(3)]
    hostile = []
    for number in range(100, 108):
        account = "0x" + f"{number:02x}" * 20
        option = lab.offer(account, new_payment(number))
        output = wrapped(factory, b"\xff" * 3_000, b"\xff" * 65)
        hostile.append(accept(new_payment(number), option, json.dumps(output)))
    items = [*hostile[:4], honest[0], *hostile[4:], *honest[1:]]
    assert rail.gas.batches(items) == [items]
    transaction = await lab.settle(*items)
    receipt = await receipt_of(lab, transaction)
    assert (receipt["status"], receipt["to"].lower()) == ("0x1", DEVNET.opener)
    assert await paid(lab, honest, transaction) == [True] * 3


async def test_an_account_that_takes_all_that_it_may_for_its_signature_still_pays(lab):
    """A loop that ends: the trial and the settlement give it the same gas."""
    # burns some 100,000 gas by counting down, and accepts
    slow = "610fa05b6001900380600357" + ACCEPTS_ALL
    contract = await lab.deploy(slow)
    await lab.send_tokens(contract, 10**9)
    payment = new_payment(7)
    option = lab.offer(contract, payment)
    item = accept(payment, option, json.dumps("0x" + "5a" * 65))
    await lab.rail.verifier.verify(option, (), item.confirmation.outputs)
    transaction = await lab.settle(item)
    assert await paid(lab, [item], transaction) == [True]
    assert account_of(contract) == option.payer
