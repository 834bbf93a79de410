"""Costs that buyers can cause the Solana relayer: limited for each payment, payer, app and hour.

An evaded payment is one whose money is moved away after the dry run: it still costs the fee.
"""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.settings import EmbeddedSolanaSettings, FailedFeeSettings
from solders.compute_budget import set_compute_unit_price

from tests.support import solana_guards as guards
from tests.support.operator import get_relayer
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import (
    SolanaNodeClient,
    SolanaTestWallet,
    get_transaction,
    list_instructions,
    make_time_step,
    rebuild_transaction,
)
from tests.support.solana_offers import ORDER, PRICE, SolanaOffer, get_refusal, make_offer
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

USUAL_FEE = 10_200
# five times the usual fee, less two signatures, for 200,000 units
PRICE_MAX = 205_000
CREDITED = 10_000 * 10**6
# the smallest allowed setting; two evaded payments at the highest fee use it up
BUDGET = 100_000
PLENTY = 10**12


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    solana = EmbeddedSolanaSettings(slot_s=0, finalized_slots=1)
    async with open_service(tmp_path_factory.mktemp("fees") / "home", solana=solana) as desk:
        yield desk


@pytest.fixture
def node(desk: ServiceHarness) -> SolanaNodeClient:
    return node_of(desk)


