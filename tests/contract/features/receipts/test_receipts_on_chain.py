"""Every way to pay has a receipt that a third party verifies on the chain, in its own process."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_sandbox.devnet.evm import DEVNET
from florin_server.accounts.store import destinations
from florin_server.domain.payments.payment import Destination
from florin_server.domain.receipts import signature
from florin_server.features.receipts.service.keys import decrypt_seed, list_keys
from florin_server.money.payments.store import effects
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient
from florin_server.rails.evm.reading.examine import FinalitySpec, examine_receipt

from tests.support.evm_harness import TamperingTransport
from tests.support.evm_pos import EUR, PRICE, USD, EvmPos
from tests.support.receipts import ReceiptVerifier, decode_claims, get_outcomes, get_receipt
from tests.support.service_harness import PAY_URL, open_service
from tests.support.solana import INSTANT_SOLANA, SolanaTestWallet
from tests.support.solana_offers import make_offer
from tests.support.wallet import EvmTestWallet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]

MERCHANT = "0x" + "5a" * 20
CHAIN = f"eip155:{DEVNET.chain_id}"
ETHER = f"{CHAIN}/slip44:60"
GBP = {"unit": "iso4217/GBP", "value": "1250"}
OF_STATEMENT = ("form", "key", "signature", "issuer")
OF_EVM = ("chain", "transaction", "block", "finality", "contract", "payment", "payer")
OF_MONEY = ("recipient", "amount")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("receipts") / "home"
    async with open_service(
        home, rates={ETHER: {"GBP": "2500.00"}}, solana=INSTANT_SOLANA, fee_basis_points=150
    ) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def pos(desk) -> EvmPos:
    tenant = await desk.tenant()
    assets = (f"erc20:{DEVNET.euro.address}", f"erc20:{DEVNET.token.address}", "slip44:60")
    for number, asset in enumerate(assets):
        place = Destination(
            f"crypto_{tenant.merchant.id}{number}",
            tenant.merchant.id,
            f"{CHAIN}/{asset}",
            f"{CHAIN}:{MERCHANT}",
        )
        await desk.service.app.store.write(destinations.put_destination(place))
    pos = EvmPos(desk, tenant)
    await desk.chain.fund(pos.wallet.address)
    return pos


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def verifier(desk, forks, tmp_path_factory) -> ReceiptVerifier:
    folder = tmp_path_factory.mktemp("verifier")
    return ReceiptVerifier(forks, folder, desk.env["FLORIN_EVM_RPC_URL"])


async def paid(desk, pos, amount) -> str:
    payment_id, option = await pos.offer(amount)
    await pos.confirm(payment_id, option, await pos.perform(option))
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"
    return payment_id


async def verified(desk, verifier, text, *, rpc_url=None, more=()) -> dict:
    """Return the receipt's claims, once every check has passed."""
    keys = await verifier.keys_of(desk)
    options = ["--jwks", str(keys), "--issuer", PAY_URL, "--confirmations", "1"]
    status, result = await verifier.run(text, *options, *more, rpc_url=rpc_url)
    assert (status, result["verified"]) == (0, True), result
    assert set(get_outcomes(result).values()) == {"passed"}
    return result


