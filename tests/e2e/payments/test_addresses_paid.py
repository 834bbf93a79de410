"""Test payments by plain transfers to an address of their own."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.support.address_outages import delay_complete_loads, hide_coin, hide_logs
from tests.support.addresses import (
    CHAIN,
    COIN,
    EURO,
    ORDER,
    PRICE,
    ExchangeLikeSender,
    PlainSender,
    forward_as_stranger,
    open_address,
    parse_route,
    pass_time,
    read_tokens,
    wait_for_status,
)
from tests.support.operator import block, check_ledger
from tests.support.receipts import ReceiptVerifier, decode_claims, get_outcomes, get_receipt
from tests.support.service_harness import SPEC, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
RATES = {COIN: {"USD": "2500.00"}}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("addresses_paid") / "home"
    async with open_service(home, rates=RATES) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def sender(service):
    return await PlainSender(service.chain).fund()


async def test_plain_transfer_of_a_token_pays(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    route = parse_route(address)
    before = await read_tokens(service.chain, route.dest)
    receipt = await sender.send_token(address["address"], PRICE)
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert await read_tokens(service.chain, address["address"]) == 0
    received = await read_tokens(service.chain, route.dest) - before
    assert received == (PRICE if route.dest == route.fee_to else PRICE - route.fee)
    (deposit,) = detail["deposits"]
    assert deposit["txId"] == receipt["transactionHash"]
    assert deposit["sender"] == f"{CHAIN}:{sender.address}"
    assert (deposit["amount"], deposit["isFinal"]) == (str(PRICE), True)
    assert detail["payers"] == [f"{CHAIN}:{sender.address}"]
    assert detail["buyer"]["accountCaip10"] == f"{CHAIN}:{sender.address}"
    assert detail["info"]["txId"] != receipt["transactionHash"]


async def test_parts_of_two_senders_add_up(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await sender.send_token(address["address"], 5_000_000)
    await pass_time(service, 2)
    (seen,) = (await service.rest.detail(payment_id))["addresses"]
    assert (seen["received"], seen["missing"], seen["over"]) == ("5000000", "7500000", "0")
    assert (await service.rest.status(payment_id))["status"] == "requires_action"
    friend = await PlainSender(service.chain).fund()
    await friend.send_token(address["address"], 7_500_000)
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert detail["payers"] == [f"{CHAIN}:{each.address}" for each in (sender, friend)]
    # a refund to one of them would be too much for that one
    assert detail["buyer"] is None
    refused = await service.ask(
        "POST",
        "/v1/refunds",
        {**service.rest.merchant, **SPEC, "Idempotency-Key": payment_id},
        {"paymentId": payment_id},
    )
    assert refused.refusal == (400, "invalid_state")


async def test_too_much_pays_and_the_rest_stays_at_the_address(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await sender.send_token(address["address"], PRICE + 1_000)
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert detail["addresses"][0]["over"] == "1000"
    assert await read_tokens(service.chain, address["address"]) == 1_000


async def test_coin_of_an_account_pays(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id, COIN)
    assert address["uri"].endswith(f"?value={address['amount']['value']}")
    await sender.send_coin(address["address"], int(address["amount"]["value"]))
    detail = await wait_for_status(service, payment_id, "succeeded")
    (deposit,) = detail["deposits"]
    assert deposit["sender"] == f"{CHAIN}:{sender.address}"


async def test_coin_of_a_contract_pays_without_a_known_sender(service, sender):
    exchange = await ExchangeLikeSender.deploy(sender)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id, COIN)
    await exchange.send_coin(address["address"], int(address["amount"]["value"]))
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert [deposit["sender"] for deposit in detail["deposits"]] == [""]
    assert (detail["buyer"], "payers" in detail) == (None, False)


async def test_tokens_pay_while_no_node_has_the_balances_of_coin(service, sender, monkeypatch):
    in_coin = (await service.rest.create(ORDER))["paymentId"]
    coin_address = await open_address(service, in_coin, COIN)
    with monkeypatch.context() as patch:
        hide_coin(patch)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        address = await open_address(service, payment_id)
        await sender.send_token(address["address"], PRICE)
        await sender.send_coin(coin_address["address"], int(coin_address["amount"]["value"]))
        await wait_for_status(service, payment_id, "succeeded")
        assert (await service.rest.status(in_coin))["status"] == "requires_action"
    await wait_for_status(service, in_coin, "succeeded")


async def test_addresses_whose_logs_no_node_has_do_not_keep_others_from_being_paid(
    service, sender, monkeypatch
):
    unread_id = (await service.rest.create(ORDER))["paymentId"]
    unread = (await open_address(service, unread_id))["address"]
    with monkeypatch.context() as patch:
        hide_logs(patch, unread)
        payment_id, address = await _open_in_later_block(service)
        await sender.send_token(address, PRICE)
        await wait_for_status(service, payment_id, "succeeded")
    await sender.send_token(unread, PRICE)
    await wait_for_status(service, unread_id, "succeeded")


async def _open_in_later_block(service) -> tuple[str, str]:
    """Return a payment and its address, read from another block than earlier addresses."""
    await service.chain.ask("evm_mine", {"blocks": 20})
    await pass_time(service, 2)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    return payment_id, (await open_address(service, payment_id))["address"]


async def test_address_opened_long_before_the_next_look_is_watched_then(
    service, sender, monkeypatch
):
    delay_complete_loads(monkeypatch)
    service.clock.advance(61)
    await pass_time(service, 2)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    service.clock.advance(20)
    await sender.send_token(address["address"], PRICE)
    await wait_for_status(service, payment_id, "succeeded")


async def test_token_without_return_values_pays(service, sender):
    euros = {"amount": {"unit": "iso4217/EUR", "value": "900"}}
    payment_id = (await service.rest.create(euros))["paymentId"]
    address = await open_address(service, payment_id, EURO)
    await sender.send_token(address["address"], 9_000_000, EURO)
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert detail["deposits"][0]["asset"] == EURO


async def test_batch_of_a_contract_pays_two_payments(service, sender):
    exchange = await ExchangeLikeSender.deploy(sender)
    ids = [(await service.rest.create(ORDER))["paymentId"] for _ in range(2)]
    addresses = [await open_address(service, payment_id) for payment_id in ids]
    amounts = [(address["address"], PRICE) for address in addresses]
    receipt = await exchange.send_tokens(amounts)
    for payment_id in ids:
        detail = await wait_for_status(service, payment_id, "succeeded")
        (deposit,) = detail["deposits"]
        assert deposit["txId"] == receipt["transactionHash"]
        # an exchange credits nothing that comes back, so it gets no refund
        assert detail["buyer"] is None


async def test_named_account_gets_refunds_of_an_exchange(service, sender):
    exchange = await ExchangeLikeSender.deploy(sender)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    account = f"{CHAIN}:{sender.account.address}"
    address = await open_address(service, payment_id, refundAccount=account)
    await exchange.send_tokens([(address["address"], PRICE)])
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert detail["buyer"]["accountCaip10"].lower() == account.lower()
    before = await read_tokens(service.chain, sender.address)
    await service.rest.refund(payment_id)
    await service.wait_refunded(payment_id)
    assert await read_tokens(service.chain, sender.address) == before + PRICE


async def test_payment_forwarded_by_a_stranger_succeeds(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await sender.send_token(address["address"], PRICE)
    stranger = await PlainSender(service.chain).fund()
    receipt = await forward_as_stranger(stranger, parse_route(address))
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert detail["info"]["txId"] == receipt["transactionHash"]
    assert detail["buyer"]["accountCaip10"] == f"{CHAIN}:{sender.address}"


async def test_deposit_of_a_cancelled_payment_is_not_forwarded(service, sender):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await sender.send_token(address["address"], 1_000)
    await service.rest.cancel(payment_id)
    await sender.send_token(address["address"], PRICE)
    await pass_time(service, 6)
    detail = await service.rest.detail(payment_id)
    assert detail["status"] == "cancelled"
    assert sum(int(deposit["amount"]) for deposit in detail["deposits"]) == PRICE + 1_000
    assert await read_tokens(service.chain, address["address"]) == PRICE + 1_000


async def test_money_after_the_end_is_not_forwarded(service, sender):
    order = {**ORDER, "expiresAt": service.now + 120}
    payment_id = (await service.rest.create(order))["paymentId"]
    address = await open_address(service, payment_id)
    service.clock.advance(121)
    await sender.send_token(address["address"], PRICE)
    await pass_time(service, 6)
    detail = await service.rest.detail(payment_id)
    assert (detail["status"], len(detail["deposits"])) == ("expired", 1)
    assert await read_tokens(service.chain, address["address"]) == PRICE


async def test_blocked_sender_does_not_count_towards_the_price(service, sender):
    blocked = await PlainSender(service.chain).fund()
    await block(service, blocked.address)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await blocked.send_token(address["address"], PRICE)
    await pass_time(service, 6)
    detail = await service.rest.detail(payment_id)
    assert (detail["status"], detail["addresses"][0]["missing"]) == ("requires_action", str(PRICE))
    # a cent of it taints nothing
    await sender.send_token(address["address"], PRICE)
    detail = await wait_for_status(service, payment_id, "succeeded")
    assert detail["payers"] == [f"{CHAIN}:{sender.address}"]


async def test_receipt_is_verified_by_a_node_alone(service, sender, forks, tmp_path):
    url = service.env["FLORIN_EVM_RPC_URL"]
    verifier = ReceiptVerifier(forks, tmp_path, url)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    address = await open_address(service, payment_id)
    await sender.send_token(address["address"], PRICE)
    await wait_for_status(service, payment_id, "succeeded")
    receipt = await get_receipt(service, payment_id)
    keys = await verifier.keys_of(service)
    status, result = await verifier.run(receipt, "--jwks", str(keys), "--confirmations", "1")
    assert (status, set(get_outcomes(result).values())) == (0, {"passed"}), get_outcomes(result)
    assert decode_claims(receipt)["payer"].lower() == f"{CHAIN}:{address['address'].lower()}"


async def test_books_balance_at_the_end(service):
    await check_ledger(service)
