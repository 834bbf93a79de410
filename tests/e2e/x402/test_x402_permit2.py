"""Payments of x402 by Permit2, for tokens without transfers by signature of their own."""

from __future__ import annotations

import asyncio
import secrets
import time

import pytest
import pytest_asyncio
from eth_abi import encode
from eth_utils import keccak
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.settings import FacilitatedGasSettings, X402Settings

from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.until import advance, wait_until
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet
from tests.support.x402 import (
    TOKEN,
    X402Buyer,
    X402Server,
    expect_refusal,
    make_permit2_requirements,
    pay_until_final,
    read_offer,
    request,
)
from tests.support.x402_clients import PresentChains, pay

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHOP = "0x" + "5b" * 20
OTHER = "0x" + "5c" * 20
EURO = DEVNET.euro.address
EUROS = {"amount": {"unit": "iso4217/EUR", "value": "1250"}}
PRICE = 12_500_000
SETTLE = "settle(((address,uint256),uint256,uint256),address,(address,uint256),bytes)"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402") / "home"
    x402 = X402Settings(facilitator=True, wait_s=0.5)
    fees = {"fee_fixed": 7, "fee_basis_points": 100}
    async with open_service(home, evm=PresentChains(), x402=x402, **fees) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(service) -> X402Server:
    return await X402Server.create(service)


async def create_buyer(service) -> X402Buyer:
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    await buyer.approve(service.chain, EURO)
    return buyer


@pytest_asyncio.fixture(loop_scope="module")
async def buyer(service) -> X402Buyer:
    return await create_buyer(service)


async def settle(service, server, payment):
    """Settle as servers do, which ask again while a payment is pending."""

    async def move() -> None:
        await advance(service.clock, 1.5)

    async def read():
        answer = await server.settle(payment)
        return None if answer.get("errorReason") == "settlement_pending" else answer

    return await wait_until(read, meanwhile=move)


async def balance(service, address: str) -> int:
    return await service.chain.balance(address, EURO)


async def test_payment_is_paid_by_permit2_to_merchant_and_operator(service, buyer):
    created = await service.rest.create(EUROS)
    payment_id = created["paymentId"]
    offer = await read_offer(service, payment_id)
    assert (offer["asset"].lower(), offer["amount"]) == (EURO, str(PRICE))
    assert offer["extra"] == {"assetTransferMethod": "permit2"}
    signed = buyer.sign_permit2(offer, service.now)
    before = await balance(service, buyer.address)
    answer, codes = await pay_until_final(service, payment_id, signed)
    assert answer.status == 200, answer.text
    assert set(codes[:-1]) <= {202}
    detail = await service.rest.detail(payment_id)
    assert detail["buyer"]["accountCaip10"].endswith(buyer.address.lower())
    assert before - await balance(service, buyer.address) == PRICE
    assert await balance(service, offer["payTo"]) == 0
    await check_ledger(service)
    # neither the same signature nor another one is charged again
    for again in (signed, buyer.sign_permit2(offer, service.now)):
        assert (await request(service, payment_id, again)).status == 200
    assert before - await balance(service, buyer.address) == PRICE


@pytest.mark.parametrize("language", ["python", "node"])
async def test_published_client_pays_by_permit2(service, buyer, language):
    payment_id = (await service.rest.create(EUROS))["paymentId"]
    offer = await read_offer(service, payment_id)
    url = f"{service.rest.base}/x402/{payment_id}"
    before = await balance(service, buyer.address)
    paying = asyncio.create_task(
        pay(language, key="0x" + buyer.key.hex(), url=url, network=offer["network"])
    )
    last_s = time.monotonic()

    async def move() -> None:
        nonlocal last_s
        before_s, last_s = last_s, time.monotonic()
        service.clock.advance(last_s - before_s)

    await wait_until(paying.done, meanwhile=move, patience_s=120)
    assert paying.result().get("status") in {200, 202}, paying.result()

    async def step() -> None:
        await advance(service.clock, 1.5)

    async def read() -> str:
        return str((await service.rest.status(payment_id))["status"])

    await wait_until(read, "succeeded", meanwhile=step)
    assert before - await balance(service, buyer.address) == PRICE