async def test_a_payment_by_a_signature_in_a_token(desk, pos, verifier):
    payment_id = await paid(desk, pos, USD)
    text = await get_receipt(desk, payment_id, pos.tenant.headers)
    result = await verified(desk, verifier, text)
    assert tuple(get_outcomes(result)) == (*OF_STATEMENT, *OF_EVM, *OF_MONEY, "transfer")
    receipt = result["receipt"]
    assert (receipt["iss"], receipt["sub"], receipt["live"]) == (PAY_URL, payment_id, False)
    assert receipt["merchant"] == {"id": pos.tenant.merchant.id, "name": "Tea House"}
    assert receipt["asked"] == USD
    assert receipt["paid"] == {
        "asset": f"{CHAIN}/erc20:{DEVNET.token.address}",
        "symbol": "tUSD",
        "decimals": 6,
        "value": str(PRICE),
        "fee": str(PRICE * 150 // 10_000),
    }
    assert (receipt["payer"], receipt["recipient"]) == (
        pos.wallet.account.lower(),
        f"{CHAIN}:{MERCHANT}",
    )
    assert receipt["settled"] is True
    assert receipt["option"]["method"] == "eip3009"
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", pos.tenant.headers)
    assert receipt["transaction"]["hash"] == detail["info"]["txId"]
    assert receipt["iat"] == desk.now
    assert "refund" not in receipt


async def test_public_receipt_verifies_without_the_reference(desk, verifier):
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    path = f"/{offer.payment_id}/receipt.jws?account={offer.wallet.account}"
    public = (await desk.ask("GET", path)).text
    merchants = await get_receipt(desk, offer.payment_id)
    shown = (await verified(desk, verifier, merchants))["receipt"]
    assert shown.pop("reference") == "order-1001"
    assert (await verified(desk, verifier, public))["receipt"] == shown


async def test_a_payment_by_permit2(desk, pos, verifier):
    text = await get_receipt(desk, await paid(desk, pos, EUR), pos.tenant.headers)
    result = await verified(desk, verifier, text)
    assert result["receipt"]["option"]["method"] == "permit2"
    # the approval is one of the steps that the option's id covers
    assert result["receipt"]["option"]["steps"] == [f"approve {PRICE}"]


async def test_a_payment_that_the_buyer_sends_in_coin(desk, pos, verifier):
    payment_id, option = await pos.offer(GBP)
    actions = await pos.fetch(payment_id, option)
    await pos.confirm(payment_id, option, await pos.wallet.perform(desk.chain, actions))
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"
    result = await verified(desk, verifier, await get_receipt(desk, payment_id, pos.tenant.headers))
    assert result["receipt"]["option"]["method"] == "direct"
    assert result["receipt"]["paid"]["asset"] == ETHER
    # the price lapses, and that is one of the steps
    assert result["receipt"]["option"]["steps"] == [f"until {option['expiresAt']}"]
    assert tuple(get_outcomes(result)) == (*OF_STATEMENT, *OF_EVM, *OF_MONEY)


async def test_receipts_of_payments_in_the_same_transaction_are_distinguished_by_log(
    desk, pos, verifier
):
    executors = desk.service.app.executors.values()
    buyers, offers = [], []
    for _ in range(3):
        wallet = EvmTestWallet()
        await desk.chain.fund(wallet.address)
        buyer = EvmPos(desk, pos.tenant, wallet)
        buyers.append((buyer, *await buyer.offer(USD)))
    for executor in executors:
        executor.pause()
    for buyer, payment_id, option in buyers:
        await buyer.confirm(payment_id, option, buyer.wallet.execute_all(option))
        offers.append(payment_id)
    for executor in executors:
        executor.resume()
    for payment_id in offers:
        assert (await desk.wait_final(payment_id))["status"] == "succeeded"
    texts = [await get_receipt(desk, offer, pos.tenant.headers) for offer in offers]
    sent_text = [(await verified(desk, verifier, text))["receipt"] for text in texts]
    places = [item["transaction"] for item in sent_text]
    assert len({place["hash"] for place in places}) == 1
    assert len({place["position"] for place in places}) == 3

    # a receipt that names a neighboring transfer fails, though the issuer's signature is valid
    theirs = {"transaction": places[1]}
    status, result = await verifier.run(
        await resigned(desk, verifier, texts[0], theirs),
        *("--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"),
    )
    assert (status, result["outcome"]) == (3, "not_on_chain")
    assert get_outcomes(result)["signature"] == "passed"
    assert (get_outcomes(result)["payment"], get_outcomes(result)["payer"]) == ("failed", "failed")


async def resigned(desk, verifier, text, changes) -> str:
    """Return a receipt with changed claims, signed by the installation itself."""
    keys = signature.parse_key_set((await verifier.keys_of(desk)).read_bytes())
    sent_text = signature.verify_receipt(text, keys).model_dump() | changes
    receipt = signature.Receipt.model_validate(sent_text)
    key = (await list_keys(desk.service.app))[0]
    return signature.sign_receipt(receipt, decrypt_seed(desk.service.app, key), key.id)


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"sub": "pay_another"}, "payment"),
        ({"payer": f"{CHAIN}:0x" + "11" * 20}, "payer"),
        ({"recipient": f"{CHAIN}:0x" + "11" * 20}, "recipient"),
        ({"paid": {"value": str(PRICE + 1)}}, "amount"),
        ({"paid": {"fee": "1"}}, "amount"),
        ({"paid": {"fee": "0"}}, "content"),
        ({"paid": {"decimals": 0}}, "amount"),
        ({"fee_to": None}, "content"),
        ({"payer": f"eip155:1:0x{'11' * 20}"}, "content"),
        ({"option": {"salt": "00" * 16}}, "payment"),
        ({"option": {"id": "00000000-0000-5000-8000-000000000000"}}, "payment"),
        ({"option": {"steps": ["approve 1"]}}, "payment"),
        ({"paid": {"asset": f"{CHAIN}/erc20:{DEVNET.euro.address}"}}, "amount"),
        ({"option": {"contract": DEVNET.euro.address}}, "contract"),
        ({"transaction": {"position": 0}}, "payment"),
        ({"transaction": {"block_hash": "0x" + "22" * 32}}, "block"),
        ({"transaction": {"block": 1}}, "block"),
        (
            {"transaction": {"hash": "0x" + "33" * 32, "block_hash": "0x" + "22" * 32}},
            "transaction",
        ),
        ({"transaction": {"hash": "noise"}}, "content"),
        ({"transaction": {"chain": "eip155:1"}}, "content"),
        (
            {
                "transaction": {"chain": "eip155:1"},
                "paid": {"asset": "eip155:1/slip44:60"},
                **dict.fromkeys(("payer", "recipient", "fee_to"), "eip155:1:0x" + "11" * 20),
            },
            "chain",
        ),
    ],
)
async def test_false_receipt_claim_is_detected_on_the_chain(
    desk, pos, verifier, receipt_text, changes, check
):
    keys = signature.parse_key_set((await verifier.keys_of(desk)).read_bytes())
    claims = signature.verify_receipt(receipt_text, keys).model_dump()
    merged = {k: {**claims[k], **v} if isinstance(v, dict) else v for k, v in changes.items()}
    results = await examined(desk, await resigned(desk, verifier, receipt_text, merged))
    assert "failed" in {item.outcome for item in results if item.check == check}, results


