"""Payments of Florin that programs pay by x402 on the embedded Solana cluster."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin_server.settings import X402Settings

from tests.support.operator import check_ledger
from tests.support.receipts import ReceiptVerifier, get_outcomes, get_receipt
from tests.support.service_harness import open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import make_offer
from tests.support.solana_pay import ORDER, PRICE, find_address, fund
from tests.support.x402 import decode_header, request
from tests.support.x402_solana_payments import create_offer, pay_until_final, sign

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402_solana_payment") / "home"
    x402 = X402Settings(wait_s=0.1)
    async with open_service(home, solana=INSTANT_SOLANA, x402=x402) as service:
        # the first ordinary payments open the merchant's token accounts
        for token in range(2):
            offer = await make_offer(service.rest, SolanaTestWallet(), token)
            await offer.confirm()
            assert (await offer.final())["status"] == "succeeded"
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


@pytest.mark.parametrize("token", [0, 1], ids=["token", "token 2022"])
async def test_signed_transfer_pays_the_merchant(service, node, buyer, merchant, token):
    payment_id, offer = await create_offer(service, ORDER, token)
    assert (offer["amount"], offer["payTo"]) == (str(PRICE), merchant)
    assert offer["extra"]["memo"] == str(await find_address(service, payment_id))
    before = await node.balance(buyer.address, token), await node.balance(merchant, token)
    signed = await sign(node, buyer, offer)
    answer, codes = await pay_until_final(service, node, payment_id, signed)
    assert answer.status == 200, answer.text
    assert set(codes[:-1]) <= {202}
    response = decode_header(answer.headers["PAYMENT-RESPONSE"])
    assert (response["success"], response["payer"]) == (True, buyer.address)
    detail = await service.rest.detail(payment_id)
    assert detail["info"]["txId"] == response["transaction"]
    assert detail["buyer"]["accountCaip10"] == buyer.account
    assert await node.balance(buyer.address, token) == before[0] - PRICE
    assert await node.balance(merchant, token) == before[1] + PRICE
    await check_ledger(service)
    # the same signature and another one get the same answer, and are not charged
    for repeated in (signed, await sign(node, buyer, offer), None):
        again = await request(service, payment_id, repeated)
        assert again.status == 200
        assert again.headers["PAYMENT-RESPONSE"] == answer.headers["PAYMENT-RESPONSE"]
    assert await node.balance(buyer.address, token) == before[0] - PRICE


async def test_ten_at_once_and_six_different_at_once_are_charged_once(service, node, buyer):
    payment_id, offer = await create_offer(service, ORDER)
    before = await node.balance(buyer.address)
    same = await sign(node, buyer, offer)
    different = []
    for _ in range(6):
        # equal transactions are one, so each has a blockhash of its own
        await node.fault("slots", slots=1)
        different.append(await sign(node, buyer, offer))
    answers = await asyncio.gather(
        *(request(service, payment_id, signed) for signed in [*[same] * 10, *different])
    )
    assert {answer.status for answer in answers} <= {200, 202}
    answer, _ = await pay_until_final(service, node, payment_id, same)
    assert answer.status == 200
    assert await node.balance(buyer.address) == before - PRICE
    bound = "SELECT count(*) FROM facilitation WHERE payment_id = ?"
    assert service.select(bound, payment_id) == [(1,)]


async def test_payment_in_progress_is_never_required_again(service, node, buyer):
    payment_id, offer = await create_offer(service, ORDER)
    signed = await sign(node, buyer, offer)
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    try:
        for sent in (signed, None, await sign(node, buyer, offer)):
            answer = await request(service, payment_id, sent)
            assert answer.status == 202
            assert answer.headers["Retry-After"] == "1"
    finally:
        await node.fault("clear")
    answer, _ = await pay_until_final(service, node, payment_id, signed)
    assert answer.status == 200


async def test_third_parties_verify_the_receipt(service, node, buyer, forks, tmp_path):
    payment_id, offer = await create_offer(service, ORDER)
    await pay_until_final(service, node, payment_id, await sign(node, buyer, offer))
    receipt = await get_receipt(service, payment_id)
    verifier = ReceiptVerifier(forks, tmp_path, service.env["FLORIN_SOLANA_RPC_URL"])
    options = ["--jwks", str(await verifier.keys_of(service))]
    status, result = await verifier.run(receipt, *options)
    assert status == 0, result
    assert set(get_outcomes(result).values()) == {"passed"}