@pytest.mark.parametrize("token", [EURO, TOKEN.address], ids=["permit2 token", "EIP-3009 token"])
async def test_facilitator_settles_each_signature_once(service, server, token):
    buyer = await create_buyer(service)
    await buyer.approve(service.chain, token)
    requirements = make_permit2_requirements(SHOP, asset=token)
    payments = [buyer.sign_permit2(requirements, service.now) for _ in range(3)]
    before = await service.chain.balance(SHOP, token)
    answers = await asyncio.gather(
        *(settle(service, server, payment) for payment in [*payments] * 3)
    )
    assert all(answer["success"] for answer in answers), answers
    assert len({answer["transaction"] for answer in answers}) == 3
    assert await service.chain.balance(SHOP, token) - before == 3 * 12_345
    receipt = await service.chain.ask("eth_getTransactionReceipt", answers[0]["transaction"])
    assert receipt["to"] == DEVNET.x402_proxy


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"to": OTHER}, "invalid_permit2_recipient_mismatch"),
        ({"amount": "12344"}, "permit2_amount_mismatch"),
        ({"amount": "12346"}, "permit2_amount_mismatch"),
        ({"token": TOKEN.address}, "permit2_token_mismatch"),
        ({"spender": OTHER}, "invalid_permit2_spender"),
        ({"deadline": "1"}, "permit2_deadline_expired"),
        ({"validAfter": str(2**40)}, "permit2_not_yet_valid"),
        ({"owner": OTHER}, "invalid_permit2_signature"),
    ],
    ids=str,
)
async def test_permit_for_something_else_is_refused(service, server, buyer, changes, reason):
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now, **changes)
    await expect_refusal(service, server, payment, requirements, reason)


@pytest.mark.parametrize("name", ["permitted", "witness", "spender", "nonce", "deadline", "from"])
@pytest.mark.parametrize("value", [None, [], {}, "x", -1, "0x1", 2**256, {"to": 1}], ids=str)
async def test_permit_of_another_form_is_refused(service, server, buyer, name, value):
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now)
    payment["payload"]["permit2Authorization"][name] = value
    answer = await server.settle(payment, requirements)
    assert not answer["success"]
    assert answer["errorReason"].startswith("invalid_"), answer
    del payment["payload"]["permit2Authorization"][name]
    answer = await server.settle(payment, requirements)
    assert answer["errorReason"] == "invalid_permit2_payload_format"


@pytest.mark.parametrize("signature", ["", "0x", "0x" + "00" * 65, "0x" + "ff" * 65, None, 7])
async def test_permit_without_the_payer_s_signature_is_refused(service, server, buyer, signature):
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now)
    payment["payload"]["signature"] = signature
    await expect_refusal(service, server, payment, requirements, "invalid_permit2_signature")


async def test_payer_without_allowance_is_refused(service, server):
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now)
    await expect_refusal(service, server, payment, requirements, "permit2_allowance_required")
    await buyer.approve(service.chain, EURO, 12_344)
    await expect_refusal(service, server, payment, requirements, "permit2_allowance_required")
    await buyer.approve(service.chain, EURO, 12_345)
    assert (await settle(service, server, payment))["success"]


async def test_payer_with_code_is_refused(service, server, buyer):
    """Permit2 asks the code of such an account, which could use our gas."""
    await EvmTestWallet(key=buyer.key).delegate(service.chain, NON_SIGNING_ADDRESS)
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now)
    await expect_refusal(service, server, payment, requirements, "invalid_permit2_signature")


async def test_nonce_pays_once_whatever_the_token(service, server, buyer):
    nonce = secrets.randbits(256)
    await buyer.approve(service.chain, TOKEN.address)
    first = buyer.sign_permit2(make_permit2_requirements(SHOP), service.now, nonce=nonce)
    assert (await settle(service, server, first))["success"]
    for requirements in (
        make_permit2_requirements(OTHER),
        make_permit2_requirements(SHOP, asset=TOKEN.address),
    ):
        second = buyer.sign_permit2(requirements, service.now, nonce=nonce)
        reason = "payment_already_processing"
        await expect_refusal(service, server, second, requirements, reason)


async def test_permit_for_another_payment_is_refused(service, buyer):
    first, second = [(await service.rest.create(EUROS))["paymentId"] for _ in range(2)]
    signed = buyer.sign_permit2(await read_offer(service, first), service.now)
    offer = await read_offer(service, second)
    assert (await request(service, second, signed)).status == 402
    answer = await request(service, second, {**signed, "accepted": offer})
    reason = "invalid_permit2_recipient_mismatch"
    assert (answer.status, answer.body["error"]) == (402, reason)


def encode_settle(payment) -> bytes:
    """Return the calldata with which anyone can submit a payment."""
    sent = payment["payload"]["permit2Authorization"]
    permitted, witness = sent["permitted"], sent["witness"]
    values = [
        ((permitted["token"], int(permitted["amount"])), int(sent["nonce"]), int(sent["deadline"])),
        sent["from"],
        (witness["to"], int(witness["validAfter"])),
        bytes.fromhex(payment["payload"]["signature"][2:]),
    ]
    kinds = ["((address,uint256),uint256,uint256)", "address", "(address,uint256)", "bytes"]
    return keccak(SETTLE.encode())[:4] + encode(kinds, values)


async def submit_as_stranger(service, payment) -> str:
    stranger = EvmTestWallet()
    await service.chain.fund(stranger.address)
    proxy = bytes.fromhex(DEVNET.x402_proxy[2:])
    receipt = await stranger.transact(
        service.chain, gas=300_000, to=proxy, value=0, data=encode_settle(payment)
    )
    assert receipt["status"] == "0x1"
    return str(receipt["transactionHash"])