def node_of(desk: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


def guarded(offer: SolanaOffer, left: int, units: int = 300_000, extra=()) -> str:
    """Return the issued transaction as Phantom does, with guards and another compute limit."""
    message = get_transaction(offer.action).message
    relayer, buyer = message.account_keys[:2]
    token = SOLANA_DEVNET.tokens[0]
    place = spl.derive_associated_address(
        buyer, spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
    )
    own = guards.add_phantom_guards(list_instructions(message), relayer, buyer, place, left, units)
    return offer.wallet.sign(rebuild_transaction(message, [*own, *extra]))


def priced(offer: SolanaOffer, price: int) -> str:
    """Return the issued transaction with another compute price, signed by the wallet."""
    message = get_transaction(offer.action).message
    own = list_instructions(message)
    own[1] = set_compute_unit_price(price)
    return offer.wallet.sign(rebuild_transaction(message, own))


async def relayer_coin(desk: ServiceHarness) -> int:
    return await node_of(desk).coin(await get_relayer(desk, SOLANA_DEVNET.chain_id))


async def evade(
    desk: ServiceHarness, price: int, wallet: SolanaTestWallet | None = None
) -> SolanaTestWallet:
    """Make a payment that passes the dry run, and whose money is gone when it lands."""
    chain = node_of(desk)
    offer = await make_offer(desk.rest, wallet or SolanaTestWallet(), expiresAt=desk.now + 86_400)
    output = priced(offer, price)
    await chain.fault("answer", method="sendTransaction", effect="drop", times=1000)
    assert (await offer.confirm(output))["status"] == "processing"
    held = await chain.balance(offer.wallet.address)
    await chain.spend(offer.wallet, held - PRICE + 1, after={"kind": "clear"})

    async def ended() -> bool:
        return (await offer.status())["status"] == "failed"

    await wait_until(ended, meanwhile=make_time_step(desk, chain, slots=2, seconds=11))
    return offer.wallet


async def test_fee_of_a_payment_is_at_most_five_times_the_usual_fee(desk, node):
    first = await make_offer(desk.rest, SolanaTestWallet())
    await first.confirm()
    assert (await first.final())["status"] == "succeeded"
    before = await relayer_coin(desk)
    offer = await make_offer(desk.rest, SolanaTestWallet())
    error = await get_refusal(offer.confirm(priced(offer, PRICE_MAX + 1)))
    assert (error.http, error.details["reason"]) == (400, "transaction_mismatch")
    assert "more than the limit of 51000" in error.message
    await offer.confirm(priced(offer, PRICE_MAX))
    assert (await offer.final())["status"] == "succeeded"
    assert before - await relayer_coin(desk) == 5 * USUAL_FEE


@pytest.mark.parametrize("bounded", ["payer", "app", "chain"])
async def test_evaded_payments_use_up_a_budget_and_then_nothing_is_sent(tmp_path, bounded):
    plenty = dict.fromkeys(("app", "payer", "chain"), PLENTY)
    fees = FailedFeeSettings(**plenty | {bounded: BUDGET})
    solana = EmbeddedSolanaSettings(slot_s=0, finalized_slots=1)
    async with open_service(tmp_path / "home", solana=solana, failed_fees=fees) as desk:
        opening = await make_offer(desk.rest, SolanaTestWallet())
        await opening.confirm()
        assert (await opening.final())["status"] == "succeeded"
        victim = await make_offer(desk.rest, SolanaTestWallet(), expiresAt=desk.now + 86_400)
        before = await relayer_coin(desk)
        wallet = await evade(desk, PRICE_MAX)
        same = wallet if bounded == "payer" else None
        wallet = await evade(desk, PRICE_MAX, same)
        lost = before - await relayer_coin(desk)
        assert lost == 2 * 5 * USUAL_FEE >= BUDGET
        # no signature is requested that would be refused
        created = await desk.rest.create(ORDER)
        account = wallet.account if bounded == "payer" else SolanaTestWallet().account
        options = (await desk.rest.options(created["paymentId"], [account]))["options"]
        assert options == []
        if bounded == "payer":
            await victim.confirm()
            assert (await victim.final())["status"] == "succeeded"
            return
        error = await get_refusal(victim.confirm())
        assert (error.http, error.details["reason"]) == (503, "payments_paused")
        assert (await victim.status())["status"] == "requires_action"
        assert before - await relayer_coin(desk) == lost
        desk.clock.advance(3600)
        later = await make_offer(desk.rest, SolanaTestWallet())
        await later.confirm()
        assert (await later.final())["status"] == "succeeded"


async def test_payment_with_phantoms_guards_and_compute_limit_settles(desk):
    offer = await make_offer(desk.rest, SolanaTestWallet())
    held = await node_of(desk).balance(offer.wallet.address)
    output = guarded(offer, left=held - PRICE)
    await offer.confirm(output)
    assert (await offer.final())["status"] == "succeeded"
    assert await node_of(desk).balance(offer.wallet.address) == held - PRICE


async def test_guard_that_fails_in_the_trial_is_refused_and_costs_nothing(desk, node):
    offer = await make_offer(desk.rest, SolanaTestWallet())
    held = await node.balance(offer.wallet.address)
    before = await relayer_coin(desk)
    error = await get_refusal(offer.confirm(guarded(offer, left=held)))
    assert (error.http, error.details["reason"]) == (400, "transaction_mismatch")
    assert "guard" in error.message
    assert await relayer_coin(desk) == before
    fifth = [guards.make_lamports_guard(offer.wallet.key.pubkey(), 0)]
    error = await get_refusal(offer.confirm(guarded(offer, left=held - PRICE, extra=fifth)))
    assert error.details["reason"] == "transaction_mismatch"
    # the same payment without a guard is still accepted
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_guards_that_fail_on_chain_use_up_the_budget_of_their_payer(tmp_path):
    """The guard holds in the dry run; then the wallet moves a unit away, and the guard fails."""
    fees = FailedFeeSettings(payer=BUDGET, app=PLENTY, chain=PLENTY)
    solana = EmbeddedSolanaSettings(slot_s=0, finalized_slots=1)
    async with open_service(tmp_path / "home", solana=solana, failed_fees=fees) as desk:
        chain, wallet = node_of(desk), SolanaTestWallet()
        first = await make_offer(desk.rest, wallet)
        await first.confirm()
        assert (await first.final())["status"] == "succeeded"
        before, lost = await relayer_coin(desk), 0
        for _ in range(20):
            created = await desk.rest.create(ORDER)
            options = (await desk.rest.options(created["paymentId"], [wallet.account]))["options"]
            if not options:
                break
            offer = await make_offer(desk.rest, wallet, expiresAt=desk.now + 86_400)
            held = await chain.balance(wallet.address)
            output = guarded(offer, left=held - PRICE)
            await chain.fault("answer", method="sendTransaction", effect="drop", times=1000)
            await offer.confirm(output)
            await chain.spend(wallet, 1, after={"kind": "clear"})

            async def ended(offer=offer) -> bool:
                return (await offer.status())["status"] == "failed"

            await wait_until(ended, meanwhile=make_time_step(desk, chain, slots=2, seconds=11))
            # only the fee was paid
            assert await chain.balance(wallet.address) == held - 1
            lost = before - await relayer_coin(desk)
        assert BUDGET <= lost < BUDGET + 5 * USUAL_FEE
        other = await make_offer(desk.rest, SolanaTestWallet())
        await other.confirm()
        assert (await other.final())["status"] == "succeeded"
