"""Payments by Solana Pay: a wallet that knows only the link fetches a transaction and sends it."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from solders.compute_budget import set_compute_unit_price
from solders.keypair import Keypair
from solders.message import Message

from tests.support.capture import CAPTURE_SETTINGS
from tests.support.operator import check_ledger, get_balance, get_treasury
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import ASSETS, INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_accounts import register_destination
from tests.support.solana_offers import make_offer
from tests.support.solana_pay import (
    ORDER,
    PRICE,
    fetch_transaction,
    find_address,
    fund,
    list_legacy_instructions,
    post_account,
    send_instructions,
    wait_status,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
FEE = 7 + PRICE // 100


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    fees = {"fee_fixed": 7, "fee_basis_points": 100}
    home = tmp_path_factory.mktemp("solana_pay") / "home"
    async with open_service(home, solana=INSTANT_SOLANA, **fees) as service:
        # the first payments on Solana open the merchant's accounts
        for token in range(2):
            offer = await make_offer(service.rest, SolanaTestWallet(), token)
            await offer.confirm()
            assert (await offer.final())["status"] == "succeeded"
        yield service


@pytest.fixture
def node(service: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest_asyncio.fixture(loop_scope="module")
async def wallet(node) -> SolanaTestWallet:
    wallet = SolanaTestWallet()
    await fund(node, wallet)
    return wallet


async def test_transaction_sent_by_the_wallet_pays_merchant_and_operator(service, node, wallet):
    merchant = service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    treasury = await get_treasury(service, SOLANA_DEVNET.chain_id)
    before = await node.balance(merchant), await node.balance(treasury)
    income = await get_balance(service, "income:fee", ASSETS[0])
    created = await service.rest.create(ORDER)
    payment_id = created["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    message = transaction.message
    assert isinstance(message, Message)
    assert message.account_keys[0] == wallet.key.pubkey()
    assert message.header.num_required_signatures == 1
    assert await find_address(service, payment_id) in message.account_keys
    signature = await send_instructions(node, wallet, list_legacy_instructions(message))
    detail = await wait_status(service, node, payment_id, "succeeded")
    assert detail["info"]["txId"] == signature
    assert detail["settlement"]["successful"]["txId"] == signature
    assert detail["buyer"]["accountCaip10"] == wallet.account
    assert await node.balance(merchant) - before[0] == PRICE - FEE
    assert await node.balance(treasury) - before[1] == FEE
    assert await get_balance(service, "income:fee", ASSETS[0]) - income == -FEE
    await check_ledger(service)


async def test_wallet_may_replace_blockhash_fee_payer_and_add_its_own_limits(service, node, wallet):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    sponsor = SolanaTestWallet()
    await fund(node, sponsor)
    steps = [set_compute_unit_price(5_000), *list_legacy_instructions(transaction.message)]
    signature = await send_instructions(node, wallet, steps, fee_payer=sponsor.key)
    detail = await wait_status(service, node, payment_id, "succeeded")
    assert detail["info"]["txId"] == signature
    assert detail["buyer"]["accountCaip10"] == wallet.account


async def test_token_of_token_2022_pays_too(service, node, wallet):
    merchant = service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    held = await node.balance(merchant, 1)
    amount = {"unit": f"caip19/{ASSETS[1]}", "value": str(PRICE)}
    payment_id = (await service.rest.create({"amount": amount}))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    await send_instructions(node, wallet, list_legacy_instructions(transaction.message))
    await wait_status(service, node, payment_id, "succeeded")
    fee = await get_balance(service, "income:fee", ASSETS[1])
    assert fee < 0
    assert await node.balance(merchant, 1) > held


async def test_installation_without_solana_has_no_link(tmp_path):
    async with open_service(tmp_path / "home") as service:
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        assert "solanaPayUrl" not in await service.rest.detail(payment_id)
        answer = await service.ask("GET", f"/solana/{payment_id}")
        assert answer.refusal == (400, "invalid_state")
        answer = await post_account(service, payment_id, SolanaTestWallet().address)
        assert answer.refusal == (400, "invalid_state")
        page = await service.ask("GET", f"/{payment_id}", {"Accept": "text/html"})
        assert "solana:" not in page.text


async def test_payment_that_needs_data_about_the_buyer_has_no_link(tmp_path, wallet):
    async with open_service(
        tmp_path / "home", solana=INSTANT_SOLANA, capture=CAPTURE_SETTINGS
    ) as service:
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        assert "solanaPayUrl" not in await service.rest.detail(payment_id)
        answer = await post_account(service, payment_id, wallet.address)
        assert answer.refusal == (400, "invalid_state")
        small = {"amount": {"unit": "iso4217/USD", "value": "1249"}}
        payment_id = (await service.rest.create(small))["paymentId"]
        assert "solanaPayUrl" in await service.rest.detail(payment_id)


async def test_link_shows_the_merchant_and_the_amount(service, node, wallet):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    answer = await service.ask("GET", f"/solana/{payment_id}")
    assert answer.status == 200
    assert answer.body["label"]
    assert answer.body["icon"].startswith("https://pay.florin.example/")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    preflight = await service.ask("OPTIONS", f"/solana/{payment_id}")
    assert preflight.status == 204
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    answer = await post_account(service, payment_id, wallet.address)
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    symbol = SOLANA_DEVNET.tokens[0].symbol
    assert answer.body["message"].startswith(f"12.5 {symbol} to ") or answer.body[
        "message"
    ].startswith(f"12.500000 {symbol} to ")


async def test_api_returns_the_link_while_the_payment_can_be_paid(service, node, wallet):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    link = f"solana:https://pay.florin.example/solana/{payment_id}"
    assert (await service.rest.detail(payment_id))["solanaPayUrl"] == link
    info = await service.ask("GET", f"/v1/gateway/payment/{payment_id}", service.rest.wallet)
    assert info.body["solanaPayUrl"] == link
    await service.rest.call("POST", f"/v1/payments/{payment_id}/cancel", service.rest.merchant)
    assert "solanaPayUrl" not in await service.rest.detail(payment_id)


async def test_page_shows_a_code_of_the_link(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    page = await service.ask("GET", f"/{payment_id}", {"Accept": "text/html"})
    assert f'href="solana:https://pay.florin.example/solana/{payment_id}"' in page.text


async def test_merchant_without_a_token_account_cannot_be_paid_by_link(service, wallet):
    tenant = await service.tenant()
    await register_destination(service, tenant, str(Keypair().pubkey()), *ASSETS)
    created = await service.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    answer = await post_account(service, created["paymentId"], wallet.address)
    assert answer.status == 400, answer.text
    assert "the merchant cannot receive it yet" in answer.body["message"]


@pytest.mark.parametrize(
    "account", ["", "no address", 7, None, ["a"], "1" * 5000, "11111111111111111111111111111111"]
)
async def test_account_that_is_no_wallet_is_refused(service, account):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    answer = await post_account(service, payment_id, account)
    assert answer.refusal == (400, "params_validation")
    assert answer.headers["Access-Control-Allow-Origin"] == "*"


async def test_unknown_and_ended_payments_give_no_transaction(service, wallet):
    for method in ("GET", "POST"):
        body = {"account": wallet.address} if method == "POST" else None
        answer = await service.ask(method, "/solana/pay_unknown", None, body)
        assert answer.refusal == (404, "payment_not_found")
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await service.rest.call("POST", f"/v1/payments/{payment_id}/cancel", service.rest.merchant)
    for method in ("GET", "POST"):
        body = {"account": wallet.address} if method == "POST" else None
        answer = await service.ask(method, f"/solana/{payment_id}", None, body)
        assert answer.refusal == (400, "invalid_state")
    created = await service.rest.create({**ORDER, "expiresAt": service.now + 20})
    service.clock.advance(6)
    answer = await post_account(service, created["paymentId"], wallet.address)
    assert answer.refusal == (410, "payment_expired")