async def test_permit_that_a_stranger_submitted_before_is_refused(service, server, buyer):
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now)
    await submit_as_stranger(service, payment)
    await expect_refusal(service, server, payment, requirements, "permit2_invalid_nonce")


async def lose_next_transaction(service) -> None:
    lost = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 1}
    await service.chain.ask("florin_fault", lost)


async def wait_sent(service) -> None:
    sent = "SELECT 1 FROM facilitation WHERE state = 'sent'"
    await wait_until(lambda: service.select(sent))


async def settle_later(service, waiting):
    async def move() -> None:
        await advance(service.clock, 11)

    await wait_until(waiting.done, meanwhile=move)
    return waiting.result()


async def test_permit_that_a_stranger_submits_meanwhile_succeeds_once(service, server, buyer):
    requirements = make_permit2_requirements(SHOP)
    payment = buyer.sign_permit2(requirements, service.now, deadline=str(service.now + 600))
    before = await balance(service, SHOP)
    await lose_next_transaction(service)
    waiting = asyncio.create_task(settle(service, server, payment))
    await wait_sent(service)
    tx_hash = await submit_as_stranger(service, payment)
    answer = await settle_later(service, waiting)
    assert (answer["success"], answer["transaction"]) == (True, tx_hash), answer
    assert await balance(service, SHOP) - before == 12_345


async def test_equal_transfer_by_another_permit_is_not_taken_for_this_one(service, server, buyer):
    """A payer cancels one permit, and another of the same amount is settled by a stranger."""
    requirements = make_permit2_requirements(SHOP)
    end = str(service.now + 600)
    canceled, other = [
        buyer.sign_permit2(requirements, service.now, deadline=end) for _ in range(2)
    ]
    await lose_next_transaction(service)
    waiting = asyncio.create_task(settle(service, server, canceled))
    await wait_sent(service)
    nonce = int(canceled["payload"]["permit2Authorization"]["nonce"])
    data = keccak(b"invalidateUnorderedNonces(uint256,uint256)")[:4] + encode(
        ["uint256", "uint256"], [nonce >> 8, 1 << (nonce & 255)]
    )
    permit2 = bytes.fromhex(DEVNET.permit2[2:])
    await EvmTestWallet(key=buyer.key).transact(
        service.chain, gas=100_000, to=permit2, value=0, data=data
    )
    await submit_as_stranger(service, other)
    answer = await settle_later(service, waiting)
    assert (answer["success"], answer["errorReason"]) == (False, "transaction_failed"), answer
    used = service.select("SELECT gas FROM facilitation WHERE state = 'failed'")
    assert used, "the gas that a failed transaction used counts"


async def test_allowance_that_is_revoked_before_the_block_uses_the_payer_s_budget(tmp_path):
    gas = FacilitatedGasSettings(payer=700_000, key=10_000_000, chain=10_000_000)
    settings = {"x402": X402Settings(facilitator=True), "facilitated_gas": gas}
    async with open_service(tmp_path / "home", **settings) as service:
        server = await X402Server.create(service)
        buyer = await create_buyer(service)
        requirements = make_permit2_requirements(SHOP)
        reasons = []
        for _ in range(12):
            await buyer.approve(service.chain, EURO)
            end = str(service.now + 600)
            payment = buyer.sign_permit2(requirements, service.now, deadline=end)
            await lose_next_transaction(service)
            waiting = asyncio.create_task(server.settle(payment))

            async def is_taken(waiting=waiting):
                sent = "SELECT 1 FROM facilitation WHERE state = 'sent'"
                return waiting.done() or service.select(sent)

            await wait_until(is_taken)
            if not waiting.done():
                await buyer.approve(service.chain, EURO, 0)
            reasons.append((await settle_later(service, waiting))["errorReason"])
            if reasons[-1] == "facilitator_budget_exhausted":
                break
        assert reasons[-1] == "facilitator_budget_exhausted"
        assert 1 < len(reasons) < 12
        assert set(reasons[:-1]) == {"transaction_failed"}
        assert await balance(service, SHOP) == 0


async def test_chain_without_the_proxy_offers_no_permit2(tmp_path, monkeypatch):
    nowhere = "0x" + "4d" * 20
    monkeypatch.setattr("florin_server.rails.evm.setup.discovery.X402_PROXY", nowhere)
    async with open_service(tmp_path / "home", x402=X402Settings(facilitator=True)) as service:
        server = await X402Server.create(service)
        buyer = await create_buyer(service)
        requirements = make_permit2_requirements(SHOP)
        payment = buyer.sign_permit2(requirements, service.now)
        reason = "unsupported_asset_transfer_method"
        await expect_refusal(service, server, payment, requirements, reason)
        created = await service.rest.create(EUROS)
        detail = await service.rest.detail(created["paymentId"])
        assert "x402Url" not in detail