async def test_receipt_for_a_different_payment_is_not_proven_by_the_same_transfer(
    desk, pos, verifier, receipt_text
):
    """Without the claim that binds the transfer to one payment, nothing is proven."""
    keys = signature.parse_key_set((await verifier.keys_of(desk)).read_bytes())
    way = signature.verify_receipt(receipt_text, keys).option.model_dump() | {"steps": None}
    text = await resigned(desk, verifier, receipt_text, {"sub": "pay_another", "option": way})
    results = await examined(desk, text)
    assert {item.check: item.outcome for item in results if item.outcome != "passed"} == {
        "payment": "unknown"
    }


async def examined(desk, text):
    from florin_server.cli.receipts import verify

    jwks = desk.rest.base + "/.well-known/jwks.json"
    options = verify.VerifyOptions(None, "", jwks=jwks, confirmations=1)
    rpc = JsonRpcClient(HttpTransport(desk.env["FLORIN_EVM_RPC_URL"]))
    return (await verify.run_checks(options, text, rpc)).results


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def receipt_text(desk, pos) -> str:
    """Return the receipt of one payment."""
    return await get_receipt(desk, await paid(desk, pos, USD), pos.tenant.headers)


async def test_a_block_that_few_stand_on_is_not_decided(desk, pos, verifier):
    text = await get_receipt(desk, await paid(desk, pos, USD), pos.tenant.headers)
    keys = await verifier.keys_of(desk)
    status, result = await verifier.run(text, "--jwks", str(keys))
    assert (status, result["outcome"], result["verified"]) == (5, "undecided", False)
    assert {k: v for k, v in get_outcomes(result).items() if v != "passed"} == {
        "finality": "unknown"
    }
    # blocks that come at once are no evidence, however many
    await desk.chain.mine(11)
    assert get_outcomes((await verifier.run(text, "--jwks", str(keys)))[1])["finality"] == "unknown"
    result = await verifier.run(text, "--jwks", str(keys), "--confirmations", "12")
    assert result[0] == 0


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        (FinalitySpec(1), "passed"),
        (FinalitySpec(10_000), "unknown"),
        (FinalitySpec(1, 3_600), "unknown"),
        (FinalitySpec(1, 3_599), "passed"),
        (FinalitySpec(1, tag="finalized"), "unknown"),
        (FinalitySpec(1, tag="latest"), "passed"),
        (FinalitySpec(1, tag="nonsense"), "unknown"),
    ],
)
async def test_every_part_of_the_rule_decides_whether_a_block_is_final(
    desk, pos, verifier, rule, outcome
):
    text = await get_receipt(desk, await paid(desk, pos, USD), pos.tenant.headers)
    keys = signature.parse_key_set((await verifier.keys_of(desk)).read_bytes())
    receipt = signature.verify_receipt(text, keys)

    def later(params, answer):
        """Report a newest block that is an hour after its time."""
        if params[0] == "latest":
            answer["result"]["timestamp"] = hex(times[receipt.transaction.block] + 3600)
        elif params[0].startswith("0x"):
            times[int(answer["result"]["number"], 16)] = int(answer["result"]["timestamp"], 16)
        return answer

    times: dict[int, int] = {}
    node = TamperingTransport(HttpTransport(desk.env["FLORIN_EVM_RPC_URL"]))
    node.changes["eth_getBlockByNumber"] = later
    rpc = JsonRpcClient(node)
    try:
        results = await examine_receipt(rpc, receipt, rule)
    finally:
        await rpc.close()
    assert {result.check: result.outcome for result in results}["finality"] == outcome


