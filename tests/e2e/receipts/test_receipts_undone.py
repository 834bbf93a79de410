"""Receipts of payments that a reorganization undid, were refunded, or ended otherwise."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio
from florin_server.domain.receipts import keys, signature

from tests.support.api import ApiCallError
from tests.support.receipts import JWKS, ReceiptVerifier, get_outcomes, get_receipt
from tests.support.service_harness import ORDER, PAY_URL, open_service
from tests.support.until import advance, wait_until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("undone") / "home") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def verifier(desk, forks, tmp_path_factory) -> ReceiptVerifier:
    folder = tmp_path_factory.mktemp("verifier")
    return ReceiptVerifier(forks, folder, desk.env["FLORIN_EVM_RPC_URL"])


async def paid(desk) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    return offer.payment_id


async def refusal(desk, payment_id) -> tuple[int, str]:
    with pytest.raises(ApiCallError) as caught:
        await get_receipt(desk, payment_id)
    return caught.value.http, caught.value.code


async def test_reorganized_payment_is_reported_and_gets_a_new_receipt(desk, verifier):
    options = ["--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"]
    payment_id = await paid(desk)
    before = await get_receipt(desk, payment_id)
    assert (await verifier.run(before, *options))[0] == 0
    tx_hash = (await desk.rest.status(payment_id))["info"]["txId"]
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await desk.chain.ask("florin_fault", {"kind": "reorg", "depth": 1, "drop": [tx_hash]})

    status, result = await verifier.run(before, *options)
    assert (status, result["outcome"]) == (3, "not_on_chain")
    assert result["checks"][-1] == {
        "check": "transaction",
        "outcome": "failed",
        "detail": "it is not on this node's chain",
    }

    async def undone() -> bool:
        answer = await desk.ask("GET", f"/v1/payments/{payment_id}/receipt", desk.rest.merchant)
        return answer.status == 400 and answer.refusal == (400, "invalid_state")

    await wait_until(undone)
    # the payment is settled again, and `succeeded` stays
    assert (await desk.rest.status(payment_id))["status"] == "succeeded"
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.mine(2)

    async def again() -> str | None:
        answer = await desk.ask("GET", f"/v1/payments/{payment_id}/receipt", desk.rest.merchant)
        return answer.body["receipt"] if answer.status == 200 else None

    async def passing() -> None:
        await advance(desk.clock, 10)

    after = await wait_until(again, meanwhile=passing)
    assert (await verifier.run(after, *options))[0] == 0
    status, result = await verifier.run(before, *options)
    assert status == 3
    assert get_outcomes(result)["transaction"] == "passed"
    assert get_outcomes(result)["block"] == "failed"


async def test_receipt_contains_the_current_refund(desk, verifier):
    payment_id = await paid(desk)
    before = await get_receipt(desk, payment_id)
    request = await desk.rest.refund(payment_id)
    done = await desk.wait_refunded(payment_id)
    options = ["--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"]
    status, result = await verifier.run(await get_receipt(desk, payment_id), *options)
    assert status == 0
    back = result["receipt"]["refund"]
    assert (back["id"], back["status"]) == (request["refundId"], "succeeded")
    assert back["transaction"] == done["txId"]
    assert back["account"] == result["receipt"]["payer"]
    # the older receipt states what was true at its time
    status, result = await verifier.run(before, *options)
    assert (status, result["receipt"].get("refund")) == (0, None)


async def test_a_receipt_has_each_refund_of_a_payment(desk, verifier):
    payment_id = await paid(desk)
    for value in ("300", "125"):
        await desk.rest.refund(payment_id, amount={"unit": "iso4217/USD", "value": value})
    await desk.wait_refunded(payment_id, every=True)
    known_refunds = (await desk.rest.detail(payment_id))["refunds"]
    options = ["--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"]
    status, result = await verifier.run(await get_receipt(desk, payment_id), *options)
    assert status == 0
    refunds = result["receipt"]["refunds"]
    assert [(refund["id"], refund["value"], refund["transaction"]) for refund in refunds] == [
        (item["refundId"], item["amount"]["value"], item["txId"]) for item in known_refunds
    ]
    assert [refund["value"] for refund in refunds] == ["3000000", "1250000"]
    assert result["receipt"]["refund"] == refunds[-1]


async def test_only_a_payment_that_succeeded_on_a_chain_has_a_receipt(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    assert await refusal(desk, payment_id) == (400, "payment_not_succeeded")
    await desk.rest.merchant_cancel(payment_id)
    assert await refusal(desk, payment_id) == (400, "payment_not_succeeded")
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    await desk.rest.simulate(payment_id, "succeeded")
    assert await refusal(desk, payment_id) == (400, "invalid_state")
    assert await refusal(desk, "pay_unknown") == (404, "payment_not_found")


async def test_receipt_of_another_installation_is_not_genuine(desk, verifier, tmp_path):
    text = await get_receipt(desk, await paid(desk))
    async with open_service(tmp_path / "other" / "home", pay_url="https://other.example") as other:
        keys = await verifier.keys_of(other, "others.json")
    status, result = await verifier.run(text, "--jwks", str(keys))
    assert (status, result["outcome"], result["receipt"]) == (1, "not_genuine", None)
    assert get_outcomes(result) == {"form": "passed", "key": "failed"}
    ours = str(await verifier.keys_of(desk))
    status, result = await verifier.run(text, "--jwks", ours, "--issuer", "https://other.example")
    assert (status, get_outcomes(result)["issuer"]) == (1, "failed")
    status, result = await verifier.run(text, "--jwks", ours, "--key", "A" * 43)
    assert (status, get_outcomes(result)["key"]) == (1, "failed")


async def test_changed_byte_of_a_receipt_is_not_genuine_without_a_chain_call(desk, verifier):
    text = await get_receipt(desk, await paid(desk))
    head, body, tail = text.split(".")
    at = len(body) // 2
    other = "A" if body[at] != "A" else "B"
    changed = f"{head}.{body[:at]}{other}{body[at + 1 :]}.{tail}"
    options = ("--jwks", str(await verifier.keys_of(desk)))
    status, result = await verifier.run(changed, *options, rpc_url="http://127.0.0.1:1/")
    assert (status, result["outcome"]) == (1, "not_genuine")
    assert get_outcomes(result) == {"form": "passed", "signature": "failed"}
    # a line end may come from an editor, any other addition is a change
    assert (await verifier.run(f"{text}\n", *options, "--confirmations", "1"))[0] == 0
    for other in (f"{text}\n\n", f" {text}", f"{text}=", "", text * 20):
        assert (await verifier.run(other, *options))[0] == 1


async def test_keys_come_from_the_issuer_if_none_are_brought(desk, verifier):
    text = await get_receipt(desk, await paid(desk))
    # it names an address that does not exist
    status, result = await verifier.run(text)
    assert (status, result["outcome"]) == (8, "issuer_not_named")
    assert get_outcomes(result)["key"] == "unknown"
    status, result = await verifier.run(text, "--issuer", PAY_URL)
    assert (status, get_outcomes(result)["key"]) == (5, "unknown")
    published = desk.rest.base + JWKS
    assert (await verifier.run(text, "--jwks", published, "--confirmations", "1"))[0] == 0
    status, result = await verifier.run(text, "--jwks", "http://keys.example/jwks.json")
    assert (status, get_outcomes(result)["key"]) == (5, "unknown")
    assert "https only" in result["checks"][-1]["detail"]


SEED = b"\x11" * 32


async def test_receipt_that_a_buyer_signed_as_its_own_issuer_is_undecided(desk, verifier):
    """The buyer of a real payment claims another order, price and shop, and publishes its key."""
    text = await get_receipt(desk, await paid(desk))
    ours = signature.parse_key_set((await verifier.keys_of(desk)).read_bytes())
    key = keys.load_private_key(SEED)
    requests = []

    async def publish(reader, writer):
        requests.append(await reader.readline())
        body = json.dumps({"keys": [key.as_dict(private=False)]})
        head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(publish, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def signed(issuer: str) -> str:
        sent_text = signature.verify_receipt(text, ours).model_dump()
        other = {
            "iss": issuer,
            "reference": "order-1",
            "asked": {**sent_text["asked"], "value": "1"},
        }
        receipt = signature.Receipt.model_validate(sent_text | other)
        return signature.sign_receipt(receipt, SEED, key.thumbprint())

    async with server:
        for issuer in (
            *(f"http://127.0.0.1:{port}", f"http://localhost:{port}", f"http://[::1]:{port}"),
            *(f"https://127.0.0.1:{port}", "https://10.0.0.1", "https://169.254.169.254"),
            *("https://[::ffff:127.0.0.1]", "http://192.0.2.1", "ftp://example.com", "https://"),
        ):
            status, result = await verifier.run(signed(issuer))
            assert (status, result["verified"]) == (8, False), issuer
            assert result["outcome"] == "issuer_not_named"
            assert "--issuer URL, --jwks KEYS or --key" in result["sentence"]
            assert get_outcomes(result)["key"] == "unknown"
        # a named key is no reason to call internal hosts either
        named = ("--key", key.thumbprint())
        status, result = await verifier.run(signed(f"http://127.0.0.1:{port}"), *named)
        assert (status, result["outcome"]) == (5, "undecided")
        assert requests == []
        # the caller's own issuer URL is called
        own = f"http://127.0.0.1:{port}"
        more = ("--issuer", own, "--confirmations", "1")
        status, result = await verifier.run(signed(own), *more)
        assert (status, result["verified"]) == (0, True)
        assert len(requests) == 1


async def test_a_node_that_does_not_answer_decides_nothing(desk, verifier):
    text = await get_receipt(desk, await paid(desk))
    options = ("--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1")
    status, result = await verifier.run(text, *options, rpc_url="http://127.0.0.1:1/")
    assert (status, result["outcome"]) == (5, "undecided")
    assert get_outcomes(result)["signature"] == "passed"
    # the payment of the receipt is proven all the same
    assert result["receipt"]["sub"].startswith("pay_")
    await desk.chain.ask("florin_fault", {"kind": "lag", "blocks": 1})
    status, result = await verifier.run(text, *options)
    await desk.chain.ask("florin_fault", {"kind": "lag", "blocks": 0})
    assert (status, get_outcomes(result)["transaction"]) == (5, "unknown")
