"""What buyers can make the Solana relayer pay: bounded for each payment, payer, app and hour.

An evaded payment is one whose money is moved away after the trial: it costs the fee all the same.
"""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.chains.solana import spl
from florin_server.config import EmbeddedSolana, FailedFeeSettings
from florin_server.devnet.solana import SOLNET
from florin_server.rails.solana.settings import SolanaChain
from pydantic import ValidationError
from solders.compute_budget import set_compute_unit_price

from tests.support import solana_guards as guards
from tests.support.desk import Desk, opened
from tests.support.solana import SolanaNode, SolanaWallet, passing, rebuilt, steps, transaction_of
from tests.support.solana_offers import ORDER, PRICE, Offer, offered, refusal
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

USUAL_FEE = 10_200
# five times the usual fee, less two signatures, for 200,000 units
PRICE_MAX = 205_000
CREDITED = 10_000 * 10**6
# the smallest that a setting allows; two evaded payments at the highest fee use it up
BUDGET = 100_000
PLENTY = 10**12


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    solana = EmbeddedSolana(slot_s=0, finalized_slots=1)
    async with opened(tmp_path_factory.mktemp("fees") / "home", solana=solana) as desk:
        yield desk


@pytest.fixture
def node(desk: Desk) -> SolanaNode:
    return node_of(desk)


def node_of(desk: Desk) -> SolanaNode:
    return SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


def guarded(offer: Offer, left: int, units: int = 300_000, extra=()) -> str:
    """The issued transaction as Phantom returns it, with guards and another compute limit."""
    message = transaction_of(offer.action).message
    relayer, buyer = message.account_keys[:2]
    token = SOLNET.tokens[0]
    place = spl.associated(buyer, spl.pubkey(token.address), spl.pubkey(token.program))
    own = guards.as_phantom(steps(message), relayer, buyer, place, left, units)
    return offer.wallet.sign(rebuilt(message, [*own, *extra]))


def priced(offer: Offer, price: int) -> str:
    """The issued transaction with another compute price, signed by the wallet."""
    message = transaction_of(offer.action).message
    own = steps(message)
    own[1] = set_compute_unit_price(price)
    return offer.wallet.sign(rebuilt(message, own))


async def relayer_coin(desk: Desk) -> int:
    return await node_of(desk).coin(desk.service.app.rails[SOLNET.chain_id].senders[0])


async def evade(desk: Desk, price: int, wallet: SolanaWallet | None = None) -> SolanaWallet:
    """A payment that passes the trial, and whose money is gone when it lands."""
    chain = node_of(desk)
    offer = await offered(desk.rest, wallet or SolanaWallet(), expiresAt=desk.now + 86_400)
    output = priced(offer, price)
    await chain.fault("answer", method="sendTransaction", effect="drop", times=1000)
    assert (await offer.confirm(output))["status"] == "processing"
    held = await chain.balance(offer.wallet.address)
    await chain.spend(offer.wallet, held - PRICE + 1, after={"kind": "clear"})

    async def ended() -> bool:
        return (await offer.status())["status"] == "failed"

    await until(ended, meanwhile=passing(desk, chain, slots=2, seconds=11))
    return offer.wallet


async def test_fee_of_one_payment_is_at_most_five_times_the_usual(desk, node):
    first = await offered(desk.rest, SolanaWallet())
    await first.confirm()
    assert (await first.final())["status"] == "succeeded"
    before = await relayer_coin(desk)
    offer = await offered(desk.rest, SolanaWallet())
    error = await refusal(offer.confirm(priced(offer, PRICE_MAX + 1)))
    assert (error.http, error.details["reason"]) == (400, "transaction_mismatch")
    assert "51000 at most" in error.message
    await offer.confirm(priced(offer, PRICE_MAX))
    assert (await offer.final())["status"] == "succeeded"
    assert before - await relayer_coin(desk) == 5 * USUAL_FEE