@pytest.mark.parametrize("token", [0, 1])
async def test_a_payment_on_solana(desk, verifier, token):
    offer = await make_offer(desk.rest, SolanaTestWallet(), token)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    text = await get_receipt(desk, offer.payment_id)
    rpc_url = desk.env["FLORIN_SOLANA_RPC_URL"]
    result = await verified(desk, verifier, text, rpc_url=rpc_url)
    assert tuple(get_outcomes(result)) == (
        *OF_STATEMENT,
        *("chain", "transaction", "block", "finality", "payment", "payer", *OF_MONEY),
    )
    place = result["receipt"]["transaction"]
    assert place["hash"] == (await offer.status())["info"]["txId"]
    assert "block_hash" not in place
    # a node of another chain is reported as such
    status, result = await verifier.run(
        text, "--jwks", str(await verifier.keys_of(desk)), rpc_url=verifier.rpc_url
    )
    assert status == 5
    assert get_outcomes(result)["chain"] == "unknown"


async def test_receipt_of_an_older_payment_is_recovered_from_the_chain(
    desk, pos, verifier, receipt_text
):
    app = desk.service.app
    offer = await make_offer(desk.rest, SolanaTestWallet())
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    of_solana = await get_receipt(desk, offer.payment_id)
    for text, headers in ((receipt_text, pos.tenant.headers), (of_solana, desk.rest.merchant)):
        payment_id = decode_claims(text)["sub"]
        await app.store.write(effects.forget([payment_id]))
        assert await get_receipt(desk, payment_id, headers) == text


async def test_receipt_is_not_signed_while_the_chain_does_not_answer(desk, pos):
    payment_id = await paid(desk, pos, USD)
    await desk.service.app.store.write(effects.forget([payment_id]))
    path = f"/v1/payments/{payment_id}/receipt"
    silent = {"method": "eth_getTransactionReceipt", "effect": "error", "times": 100}
    await desk.chain.ask("florin_fault", {"kind": "answer", **silent})
    answer = await desk.ask("GET", path, pos.tenant.headers)
    await desk.chain.ask("florin_fault", {"kind": "clear"})
    assert answer.refusal == (503, "internal_error")
    assert (await desk.ask("GET", path, pos.tenant.headers)).status == 200
