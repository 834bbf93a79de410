"""Payments of x402 that the facilitator refuses, and callers that misuse it, on the EVM chain."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
import pytest_asyncio
from eth_abi import encode
from eth_utils import keccak
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.settings import FacilitatedGasSettings, X402Settings

from tests.support.address_outages import hide_receipt, run_on_a_lost_fork
from tests.support.service_harness import open_service
from tests.support.until import advance, wait_until
from tests.support.wallet import EvmTestWallet
from tests.support.x402 import X402Buyer, X402Server, expect_refusal, make_requirements

pytestmark = pytest.mark.asyncio(loop_scope="module")
SHOP = "0x" + "5b" * 20
OTHER = "0x" + "5c" * 20
EVM = "invalid_exact_evm_payload"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("x402") / "home"
    async with open_service(home, x402=X402Settings(facilitator=True)) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server(service) -> X402Server:
    return await X402Server.create(service)


@pytest_asyncio.fixture(loop_scope="module")
async def buyer(service) -> X402Buyer:
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    return buyer


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"to": OTHER}, f"{EVM}_recipient_mismatch"),
        ({"value": "12344"}, f"{EVM}_authorization_value"),
        ({"value": "12346"}, f"{EVM}_authorization_value"),
        ({"validBefore": "1700000000"}, f"{EVM}_authorization_valid_before"),
        ({"validAfter": "1900000000"}, f"{EVM}_authorization_valid_after"),
    ],
)
async def test_authorization_for_something_else_is_refused(service, server, buyer, changes, reason):
    requirements = make_requirements(SHOP)
    payment = buyer.sign(requirements, service.now, **changes)
    await expect_refusal(service, server, payment, requirements, reason)


@pytest.mark.parametrize(
    "changes",
    [
        {"payTo": OTHER},
        {"amount": "1"},
        {"network": "eip155:1"},
        {"asset": "0x" + "12" * 20},
        {"scheme": "upto"},
        {"maxTimeoutSeconds": 61},
        {"extra": {}},
    ],
)
async def test_other_accepted_requirements_are_refused(service, server, buyer, changes):
    requirements = make_requirements(SHOP)
    payment = buyer.sign(requirements, service.now)
    payment["accepted"] = {**requirements, **changes}
    await expect_refusal(service, server, payment, requirements, "accepted_requirements_mismatch")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"network": "eip155:1"}, "invalid_network"),
        ({"asset": "0x" + "12" * 20}, "unsupported_asset"),
        ({"asset": DEVNET.euro.address}, "unsupported_asset"),
        ({"scheme": "upto"}, "unsupported_scheme"),
        ({"extra": {"assetTransferMethod": "erc7710"}}, "unsupported_asset_transfer_method"),
        ({"payTo": "0x12"}, EVM),
        ({"payTo": "0x" + "00" * 20}, EVM),
    ],
)
async def test_requirements_that_are_not_served_are_refused(
    service, server, buyer, changes, reason
):
    payment = buyer.sign(make_requirements(SHOP), service.now)
    requirements = make_requirements(SHOP, **changes)
    payment["accepted"] = requirements
    await expect_refusal(service, server, payment, requirements, reason)


async def test_signature_of_another_key_and_changed_signatures_are_refused(service, server, buyer):
    requirements = make_requirements(SHOP)
    stranger = X402Buyer().sign(requirements, service.now)
    payment = buyer.sign(requirements, service.now)
    good = payment["payload"]["signature"]
    for signature in (
        stranger["payload"]["signature"],
        good[:-2] + ("1b" if good.endswith("1c") else "1c"),
        "0x",
        good[:-4],
        good + "00",
        "0x" + "64" * 900,
        7,
        None,
    ):
        payment["payload"]["signature"] = signature
        await expect_refusal(service, server, payment, requirements, f"{EVM}_signature")


async def test_account_with_code_is_refused_whatever_its_code_says(service, server, buyer):
    """A contract account could use gas as it likes, so only keys sign."""
    wallet = EvmTestWallet(key=buyer.key)
    await service.chain.fund(wallet.address)
    # it accepts every signature
    account = await wallet.deploy(service.chain, bytes.fromhex("631626ba7e60e01b5f5260205ff3"))
    address = account.rpartition(":")[2]
    await service.chain.fund(address)
    requirements = make_requirements(SHOP)
    payment = buyer.sign(requirements, service.now, **{"from": address})
    await expect_refusal(service, server, payment, requirements, f"{EVM}_signature")


async def test_payer_without_money_is_refused(service, server):
    requirements = make_requirements(SHOP)
    payment = X402Buyer().sign(requirements, service.now)
    await expect_refusal(service, server, payment, requirements, "transaction_simulation_failed")


async def test_nonce_of_another_payment_is_refused(service, server, buyer):
    nonce = secrets.token_bytes(32)
    first = buyer.sign(make_requirements(SHOP), service.now, nonce=nonce)
    assert (await server.settle(first))["success"]
    second = buyer.sign(make_requirements(OTHER), service.now, nonce=nonce)
    await expect_refusal(service, server, second, second["accepted"], "payment_already_processing")


async def test_six_different_payments_at_once_settle_once_each(service, server, buyer):
    payments = [buyer.sign(make_requirements(SHOP), service.now) for _ in range(6)]
    before = await service.chain.balance(SHOP)
    answers = await asyncio.gather(*(server.settle(payment) for payment in payments))
    assert all(answer["success"] for answer in answers), answers
    assert len({answer["transaction"] for answer in answers}) == 6
    assert await service.chain.balance(SHOP) - before == 6 * 12_345


def encode_transfer(payment: dict[str, Any]) -> str:
    """Return the calldata with which anyone can submit a payment."""
    sent = payment["payload"]["authorization"]
    words = [
        sent["from"],
        sent["to"],
        *(int(sent[name]) for name in ("value", "validAfter", "validBefore")),
        bytes.fromhex(sent["nonce"][2:]),
        bytes.fromhex(payment["payload"]["signature"][2:]),
    ]
    kinds = ["address", "address", "uint256", "uint256", "uint256", "bytes32", "bytes"]
    name = f"transferWithAuthorization({','.join(kinds)})"
    return "0x" + (keccak(name.encode())[:4] + encode(kinds, words)).hex()


async def submit_as_stranger(service, payment: dict[str, Any], data: str = "") -> str:
    stranger = EvmTestWallet()
    await service.chain.fund(stranger.address)
    token = bytes.fromhex(DEVNET.tokens[0].address[2:])
    receipt = await stranger.transact(
        service.chain,
        gas=200_000,
        to=token,
        value=0,
        data=bytes.fromhex((data or encode_transfer(payment))[2:]),
    )
    return str(receipt["transactionHash"])


async def test_payment_that_a_stranger_submitted_before_is_refused(service, server, buyer):
    requirements = make_requirements(SHOP)
    payment = buyer.sign(requirements, service.now)
    await submit_as_stranger(service, payment)
    await expect_refusal(service, server, payment, requirements, f"{EVM}_authorization_nonce_used")


@pytest.mark.parametrize("lost_blocks", [0, 9])
async def test_payment_that_a_stranger_submits_meanwhile_succeeds_once(
    service, server, buyer, monkeypatch, lost_blocks
):
    run_on_a_lost_fork(monkeypatch, lost_blocks)
    payment = buyer.sign(make_requirements(SHOP), service.now)
    before = await service.chain.balance(SHOP)
    # a node loses our transaction, so a stranger is quicker
    lost = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 1}
    await service.chain.ask("florin_fault", lost)
    waiting = asyncio.create_task(server.settle(payment))
    sent = "SELECT tx_hash FROM facilitation WHERE state = 'sent'"
    ((own,),) = await wait_until(lambda: service.select(sent))
    tx_hash = await submit_as_stranger(service, payment)
    # nodes have a log before they have its receipt
    hidden = hide_receipt(monkeypatch, tx_hash, times=2)

    async def move() -> None:
        await advance(service.clock, 11)

    await wait_until(waiting.done, meanwhile=move)
    answer = waiting.result()
    assert (answer["success"], hidden) == (True, [tx_hash, tx_hash]), answer
    assert (answer["transaction"], own != tx_hash) == (tx_hash, True)
    assert await service.chain.balance(SHOP) - before == 12_345
    receipt = await service.chain.ask("eth_getTransactionReceipt", own)
    assert receipt["status"] == "0x0"


async def test_money_that_is_gone_before_the_block_fails_the_payment(service, server, buyer):
    payment = buyer.sign(make_requirements(SHOP), service.now)
    lost = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 1}
    await service.chain.ask("florin_fault", lost)
    waiting = asyncio.create_task(server.settle(payment))
    sent = "SELECT 1 FROM facilitation WHERE state = 'sent'"
    await wait_until(lambda: service.select(sent))
    rest = await service.chain.balance(buyer.address)
    await submit_as_stranger(service, buyer.sign(make_requirements(OTHER, rest), service.now))

    async def move() -> None:
        await advance(service.clock, 11)

    await wait_until(waiting.done, meanwhile=move)
    answer = waiting.result()
    assert (answer["success"], answer["errorReason"]) == (False, "transaction_failed")
    assert await server.settle(payment) == answer


async def test_authorization_that_is_canceled_before_the_block_fails_the_payment(service, server):
    buyer = X402Buyer()
    await service.chain.fund(buyer.address)
    payment = buyer.sign(make_requirements(SHOP), service.now)
    lost = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 1}
    await service.chain.ask("florin_fault", lost)
    waiting = asyncio.create_task(server.settle(payment))
    sent = "SELECT 1 FROM facilitation WHERE state = 'sent'"
    await wait_until(lambda: service.select(sent))
    await submit_as_stranger(service, payment, data=buyer.encode_cancel(payment))

    async def move() -> None:
        await advance(service.clock, 11)

    await wait_until(waiting.done, meanwhile=move)
    answer = waiting.result()
    assert (answer["success"], answer["errorReason"]) == (False, "transaction_failed")


async def test_payment_that_was_stored_before_a_restart_is_sent_once_after_it(tmp_path, buyer):
    settings = X402Settings(facilitator=True, wait_s=0.1)
    lost = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 9}
    async with open_service(tmp_path / "home", x402=settings) as service:
        server = await X402Server.create(service)
        await service.chain.fund(buyer.address)
        payment = buyer.sign(make_requirements(SHOP), service.now)
        await service.chain.ask("florin_fault", lost)
        answer = await server.settle(payment)
        assert (answer["success"], answer["errorReason"]) == (False, "settlement_pending")
        ((first,),) = await wait_until(
            lambda: service.select("SELECT hash FROM chain_tx WHERE state <> 'final'")
        )
    async with open_service(tmp_path / "home", x402=settings) as service:
        server = X402Server(service, server.secret)

        async def settle() -> Any:
            answer = await server.settle(payment)
            return answer if answer["success"] else None

        answer = await wait_until(settle)
        assert answer["transaction"] == first
        assert await server.settle(payment) == answer
        assert await service.chain.balance(SHOP) == 12_345


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"x402Version": 1}',
        b'{"x402Version": true}',
        b'{"x402Version": 2, "paymentPayload": [], "paymentRequirements": {}}',
        b'{"x402Version": 2, "paymentPayload": {"x402Version": 2}}',
        b"\xff" * 100,
        b"[" * 5000,
        b'{"x402Version": 2, "x": "' + b"a" * 40_000 + b'"}',
    ],
)
async def test_body_that_is_no_request_is_refused(service, server, body):
    for name, member in (("verify", "isValid"), ("settle", "success")):
        answer = await service.ask(
            "POST", f"/x402/facilitator/{name}", {"Api-Key": server.secret}, data=body
        )
        assert answer.status in {200, 400, 413}, answer.text
        if answer.status == 200:
            assert answer.body[member] is False


async def test_key_without_the_scope_is_refused(service, buyer):
    tenant = await service.tenant()
    payment = buyer.sign(make_requirements(SHOP), service.now)
    server = X402Server(service, tenant.secret)
    for name in ("verify", "settle"):
        assert (await server.ask(name, payment)).refusal == (403, "forbidden")
    assert (await server.ask("supported")).refusal == (403, "forbidden")
    wrong = X402Server(service, service.unstored_key())
    assert (await wrong.ask("settle", payment)).status == 401
    bare = await service.ask("GET", "/x402/facilitator/supported")
    assert bare.status == 401


async def test_live_key_settles_nothing_on_a_test_chain(service, buyer):
    tenant = await service.tenant(live=True)
    _, secret = await service.key(tenant.partner.id, live=True, scopes=("facilitate",))
    server = X402Server(service, secret)
    assert (await server.ask("supported")).body["kinds"] == []
    requirements = make_requirements(SHOP)
    payment = buyer.sign(requirements, service.now)
    await expect_refusal(service, server, payment, requirements, "invalid_network")


async def test_revoked_key_settles_nothing(service, buyer):
    tenant = await service.tenant()
    key_id, secret = await service.key(tenant.partner.id, scopes=("facilitate",))
    server = X402Server(service, secret)
    payment = buyer.sign(make_requirements(SHOP), service.now)
    assert (await server.verify(payment))["isValid"]
    await service.revoke(key_id)
    assert (await server.ask("settle", payment)).status == 401


async def test_facilitator_is_off_by_default(tmp_path, buyer):
    async with open_service(tmp_path / "home") as service:
        server = await X402Server.create(service)
        assert (await server.ask("supported")).status == 404
        payment = buyer.sign(make_requirements(SHOP), service.now)
        assert (await server.ask("settle", payment)).status in {404, 405}


async def test_blocked_payer_and_blocked_receiver_are_refused(tmp_path, buyer):
    settings = X402Settings(facilitator=True)
    blocked = (buyer.address, OTHER)
    async with open_service(tmp_path / "home", x402=settings, blocked_accounts=blocked) as service:
        server = await X402Server.create(service)
        requirements = make_requirements(SHOP)
        payment = buyer.sign(requirements, service.now)
        await expect_refusal(service, server, payment, requirements, "blocked_account")
        other = X402Buyer()
        await service.chain.fund(other.address)
        requirements = make_requirements(OTHER)
        payment = other.sign(requirements, service.now)
        await expect_refusal(service, server, payment, requirements, "blocked_account")


async def test_budgets_bound_a_key_and_each_payer_until_the_next_hour(tmp_path):
    gas = FacilitatedGasSettings(payer=500_000, key=1_000_000, chain=1_500_000)
    settings = {"x402": X402Settings(facilitator=True), "facilitated_gas": gas}
    async with open_service(tmp_path / "home", **settings) as service:
        first, second = [await X402Server.create(service) for _ in range(2)]

        async def pay(server: X402Server, buyer: X402Buyer) -> dict[str, Any]:
            await service.chain.fund(buyer.address)
            return await server.settle(buyer.sign(make_requirements(SHOP), service.now))

        async def count_until_refused(server: X402Server, buyers: list[X402Buyer]) -> int:
            for count, buyer in enumerate(buyers):
                answer = await pay(server, buyer)
                if not answer["success"]:
                    assert answer["errorReason"] == "facilitator_budget_exhausted"
                    return count
            raise AssertionError("no budget refused")

        by_payer = await count_until_refused(first, [X402Buyer()] * 20)
        assert 2 <= by_payer <= 8
        # new payers use up the rest of the key's budget, and no other key's
        by_key = await count_until_refused(first, [X402Buyer() for _ in range(20)])
        assert 1 <= by_key <= 12
        assert (await pay(second, X402Buyer()))["success"]
        # many keys share the budget of the chain
        await count_until_refused(second, [X402Buyer() for _ in range(20)])
        third = await X402Server.create(service)
        payment = X402Buyer()
        await service.chain.fund(payment.address)
        answer = await third.verify(payment.sign(make_requirements(SHOP), service.now))
        assert answer["invalidReason"] == "facilitator_budget_exhausted"
        used = service.select("SELECT owner, gas FROM facilitated_gas WHERE owner = ''")
        paid = service.select("SELECT sum(gas) FROM facilitation WHERE state = 'succeeded'")
        assert used[0][1] == paid[0][0] <= 1_500_000
        service.clock.advance(3600)
        assert (await pay(first, X402Buyer()))["success"]
