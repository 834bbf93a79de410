"""Receipts of payments that a reorganisation undid, were refunded, or ended otherwise."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio
from florin_server.domain.receipts import keys, signature

from tests.support.api import Refused
from tests.support.desk import ORDER, PAY_URL, opened
from tests.support.receipts import JWKS, Verifier, outcomes, receipt_of
from tests.support.until import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("undone") / "home") as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def verifier(desk, forks, tmp_path_factory) -> Verifier:
    folder = tmp_path_factory.mktemp("verifier")
    return Verifier(forks, folder, desk.env["FLORIN_EVM_RPC_URL"])


async def paid(desk) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    return offer.payment_id


async def refusal(desk, payment_id) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        await receipt_of(desk, payment_id)
    return caught.value.http, caught.value.code


async def test_a_reorganised_transaction_is_told_so_and_gets_another_receipt(desk, verifier):
    options = ["--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"]
    payment_id = await paid(desk)
    before = await receipt_of(desk, payment_id)
    assert (await verifier.run(before, *options))[0] == 0
    tx_hash = (await desk.rest.status(payment_id))["info"]["txId"]
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    await desk.chain.ask("florin_fault", {"kind": "reorg", "depth": 1, "drop": [tx_hash]})

    status, told = await verifier.run(before, *options)
    assert (status, told["outcome"]) == (3, "not_on_chain")
    assert told["checks"][-1] == {
        "check": "transaction",
        "outcome": "failed",
        "detail": "it is not in the chain that this node knows",
    }

    async def undone() -> bool:
        answer = await desk.ask("GET", f"/v1/payments/{payment_id}/receipt", desk.rest.merchant)
        return answer.status == 400 and answer.told == (400, "invalid_state")

    await until(undone)
    # what was paid is settled again, and what was succeeded stays so
    assert (await desk.rest.status(payment_id))["status"] == "succeeded"
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.mine(2)

    async def again() -> str | None:
        answer = await desk.ask("GET", f"/v1/payments/{payment_id}/receipt", desk.rest.merchant)
        return answer.body["receipt"] if answer.status == 200 else None

    async def passing() -> None:
        desk.clock.advance(10)

    after = await until(again, meanwhile=passing)
    assert (await verifier.run(after, *options))[0] == 0
    status, told = await verifier.run(before, *options)
    assert status == 3
    assert outcomes(told)["transaction"] == "passed"
    assert outcomes(told)["block"] == "failed"


async def test_a_receipt_tells_the_refund_as_it_stands(desk, verifier):
    payment_id = await paid(desk)
    before = await receipt_of(desk, payment_id)
    asked = await desk.rest.refund(payment_id)
    done = await desk.refunded(payment_id)
    options = ["--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"]
    status, told = await verifier.run(await receipt_of(desk, payment_id), *options)
    assert status == 0
    back = told["receipt"]["refund"]
    assert (back["id"], back["status"]) == (asked["refundId"], "succeeded")
    assert back["transaction"] == done["txId"]
    assert back["account"] == told["receipt"]["payer"]
    # the older one says what was true at its time
    status, told = await verifier.run(before, *options)
    assert (status, told["receipt"].get("refund")) == (0, None)


async def test_a_receipt_has_each_refund_of_a_payment(desk, verifier):
    payment_id = await paid(desk)
    for value in ("300", "125"):
        await desk.rest.refund(payment_id, amount={"unit": "iso4217/USD", "value": value})
    await desk.refunded(payment_id, every=True)
    known = (await desk.rest.detail(payment_id))["refunds"]
    options = ["--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"]
    status, told = await verifier.run(await receipt_of(desk, payment_id), *options)
    assert status == 0
    refunds = told["receipt"]["refunds"]
    assert [(one["id"], one["value"], one["transaction"]) for one in refunds] == [
        (one["refundId"], one["amount"]["value"], one["txId"]) for one in known
    ]
    assert [one["value"] for one in refunds] == ["3000000", "1250000"]
    assert told["receipt"]["refund"] == refunds[-1]


async def test_only_what_succeeded_on_a_chain_has_a_receipt(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    assert await refusal(desk, payment_id) == (400, "payment_not_succeeded")
    await desk.rest.merchant_cancel(payment_id)
    assert await refusal(desk, payment_id) == (400, "payment_not_succeeded")
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    await desk.rest.simulate(payment_id, "succeeded")
    assert await refusal(desk, payment_id) == (400, "invalid_state")
    assert await refusal(desk, "pay_unknown") == (404, "payment_not_found")


async def test_another_installations_receipt_is_told_apart(desk, verifier, tmp_path):
    text = await receipt_of(desk, await paid(desk))
    async with opened(tmp_path / "other" / "home", pay_url="https://other.example") as other:
        keys = await verifier.keys_of(other, "others.json")
    status, told = await verifier.run(text, "--jwks", str(keys))
    assert (status, told["outcome"], told["receipt"]) == (1, "not_genuine", None)
    assert outcomes(told) == {"form": "passed", "key": "failed"}
    ours = str(await verifier.keys_of(desk))
    status, told = await verifier.run(text, "--jwks", ours, "--issuer", "https://other.example")
    assert (status, outcomes(told)["issuer"]) == (1, "failed")
    status, told = await verifier.run(text, "--jwks", ours, "--key", "A" * 43)
    assert (status, outcomes(told)["key"]) == (1, "failed")


async def test_one_changed_byte_is_told_and_the_chain_is_not_asked(desk, verifier):
    text = await receipt_of(desk, await paid(desk))
    head, body, tail = text.split(".")
    at = len(body) // 2
    other = "A" if body[at] != "A" else "B"
    changed = f"{head}.{body[:at]}{other}{body[at + 1 :]}.{tail}"
    options = ("--jwks", str(await verifier.keys_of(desk)))
    status, told = await verifier.run(changed, *options, rpc_url="http://127.0.0.1:1/")
    assert (status, told["outcome"]) == (1, "not_genuine")
    assert outcomes(told) == {"form": "passed", "signature": "failed"}
    # the end of the last line is the editor's, all else is somebody's
    assert (await verifier.run(f"{text}\n", *options, "--confirmations", "1"))[0] == 0
    for other in (f"{text}\n\n", f" {text}", f"{text}=", "", text * 20):
        assert (await verifier.run(other, *options))[0] == 1


async def test_keys_come_from_the_issuer_if_none_are_brought(desk, verifier):
    text = await receipt_of(desk, await paid(desk))
    # it names an address that nobody has
    status, told = await verifier.run(text)
    assert (status, told["outcome"]) == (8, "issuer_not_named")
    assert outcomes(told)["key"] == "unknown"
    status, told = await verifier.run(text, "--issuer", PAY_URL)
    assert (status, outcomes(told)["key"]) == (5, "unknown")
    published = desk.rest.base + JWKS
    assert (await verifier.run(text, "--jwks", published, "--confirmations", "1"))[0] == 0
    status, told = await verifier.run(text, "--jwks", "http://keys.example/jwks.json")
    assert (status, outcomes(told)["key"]) == (5, "unknown")
    assert "https only" in told["checks"][-1]["detail"]


SEED = b"\x11" * 32


async def test_receipt_that_a_buyer_signed_as_its_own_issuer_is_undecided(desk, verifier):
    """The buyer of a real payment tells another order, price and shop, and publishes its key."""
    text = await receipt_of(desk, await paid(desk))
    ours = signature.key_set((await verifier.keys_of(desk)).read_bytes())
    key = keys.of_seed(SEED)
    asked = []

    async def publish(reader, writer):
        asked.append(await reader.readline())
        body = json.dumps({"keys": [key.as_dict(private=False)]})
        head = f"HTTP/1.0 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(publish, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    def signed(issuer: str) -> str:
        said = signature.verified(text, ours).model_dump()
        other = {"iss": issuer, "reference": "order-1", "asked": {**said["asked"], "value": "1"}}
        receipt = signature.Receipt.model_validate(said | other)
        return signature.sign(receipt, SEED, key.thumbprint())

    async with server:
        for issuer in (
            *(f"http://127.0.0.1:{port}", f"http://localhost:{port}", f"http://[::1]:{port}"),
            *(f"https://127.0.0.1:{port}", "https://10.0.0.1", "https://169.254.169.254"),
            *("https://[::ffff:127.0.0.1]", "http://192.0.2.1", "ftp://example.com", "https://"),
        ):
            status, told = await verifier.run(signed(issuer))
            assert (status, told["verified"]) == (8, False), issuer
            assert told["outcome"] == "issuer_not_named"
            assert "--issuer URL, --jwks KEYS or --key" in told["sentence"]
            assert outcomes(told)["key"] == "unknown"
        # a key that somebody told is no reason to ask inner hosts either
        named = ("--key", key.thumbprint())
        status, told = await verifier.run(signed(f"http://127.0.0.1:{port}"), *named)
        assert (status, told["outcome"]) == (5, "undecided")
        assert asked == []
        # what the caller names is asked: it says so itself
        own = f"http://127.0.0.1:{port}"
        more = ("--issuer", own, "--confirmations", "1")
        status, told = await verifier.run(signed(own), *more)
        assert (status, told["verified"]) == (0, True)
        assert len(asked) == 1


async def test_a_node_that_does_not_answer_decides_nothing(desk, verifier):
    text = await receipt_of(desk, await paid(desk))
    options = ("--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1")
    status, told = await verifier.run(text, *options, rpc_url="http://127.0.0.1:1/")
    assert (status, told["outcome"]) == (5, "undecided")
    assert outcomes(told)["signature"] == "passed"
    # whose receipt it is, is proven all the same
    assert told["receipt"]["sub"].startswith("pay_")
    await desk.chain.ask("florin_fault", {"kind": "lag", "blocks": 1})
    status, told = await verifier.run(text, *options)
    await desk.chain.ask("florin_fault", {"kind": "lag", "blocks": 0})
    assert (status, outcomes(told)["transaction"]) == (5, "unknown")
