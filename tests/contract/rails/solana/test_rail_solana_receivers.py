"""Test receivers without a token account: which accounts Florin opens, and the errors otherwise."""

from __future__ import annotations

import pytest
from florin_server.money.payouts.service.account_opening import list_receiving_accounts
from florin_server.rails.solana.paying.verify import RELAYER_LAMPORTS_MIN
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading.receivers import list_opened_accounts
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.types import RailUnavailable, ReceiverUnavailable, TreasuryTransfer
from solders.keypair import Keypair

from tests.support.solana import ASSETS, SolanaTestWallet
from tests.support.solana_answers import make_result_change
from tests.support.solana_devnet import START_S, get_token_account, make_wallet
from tests.support.solana_rail_harness import (
    MERCHANT,
    PRICE,
    RELAYER,
    SolanaRailHarness,
    get_message,
    make_chain_settings,
    make_outputs,
    make_split,
    open_lab,
    sign_build,
)

NOW_US = START_S * 1_000_000
NO_ACCOUNT_MESSAGE = f"{MERCHANT} has no account for the token "
SEED = b"\x54" * 32


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


async def open_merchant(lab: SolanaRailHarness) -> None:
    """Open the merchant's account for each token, at no cost to Florin."""
    await lab.node.fund(make_wallet(91).pubkey(), lamports=0)


async def obstacles(lab: SolanaRailHarness, openable=()) -> list[str | None]:
    results = [
        lab.rail.offers.check_receivable(lab.rail.assets[a], PRICE, make_split(), openable)
        for a in ASSETS
    ]
    return [await item for item in results]


async def test_option_needs_an_existing_account_or_permission_to_open_an_account(lab):
    lab.transport.methods.clear()
    everything = [
        asset_account
        for asset in ASSETS
        for asset_account in list_receiving_accounts(asset, make_split())
    ]
    assert await obstacles(lab, everything) == [None, None]
    assert lab.transport.methods == []
    first, second = await obstacles(lab)
    assert first.startswith(NO_ACCOUNT_MESSAGE)
    assert second.startswith(NO_ACCOUNT_MESSAGE)
    assert await obstacles(lab, list_receiving_accounts(ASSETS[0], make_split())) == [None, second]
    await open_merchant(lab)
    assert await obstacles(lab) == [None, None]


async def test_only_permitted_accounts_are_opened(lab, buyer):
    _, option = await lab.offer(buyer)
    with pytest.raises(ReceiverUnavailable, match="the owner must open it"):
        await lab.rail.offers.resolve_build(option, [], NOW_US)
    issued = await lab.rail.offers.resolve_build(
        option, [], NOW_US, None, lab.list_openable_accounts(option)
    )
    opened = list_opened_accounts(lab.rail.chain_id, get_message(issued))
    assert opened == list_receiving_accounts(option.asset, lab.rail.terms.get_split(option))
    assert (
        lab.rail.token_accounts.list_opened_accounts(make_outputs(sign_build(buyer, issued)))
        == opened
    )


async def test_issued_build_is_reused_only_if_it_may_still_open_its_accounts(lab, buyer):
    _, option = await lab.offer(buyer)
    opening = await lab.build_option(option)
    assert await lab.resolve_build(option, [opening]) is None
    with pytest.raises(ReceiverUnavailable):
        await lab.rail.offers.resolve_build(option, [opening], NOW_US)
    await open_merchant(lab)
    # the account exists now, but can be gone before the transaction lands
    await lab.slots(1)
    plain = await lab.rail.offers.resolve_build(option, [opening], NOW_US)
    assert list_opened_accounts(lab.rail.chain_id, get_message(plain)) == []
    assert await lab.rail.offers.resolve_build(option, [plain, opening], NOW_US) is None
    # while the account can be opened, the first issue stays valid
    assert await lab.resolve_build(option, [opening]) is None


async def test_build_that_opens_too_few_accounts_is_reissued(lab, buyer):
    """The owner closes the account after a transaction that relies on it."""
    await open_merchant(lab)
    _, before = await lab.offer(buyer)
    relies = await lab.build_option(before)
    assert list_opened_accounts(lab.rail.chain_id, get_message(relies)) == []
    dest = str(make_wallet(17).pubkey())
    _, option = await lab.offer(buyer, dest=dest)
    again = await lab.resolve_build(option, [relies])
    assert again is not None
    assert list_opened_accounts(lab.rail.chain_id, get_message(again)) == list_receiving_accounts(
        option.asset, make_split(dest=dest)
    )


@pytest.fixture
async def payer(lab):
    treasury = SolanaSigner(SEED)
    await lab.node.fund(Keypair.from_seed(SEED))
    rail = SolanaRail(
        make_chain_settings(treasury=treasury.address), RELAYER, lab.transport, treasury=treasury
    )
    await rail.start()
    yield rail.payouts
    await rail.close()


async def test_a_payout_opens_an_account_only_if_it_may(lab, payer):
    account = f"{lab.rail.chain_id}:{MERCHANT}"
    plain = TreasuryTransfer("pout_1", ASSETS[0], account, PRICE)
    may = TreasuryTransfer("pout_1", ASSETS[0], account, PRICE, may_open_account=True)
    assert (await payer.check_transfer(plain, [])).startswith(NO_ACCOUNT_MESSAGE)
    with pytest.raises(ReceiverUnavailable, match="the owner must open it"):
        await payer.sign(0, plain)
    assert await payer.check_transfer(may, []) is None
    created = await payer.sign(0, may)
    assert created.opens_account
    before = await lab.node.coin(RELAYER.pubkey)
    await lab.rail.relay.broadcast(created.raw)
    assert await lab.node.tokens(make_wallet(91).pubkey()) == PRICE
    rent = await lab.node.coin(get_token_account(make_wallet(91).pubkey()))
    assert before - await lab.node.coin(RELAYER.pubkey) == rent + 10_200
    # the account exists now, so nothing is opened
    await lab.slots(1)
    for transfer in (plain, may):
        assert await payer.check_transfer(transfer, []) is None
        assert not (await payer.sign(0, transfer)).opens_account


async def test_relayer_opens_an_account_if_it_has_the_rent_that_the_cluster_takes(lab):
    places = list_receiving_accounts(ASSETS[0], make_split())
    changes, rent = lab.transport.changes, 400_000
    changes["getMinimumBalanceForRentExemption"] = lambda _, answer: {**answer, "result": rent}

    def hold(lamports: int) -> None:
        changes["getBalance"] = make_result_change(lambda result: result.update(value=lamports))

    hold(RELAYER_LAMPORTS_MIN + rent)
    assert (await lab.rail.token_accounts.sign(places)).raw
    hold(RELAYER_LAMPORTS_MIN + rent - 1)
    with pytest.raises(RailUnavailable, match="has less"):
        await lab.rail.token_accounts.sign(places)
