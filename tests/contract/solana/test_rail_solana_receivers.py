"""Receivers without a token account: what is opened for them, and what they are told instead."""

from __future__ import annotations

import pytest
from florin_server.flows.payouts.opening import places
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading.receivers import opened_by
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.types import NotReceivable, Transfer
from solders.keypair import Keypair

from tests.support.solana import ASSETS, SolanaWallet
from tests.support.solana_kit import START_S, place, wallet
from tests.support.solana_lab import (
    MERCHANT,
    PRICE,
    RELAYER,
    Lab,
    message,
    open_lab,
    outputs,
    settings,
    signed,
    split,
)

NOW_US = START_S * 1_000_000
TOLD = f"{MERCHANT} has no account for the token "
SEED = b"\x54" * 32


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


async def open_merchant(lab: Lab) -> None:
    """The merchant gets an account for each token, and not from us."""
    await lab.node.fund(wallet(91).pubkey(), lamports=0)


async def obstacles(lab: Lab, openable=()) -> list[str | None]:
    found = [lab.rail.offers.obstacle(lab.rail.assets[a], PRICE, split(), openable) for a in ASSETS]
    return [await one for one in found]


async def test_an_option_needs_an_account_or_leave_to_open_one(lab):
    lab.between.asked.clear()
    everything = [one for asset in ASSETS for one in places(asset, split())]
    assert await obstacles(lab, everything) == [None, None]
    assert lab.between.asked == []
    first, second = await obstacles(lab)
    assert first.startswith(TOLD)
    assert second.startswith(TOLD)
    assert await obstacles(lab, places(ASSETS[0], split())) == [None, second]
    await open_merchant(lab)
    assert await obstacles(lab) == [None, None]


async def test_only_what_may_be_opened_is(lab, buyer):
    _, option = await lab.offer(buyer)
    with pytest.raises(NotReceivable, match="has to open one itself"):
        await lab.rail.offers.build(option, [], NOW_US)
    issued = await lab.rail.offers.build(option, [], NOW_US, None, lab.openable(option))
    opened = opened_by(lab.rail.chain_id, message(issued))
    assert opened == places(option.asset, lab.rail.terms.split(option))
    assert lab.rail.token_accounts.opened_by(outputs(signed(buyer, issued))) == opened


async def test_what_was_issued_is_told_again_only_if_it_may_still_open_what_it_does(lab, buyer):
    _, option = await lab.offer(buyer)
    opening = await lab.issued(option)
    assert await lab.built(option, [opening]) is None
    with pytest.raises(NotReceivable):
        await lab.rail.offers.build(option, [opening], NOW_US)
    await open_merchant(lab)
    # the account is there now, and may be gone before it lands
    await lab.slots(1)
    plain = await lab.rail.offers.build(option, [opening], NOW_US)
    assert opened_by(lab.rail.chain_id, message(plain)) == []
    assert await lab.rail.offers.build(option, [plain, opening], NOW_US) is None
    # while it may be opened, what was told first is as good
    assert await lab.built(option, [opening]) is None


async def test_what_opens_too_little_is_issued_anew(lab, buyer):
    """As if the owner had closed the account after a transaction that relies on it."""
    await open_merchant(lab)
    _, before = await lab.offer(buyer)
    relies = await lab.issued(before)
    assert opened_by(lab.rail.chain_id, message(relies)) == []
    dest = str(wallet(17).pubkey())
    _, option = await lab.offer(buyer, dest=dest)
    again = await lab.built(option, [relies])
    assert again is not None
    assert opened_by(lab.rail.chain_id, message(again)) == places(option.asset, split(dest=dest))


@pytest.fixture
async def payer(lab):
    treasury = SolanaSigner(SEED)
    await lab.node.fund(Keypair.from_seed(SEED))
    rail = SolanaRail(settings(treasury=treasury.address), RELAYER, lab.between, treasury=treasury)
    await rail.start()
    yield rail.payouts
    await rail.close()


async def test_a_payout_opens_an_account_only_if_it_may(lab, payer):
    account = f"{lab.rail.chain_id}:{MERCHANT}"
    plain = Transfer("pout_1", ASSETS[0], account, PRICE)
    may = Transfer("pout_1", ASSETS[0], account, PRICE, may_open=True)
    assert (await payer.obstacle(plain, [])).startswith(TOLD)
    with pytest.raises(NotReceivable, match="has to open one itself"):
        await payer.sign(0, plain)
    assert await payer.obstacle(may, []) is None
    made = await payer.sign(0, may)
    assert made.opens
    before = await lab.node.coin(RELAYER.pubkey)
    await lab.rail.relay.broadcast(made.raw)
    assert await lab.node.tokens(wallet(91).pubkey()) == PRICE
    rent = await lab.node.coin(place(wallet(91).pubkey()))
    assert before - await lab.node.coin(RELAYER.pubkey) == rent + 10_200
    # now that it is there, nothing is opened
    await lab.slots(1)
    for transfer in (plain, may):
        assert await payer.obstacle(transfer, []) is None
        assert not (await payer.sign(0, transfer)).opens