@pytest.mark.parametrize("bounded", ["payer", "app", "chain"])
async def test_evaded_payments_use_up_a_budget_and_then_nothing_is_sent(tmp_path, bounded):
    plenty = dict.fromkeys(("app", "payer", "chain"), PLENTY)
    fees = FailedFeeSettings(**plenty | {bounded: BUDGET})
    solana = EmbeddedSolana(slot_s=0, finalized_slots=1)
    async with opened(tmp_path / "home", solana=solana, failed_fees=fees) as desk:
        opening = await offered(desk.rest, SolanaWallet())
        await opening.confirm()
        assert (await opening.final())["status"] == "succeeded"
        victim = await offered(desk.rest, SolanaWallet(), expiresAt=desk.now + 86_400)
        before = await relayer_coin(desk)
        wallet = await evade(desk, PRICE_MAX)
        same = wallet if bounded == "payer" else None
        wallet = await evade(desk, PRICE_MAX, same)
        lost = before - await relayer_coin(desk)
        assert lost == 2 * 5 * USUAL_FEE >= BUDGET
        # no signature is asked for that would be refused
        made = await desk.rest.create(ORDER)
        account = wallet.account if bounded == "payer" else SolanaWallet().account
        options = (await desk.rest.options(made["paymentId"], [account]))["options"]
        assert options == []
        if bounded == "payer":
            await victim.confirm()
            assert (await victim.final())["status"] == "succeeded"
            return
        error = await refusal(victim.confirm())
        assert (error.http, error.details["reason"]) == (503, "payments_paused")
        assert (await victim.status())["status"] == "requires_action"
        assert before - await relayer_coin(desk) == lost
        desk.clock.advance(3600)
        later = await offered(desk.rest, SolanaWallet())
        await later.confirm()
        assert (await later.final())["status"] == "succeeded"


async def test_payment_with_phantoms_guards_and_compute_limit_settles(desk):
    offer = await offered(desk.rest, SolanaWallet())
    held = await node_of(desk).balance(offer.wallet.address)
    output = guarded(offer, left=held - PRICE)
    await offer.confirm(output)
    assert (await offer.final())["status"] == "succeeded"
    assert await node_of(desk).balance(offer.wallet.address) == held - PRICE


async def test_guard_that_fails_in_the_trial_is_refused_and_costs_nothing(desk, node):
    offer = await offered(desk.rest, SolanaWallet())
    held = await node.balance(offer.wallet.address)
    before = await relayer_coin(desk)
    error = await refusal(offer.confirm(guarded(offer, left=held)))
    assert (error.http, error.details["reason"]) == (400, "transaction_mismatch")
    assert "guard" in error.message
    assert await relayer_coin(desk) == before
    fifth = [guards.lamports(offer.wallet.key.pubkey(), 0)]
    error = await refusal(offer.confirm(guarded(offer, left=held - PRICE, extra=fifth)))
    assert error.details["reason"] == "transaction_mismatch"
    # the same payment without a guard is still good
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_guards_that_fail_on_chain_use_up_the_budget_of_their_payer(tmp_path):
    """The guard holds in the trial; then the wallet moves a unit away, and the guard fails."""
    fees = FailedFeeSettings(payer=BUDGET, app=PLENTY, chain=PLENTY)
    solana = EmbeddedSolana(slot_s=0, finalized_slots=1)
    async with opened(tmp_path / "home", solana=solana, failed_fees=fees) as desk:
        chain, wallet = node_of(desk), SolanaWallet()
        first = await offered(desk.rest, wallet)
        await first.confirm()
        assert (await first.final())["status"] == "succeeded"
        before, lost = await relayer_coin(desk), 0
        for _ in range(20):
            made = await desk.rest.create(ORDER)
            found = (await desk.rest.options(made["paymentId"], [wallet.account]))["options"]
            if not found:
                break
            offer = await offered(desk.rest, wallet, expiresAt=desk.now + 86_400)
            held = await chain.balance(wallet.address)
            output = guarded(offer, left=held - PRICE)
            await chain.fault("answer", method="sendTransaction", effect="drop", times=1000)
            await offer.confirm(output)
            await chain.spend(wallet, 1, after={"kind": "clear"})

            async def ended(offer=offer) -> bool:
                return (await offer.status())["status"] == "failed"

            await until(ended, meanwhile=passing(desk, chain, slots=2, seconds=11))
            # nothing but the fee was paid
            assert await chain.balance(wallet.address) == held - 1
            lost = before - await relayer_coin(desk)
        assert BUDGET <= lost < BUDGET + 5 * USUAL_FEE
        other = await offered(desk.rest, SolanaWallet())
        await other.confirm()
        assert (await other.final())["status"] == "succeeded"


async def test_cap_below_the_fee_that_florin_offers_is_refused_at_start():
    chain = {
        "reference": SOLNET.chain_id.removeprefix("solana:"),
        "name": "Test",
        "treasury": SolanaWallet().address,
    }
    assert SolanaChain(**chain).payment_fee_max == 5 * USUAL_FEE
    assert SolanaChain(**chain, fee_max=20_000).payment_fee_max == 20_000
    with pytest.raises(ValidationError, match="below what one payment costs"):
        SolanaChain(**chain, compute_price=1_000_000, fee_max=20_000)
