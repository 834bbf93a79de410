"""Attacks on payments that programs pay by x402 on Solana, and money that arrives late or twice."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.settings import FacilitatedFeeSettings, LimitSettings, X402Settings

from tests.support.operator import block, check_ledger
from tests.support.service_harness import open_service
from tests.support.solana import ASSETS, COIN, INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_pay import (
    ORDER,
    PRICE,
    find_address,
    fund,
    give_coin,
    let_time_pass,
    make_linked_transfer,
    make_transfer,
    name_address,
    open_link,
    send_instructions,
    wait_status,
)
from tests.support.until import wait_until
from tests.support.x402 import X402Server, decode_header, request
from tests.support.x402_solana import list_steps, sign_steps
from tests.support.x402_solana_payments import (
    LOST,
    create_offer,
    list_offers,
    list_returns,
    open_accounts,
    pay_until_final,
    sign,
    status_of,
    wait_sent,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
_SVM = "invalid_exact_svm_payload"
RATES = {COIN: {"USD": "120.00"}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402_solana_attacks") / "home"
    x402 = X402Settings(facilitator=True, wait_s=0.1)
    settings = {"rates": RATES, "x402": x402}
    async with open_service(home, solana=INSTANT_SOLANA, **settings) as service:
        await open_accounts(service)
        yield service


@pytest.fixture
def node(service) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest_asyncio.fixture(loop_scope="module")
async def buyer(node) -> SolanaTestWallet:
    buyer = SolanaTestWallet()
    await fund(node, buyer)
    return buyer


@pytest.fixture
def merchant(service) -> str:
    return service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]


def count_transfers(service, payment_id: str) -> int:
    query = "SELECT count(*) FROM facilitation WHERE payment_id = ?"
    ((count,),) = service.select(query, payment_id)
    return int(count)


async def refuse(service, payment_id: str, signed: Any, reason: str) -> None:
    answer = await request(service, payment_id, signed)
    assert (answer.status, answer.body["error"]) == (402, reason)
    assert count_transfers(service, payment_id) == 0


async def test_other_memos_are_refused(service, node, buyer):
    payment_id, offer = await create_offer(service, ORDER)
    other_id, other = await create_offer(service, ORDER)
    own, foreign = (spl.create_memo(each["extra"]["memo"]) for each in (offer, other))
    transfer = list_steps(buyer, offer)[:3]
    for memos in ([], [foreign], [own, own], [own, foreign], [foreign, own]):
        signed = await sign_steps(node, buyer, offer, [*transfer, *memos])
        await refuse(service, payment_id, signed, f"{_SVM}_memo_mismatch")
    # what was signed for one payment does not pay another one, whatever is said to be accepted
    signed = await sign(node, buyer, offer)
    await refuse(service, other_id, signed, "accepted_requirements_mismatch")
    await refuse(service, other_id, {**signed, "accepted": other}, f"{_SVM}_memo_mismatch")


@pytest.mark.parametrize(
    "changes", [{"payTo": ""}, {"amount": "1"}, {"extra": {"memo": "x"}}, {"extra": {}}]
)
async def test_other_accepted_requirements_are_refused(service, node, buyer, changes):
    payment_id, offer = await create_offer(service, ORDER)
    changed = {**offer, **changes}
    if "payTo" in changes:
        changed["payTo"] = buyer.address
    if "extra" in changes:
        changed["extra"] = {"feePayer": offer["extra"]["feePayer"], **changes["extra"]}
    signed = await sign(node, buyer, changed)
    await refuse(service, payment_id, signed, "accepted_requirements_mismatch")
    answer = await request(service, payment_id, {**signed, "accepted": offer})
    assert answer.status == 402
    assert answer.body["error"].startswith(_SVM)


async def test_transfer_that_names_the_address_is_not_signed(service, node, buyer):
    payment_id, offer = await create_offer(service, ORDER)
    units, price, transfer, memo = list_steps(buyer, offer)
    named = name_address(transfer, await find_address(service, payment_id))
    signed = await sign_steps(node, buyer, offer, [units, price, named, memo])
    await refuse(service, payment_id, signed, f"{_SVM}_no_transfer_instruction")


async def test_facilitator_does_not_settle_what_is_for_a_payment(service, node, buyer, merchant):
    server = await X402Server.create(service)
    payment_id, offer = await create_offer(service, ORDER)
    signed = await sign(node, buyer, offer)
    before = await node.balance(merchant)
    # whether the other server requires the memo or not
    for extra in (offer["extra"], {"feePayer": offer["extra"]["feePayer"]}):
        taken = {**signed, "accepted": {**offer, "extra": extra}}
        answer = await server.verify(taken)
        assert (answer["isValid"], answer["invalidReason"]) == (
            False,
            "payment_already_processing",
        )
        answer = await server.settle(taken)
        assert (answer["success"], answer["errorReason"]) == (False, "payment_already_processing")
    assert await node.balance(merchant) == before
    answer, _ = await pay_until_final(service, node, payment_id, signed)
    assert answer.status == 200


async def test_transaction_that_the_buyer_sends_pays_nothing(service, node, buyer, merchant):
    payment_id, offer = await create_offer(service, ORDER)
    transfer, memo = list_steps(buyer, offer)[2:]
    coin = spl.transfer_coin(buyer.key.pubkey(), buyer.key.pubkey(), 1)
    named = name_address(coin, await find_address(service, payment_id))
    for steps in ([transfer, memo], [transfer, memo, named]):
        await send_instructions(node, buyer, steps)
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"
    # the program can still pay
    answer, _ = await pay_until_final(service, node, payment_id, await sign(node, buyer, offer))
    assert answer.status == 200


async def test_transaction_that_others_send_again_pays_once(service, node, buyer):
    payment_id, offer = await create_offer(service, ORDER)
    before = await node.balance(buyer.address)
    await node.ask("florin_fault", LOST)
    signed = await sign(node, buyer, offer)
    assert (await request(service, payment_id, signed)).status == 202
    tx_hash = await wait_sent(service, payment_id)
    await node.fault("clear")
    # the signed transaction is public once it was sent
    ((raw,),) = service.select("SELECT raw FROM chain_tx WHERE hash = ?", tx_hash)
    encoded = base64.b64encode(raw).decode()
    assert await node.ask("sendTransaction", encoded, {"encoding": "base64"}) == tx_hash
    answer, _ = await pay_until_final(service, node, payment_id, signed)
    assert decode_header(answer.headers["PAYMENT-RESPONSE"])["transaction"] == tx_hash
    assert await node.balance(buyer.address) == before - PRICE


async def test_transfer_that_lands_after_a_cancel_is_returned(service, node, buyer):
    payment_id, offer = await create_offer(service, ORDER)
    await node.ask("florin_fault", LOST)
    signed = await sign(node, buyer, offer)
    assert (await request(service, payment_id, signed)).status == 202
    await wait_sent(service, payment_id)
    path = f"/v1/payments/{payment_id}/cancel"
    await service.rest.call("POST", path, service.rest.merchant)
    await node.fault("clear")
    await wait_until(
        lambda: list_returns(service, payment_id) == [("return", buyer.account)],
        meanwhile=lambda: let_time_pass(service, node, 1),
    )
    assert await status_of(service, payment_id) == "cancelled"
    assert (await request(service, payment_id, signed)).status == 410
    await check_ledger(service)


async def test_transfer_for_a_payment_that_was_paid_otherwise_is_returned(service, node, buyer):
    await give_coin(service)
    payment_id, offer = await create_offer(service, ORDER)
    link = await open_link(service, payment_id, ASSETS[0])
    assert link.status == 200, link.text
    other = SolanaTestWallet()
    await fund(node, other)
    await node.ask("florin_fault", LOST)
    signed = await sign(node, buyer, offer)
    assert (await request(service, payment_id, signed)).status == 202
    await wait_sent(service, payment_id)
    await node.fault("clear")
    # final at once, before Florin sends its own again
    await send_instructions(node, other, [make_linked_transfer(other, link)])
    await wait_status(service, node, payment_id, "succeeded")
    await wait_until(
        lambda: len(list_returns(service, payment_id)) == 1,
        meanwhile=lambda: let_time_pass(service, node, 1),
    )
    detail = await service.rest.detail(payment_id)
    ((_, returned_to),) = list_returns(service, payment_id)
    assert {detail["buyer"]["accountCaip10"], returned_to} == {buyer.account, other.account}
    await check_ledger(service)


async def test_transfer_for_a_payment_that_was_paid_before_is_not_sent(service, node, buyer):
    await give_coin(service)
    payment_id, offer = await create_offer(service, ORDER)
    link = await open_link(service, payment_id, ASSETS[0])
    other = SolanaTestWallet()
    await fund(node, other)
    before = await node.balance(buyer.address)
    await send_instructions(node, other, [make_linked_transfer(other, link)])
    await wait_status(service, node, payment_id, "succeeded")
    answer = await request(service, payment_id, await sign(node, buyer, offer))
    assert answer.status == 200
    assert "PAYMENT-RESPONSE" not in answer.headers
    assert await node.balance(buyer.address) == before


async def test_failed_transfer_leaves_the_payment_payable(service, node, merchant):
    payment_id, offer = await create_offer(service, ORDER)
    payer = SolanaTestWallet()
    await refuse(service, payment_id, await sign(node, payer, offer), "insufficient_funds")
    await fund(node, payer)
    await node.ask("florin_fault", LOST)
    signed = await sign(node, payer, offer)
    assert (await request(service, payment_id, signed)).status == 202
    await wait_sent(service, payment_id)
    # the money is gone before the transaction lands
    rest = await node.balance(payer.address)
    shop = SolanaTestWallet()
    await fund(node, shop)
    await node.fault("clear")
    await send_instructions(node, payer, [make_transfer(payer, shop.address, rest)])
    answer, _ = await pay_until_final(service, node, payment_id, signed)
    assert (answer.status, answer.body["error"]) == (402, "transaction_failed")
    assert await status_of(service, payment_id) == "requires_action"
    # the same signature is not sent again, and another one pays
    again = await request(service, payment_id, signed)
    assert (again.status, again.body["error"]) == (402, "transaction_failed")
    await fund(node, payer)
    await let_time_pass(service, node, 1)
    answer, _ = await pay_until_final(service, node, payment_id, await sign(node, payer, offer))
    assert answer.status == 200


async def test_blocked_payer_is_refused_and_money_of_one_blocked_later_is_held(service, node):
    payment_id, offer = await create_offer(service, ORDER)
    blocked, later = SolanaTestWallet(), SolanaTestWallet()
    for wallet in (blocked, later):
        await fund(node, wallet)
    await block(service, blocked.address)
    await refuse(service, payment_id, await sign(node, blocked, offer), "blocked_account")
    await node.ask("florin_fault", LOST)
    signed = await sign(node, later, offer)
    assert (await request(service, payment_id, signed)).status == 202
    await wait_sent(service, payment_id)
    await block(service, later.address)
    await node.fault("clear")
    await wait_status(service, node, payment_id, "processing")
    await let_time_pass(service, node)
    assert (await request(service, payment_id, signed)).status == 202
    held = service.select("SELECT payer FROM held_money WHERE payment_id = ?", payment_id)
    assert held == [(later.account,)]


async def test_coin_and_a_payment_that_ends_soon_are_not_offered(service, node, buyer):
    payment_id, _ = await create_offer(service, ORDER)
    tokens = {token.address for token in SOLANA_DEVNET.tokens}
    assert {offer["asset"] for offer in await list_offers(service, payment_id)} <= tokens
    payment_id, offer = await create_offer(service, {**ORDER, "expiresAt": service.now + 90})
    assert offer["maxTimeoutSeconds"] <= 30
    signed = await sign(node, buyer, offer)
    service.clock.advance(35)
    await request(service, payment_id, signed)
    assert count_transfers(service, payment_id) == 0


async def test_programs_that_ask_again_and_again_open_one_option(tmp_path):
    limits = LimitSettings(options_per_minute=60, options_burst=60)
    settings = {"x402": X402Settings(wait_s=0.1), "limits": limits}
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA, **settings) as service:
        await open_accounts(service)
        payment_id, offer = await create_offer(service, ORDER)
        for _ in range(3):
            assert offer in await list_offers(service, payment_id)
        query = "SELECT count(*) FROM payment_option WHERE payment_id = ? AND method = 'transfer'"
        assert service.select(query, payment_id) == [(len(SOLANA_DEVNET.tokens),)]


async def test_budget_of_a_payer_bounds_what_is_sent_at_once(tmp_path):
    fees = FacilitatedFeeSettings(payer=100_000)
    settings = {"x402": X402Settings(wait_s=0.1), "facilitated_fees": fees}
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA, **settings) as service:
        await open_accounts(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        buyer, other = SolanaTestWallet(), SolanaTestWallet()
        for wallet in (buyer, other):
            await fund(node, wallet)
        await node.ask("florin_fault", LOST)

        async def pay(wallet: SolanaTestWallet) -> Any:
            payment_id, offer = await create_offer(service, ORDER)
            return await request(service, payment_id, await sign(node, wallet, offer))

        answers = [await pay(buyer) for _ in range(10)]
        # a fee is 10,001 lamports
        assert [answer.status for answer in answers] == [202] * 9 + [402]
        assert answers[-1].body["error"] == "facilitator_budget_exhausted"
        assert (await pay(other)).status == 202


async def test_merchant_without_an_account_and_payments_with_a_fee_have_no_way(tmp_path):
    x402 = X402Settings(wait_s=0.1)
    async with open_service(tmp_path / "a", solana=INSTANT_SOLANA, x402=x402) as service:
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        assert await list_offers(service, payment_id) == []
    settings = {"x402": x402, "fee_basis_points": 100}
    async with open_service(tmp_path / "b", solana=INSTANT_SOLANA, **settings) as service:
        await open_accounts(service)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        assert await list_offers(service, payment_id) == []


@pytest.mark.parametrize("asset", ASSETS[:1])
async def test_asset_that_needs_buyer_data_is_left_out(tmp_path, asset):
    capture = {"enabled": True, "assets": [asset]}
    settings = {"x402": X402Settings(wait_s=0.1), "capture": capture}
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA, **settings) as service:
        await open_accounts(service)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        offers = await list_offers(service, payment_id)
        assert [offer["asset"] for offer in offers] == [SOLANA_DEVNET.tokens[1].address]


async def test_transfer_that_was_stored_before_a_restart_is_sent_once_after_it(tmp_path):
    home, buyer = tmp_path / "home", SolanaTestWallet()
    settings = {"solana": INSTANT_SOLANA, "x402": X402Settings(wait_s=0.1)}
    async with open_service(home, **settings) as service:
        await open_accounts(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        await fund(node, buyer)
        before = await node.balance(buyer.address)
        payment_id, offer = await create_offer(service, ORDER)
        signed = await sign(node, buyer, offer)
        await node.ask("florin_fault", LOST)
        assert (await request(service, payment_id, signed)).status == 202
        tx_hash = await wait_sent(service, payment_id)
        assert await node.balance(buyer.address) == before
    async with open_service(home, **settings) as service:
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        answer, _ = await pay_until_final(service, node, payment_id, signed)
        assert answer.status == 200
        assert (await service.rest.detail(payment_id))["info"]["txId"] == tx_hash
        assert await node.balance(buyer.address) == before - PRICE
