"""Every way to pay has a receipt that a third party verifies on the chain, in its own process."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin_server.devnet.evm import DEVNET
from florin_server.domain.payments.payment import Destination
from florin_server.domain.receipts import signature
from florin_server.flows.receipts.keys import listed, seed_of
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc
from florin_server.rails.evm.reading.examine import FinalityRule, examine
from florin_server.store.accounts import destinations
from florin_server.store.receipts import effects

from tests.support.desk import PAY_URL, opened
from tests.support.evm_lab import Meddler
from tests.support.evm_till import EUR, PRICE, USD, Till
from tests.support.receipts import Verifier, outcomes, receipt_of, said_in
from tests.support.solana import AT_ONCE, SolanaWallet
from tests.support.solana_offers import offered
from tests.support.wallet import Wallet

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
    async with opened(
        home, rates={ETHER: {"GBP": "2500.00"}}, solana=AT_ONCE, fee_basis_points=150
    ) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def till(desk) -> Till:
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
    till = Till(desk, tenant)
    await desk.chain.fund(till.wallet.address)
    return till


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def verifier(desk, forks, tmp_path_factory) -> Verifier:
    folder = tmp_path_factory.mktemp("verifier")
    return Verifier(forks, folder, desk.env["FLORIN_EVM_RPC_URL"])


async def paid(desk, till, amount) -> str:
    payment_id, option = await till.offer(amount)
    await till.confirm(payment_id, option, await till.perform(option))
    assert (await desk.final(payment_id))["status"] == "succeeded"
    return payment_id


async def verified(desk, verifier, text, *, rpc_url=None, more=()) -> dict:
    """What the receipt says, once everything about it is true."""
    keys = await verifier.keys_of(desk)
    options = ["--jwks", str(keys), "--issuer", PAY_URL, "--confirmations", "1"]
    status, told = await verifier.run(text, *options, *more, rpc_url=rpc_url)
    assert (status, told["verified"]) == (0, True), told
    assert set(outcomes(told).values()) == {"passed"}
    return told


async def test_a_payment_by_a_signature_in_a_token(desk, till, verifier):
    payment_id = await paid(desk, till, USD)
    text = await receipt_of(desk, payment_id, till.tenant.headers)
    told = await verified(desk, verifier, text)
    assert tuple(outcomes(told)) == (*OF_STATEMENT, *OF_EVM, *OF_MONEY, "transfer")
    said = told["receipt"]
    assert (said["iss"], said["sub"], said["live"]) == (PAY_URL, payment_id, False)
    assert said["merchant"] == {"id": till.tenant.merchant.id, "name": "Tea House"}
    assert said["asked"] == USD
    assert said["paid"] == {
        "asset": f"{CHAIN}/erc20:{DEVNET.token.address}",
        "symbol": "tUSD",
        "decimals": 6,
        "value": str(PRICE),
        "fee": str(PRICE * 150 // 10_000),
    }
    assert (said["payer"], said["recipient"]) == (
        till.wallet.account.lower(),
        f"{CHAIN}:{MERCHANT}",
    )
    assert said["settled"] is True
    assert said["option"]["method"] == "eip3009"
    detail = await desk.rest.call("GET", f"/v1/payments/{payment_id}", till.tenant.headers)
    assert said["transaction"]["hash"] == detail["info"]["txId"]
    assert said["iat"] == desk.now
    assert "refund" not in said


async def test_public_receipt_verifies_without_the_reference(desk, verifier):
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    path = f"/{offer.payment_id}/receipt.jws?account={offer.wallet.account}"
    public = (await desk.ask("GET", path)).text
    merchants = await receipt_of(desk, offer.payment_id)
    shown = (await verified(desk, verifier, merchants))["receipt"]
    assert shown.pop("reference") == "order-1001"
    assert (await verified(desk, verifier, public))["receipt"] == shown


async def test_a_payment_by_permit2(desk, till, verifier):
    text = await receipt_of(desk, await paid(desk, till, EUR), till.tenant.headers)
    told = await verified(desk, verifier, text)
    assert told["receipt"]["option"]["method"] == "permit2"
    # the approval is one of the steps that the option's id stands for
    assert told["receipt"]["option"]["steps"] == [f"approve {PRICE}"]


async def test_a_payment_that_the_buyer_sends_in_coin(desk, till, verifier):
    payment_id, option = await till.offer(GBP)
    actions = await till.fetch(payment_id, option)
    await till.confirm(payment_id, option, await till.wallet.perform(desk.chain, actions))
    assert (await desk.final(payment_id))["status"] == "succeeded"
    told = await verified(desk, verifier, await receipt_of(desk, payment_id, till.tenant.headers))
    assert told["receipt"]["option"]["method"] == "direct"
    assert told["receipt"]["paid"]["asset"] == ETHER
    # the price lapses, and that is one of the steps
    assert told["receipt"]["option"]["steps"] == [f"until {option['expiresAt']}"]
    assert tuple(outcomes(told)) == (*OF_STATEMENT, *OF_EVM, *OF_MONEY)


async def test_payments_of_one_transaction_are_told_apart_by_their_logs(desk, till, verifier):
    executors = desk.service.app.executors.values()
    for one in executors:
        one.pause()
    offers = []
    for _ in range(3):
        wallet = Wallet()
        await desk.chain.fund(wallet.address)
        buyer = Till(desk, till.tenant, wallet)
        payment_id, option = await buyer.offer(USD)
        await buyer.confirm(payment_id, option, wallet.execute_all(option))
        offers.append(payment_id)
    for one in executors:
        one.resume()
    for payment_id in offers:
        assert (await desk.final(payment_id))["status"] == "succeeded"
    texts = [await receipt_of(desk, one, till.tenant.headers) for one in offers]
    said = [(await verified(desk, verifier, text))["receipt"] for text in texts]
    places = [one["transaction"] for one in said]
    assert len({one["hash"] for one in places}) == 1
    assert len({one["position"] for one in places}) == 3

    # an issuer that tells of the neighbour's transfer is found out, though its signature is good
    theirs = {"transaction": places[1]}
    status, told = await verifier.run(
        await resigned(desk, verifier, texts[0], theirs),
        *("--jwks", str(await verifier.keys_of(desk)), "--confirmations", "1"),
    )
    assert (status, told["outcome"]) == (3, "not_on_chain")
    assert outcomes(told)["signature"] == "passed"
    assert (outcomes(told)["payment"], outcomes(told)["payer"]) == ("failed", "failed")


async def resigned(desk, verifier, text, changes) -> str:
    """A receipt that says something else, signed by the installation itself."""
    keys = signature.key_set((await verifier.keys_of(desk)).read_bytes())
    said = signature.verified(text, keys).model_dump() | changes
    made = signature.Receipt.model_validate(said)
    key = (await listed(desk.service.app))[0]
    return signature.sign(made, seed_of(desk.service.app, key), key.id)


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
async def test_an_issuer_that_lies_is_found_out_by_the_chain(
    desk, till, verifier, kept, changes, check
):
    keys = signature.key_set((await verifier.keys_of(desk)).read_bytes())
    said = signature.verified(kept, keys).model_dump()
    merged = {k: {**said[k], **v} if isinstance(v, dict) else v for k, v in changes.items()}
    results = await examined(desk, await resigned(desk, verifier, kept, merged))
    assert "failed" in {one.outcome for one in results if one.check == check}, results


async def test_another_payment_is_not_told_of_the_same_transfer(desk, till, verifier, kept):
    """Who signs could leave out what binds the transfer to one payment: then nothing is proven."""
    keys = signature.key_set((await verifier.keys_of(desk)).read_bytes())
    way = signature.verified(kept, keys).option.model_dump() | {"steps": None}
    text = await resigned(desk, verifier, kept, {"sub": "pay_another", "option": way})
    results = await examined(desk, text)
    assert {one.check: one.outcome for one in results if one.outcome != "passed"} == {
        "payment": "unknown"
    }


async def examined(desk, text):
    from florin_server.cli.receipts import verify

    jwks = desk.rest.base + "/.well-known/jwks.json"
    wanted = verify.VerifyOptions(None, "", jwks=jwks, confirmations=1)
    rpc = JsonRpc(HttpTransport(desk.env["FLORIN_EVM_RPC_URL"]))
    return (await verify.judged(wanted, text, rpc)).results


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kept(desk, till) -> str:
    """The receipt of one payment."""
    return await receipt_of(desk, await paid(desk, till, USD), till.tenant.headers)


async def test_a_block_that_few_stand_on_is_not_decided(desk, till, verifier):
    text = await receipt_of(desk, await paid(desk, till, USD), till.tenant.headers)
    keys = await verifier.keys_of(desk)
    status, told = await verifier.run(text, "--jwks", str(keys))
    assert (status, told["outcome"], told["verified"]) == (5, "undecided", False)
    assert {k: v for k, v in outcomes(told).items() if v != "passed"} == {"finality": "unknown"}
    # blocks that come at once are no evidence, however many
    await desk.chain.mine(11)
    assert outcomes((await verifier.run(text, "--jwks", str(keys)))[1])["finality"] == "unknown"
    told = await verifier.run(text, "--jwks", str(keys), "--confirmations", "12")
    assert told[0] == 0


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        (FinalityRule(1), "passed"),
        (FinalityRule(10_000), "unknown"),
        (FinalityRule(1, 3_600), "unknown"),
        (FinalityRule(1, 3_599), "passed"),
        (FinalityRule(1, tag="finalized"), "unknown"),
        (FinalityRule(1, tag="latest"), "passed"),
        (FinalityRule(1, tag="nonsense"), "unknown"),
    ],
)
async def test_every_part_of_the_rule_decides_whether_a_block_is_final(
    desk, till, verifier, rule, outcome
):
    text = await receipt_of(desk, await paid(desk, till, USD), till.tenant.headers)
    keys = signature.key_set((await verifier.keys_of(desk)).read_bytes())
    said = signature.verified(text, keys)

    def later(params, answer):
        """The newest block is an hour later than it says."""
        if params[0] == "latest":
            answer["result"]["timestamp"] = hex(times[said.transaction.block] + 3600)
        elif params[0].startswith("0x"):
            times[int(answer["result"]["number"], 16)] = int(answer["result"]["timestamp"], 16)
        return answer

    times: dict[int, int] = {}
    node = Meddler(HttpTransport(desk.env["FLORIN_EVM_RPC_URL"]))
    node.changes["eth_getBlockByNumber"] = later
    rpc = JsonRpc(node)
    try:
        results = await examine(rpc, said, rule)
    finally:
        await rpc.close()
    assert {one.check: one.outcome for one in results}["finality"] == outcome


@pytest.mark.parametrize("token", [0, 1])
async def test_a_payment_on_solana(desk, verifier, token):
    offer = await offered(desk.rest, SolanaWallet(), token)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    text = await receipt_of(desk, offer.payment_id)
    rpc_url = desk.env["FLORIN_SOLANA_RPC_URL"]
    told = await verified(desk, verifier, text, rpc_url=rpc_url)
    assert tuple(outcomes(told)) == (
        *OF_STATEMENT,
        *("chain", "transaction", "block", "finality", "payment", "payer", *OF_MONEY),
    )
    place = told["receipt"]["transaction"]
    assert place["hash"] == (await offer.status())["info"]["txId"]
    assert "block_hash" not in place
    # a node of another chain is told so
    status, told = await verifier.run(
        text, "--jwks", str(await verifier.keys_of(desk)), rpc_url=verifier.rpc_url
    )
    assert status == 5
    assert outcomes(told)["chain"] == "unknown"


async def test_what_was_paid_before_receipts_were_there_is_looked_up(desk, till, verifier, kept):
    app = desk.service.app
    offer = await offered(desk.rest, SolanaWallet())
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    of_solana = await receipt_of(desk, offer.payment_id)
    for text, headers in ((kept, till.tenant.headers), (of_solana, desk.rest.merchant)):
        payment_id = said_in(text)["sub"]
        await app.store.write(effects.forget([payment_id]))
        assert await receipt_of(desk, payment_id, headers) == text


async def test_nothing_is_signed_while_the_chain_has_to_be_asked_and_does_not_answer(desk, till):
    payment_id = await paid(desk, till, USD)
    await desk.service.app.store.write(effects.forget([payment_id]))
    path = f"/v1/payments/{payment_id}/receipt"
    silent = {"method": "eth_getTransactionReceipt", "effect": "error", "times": 100}
    await desk.chain.ask("florin_fault", {"kind": "answer", **silent})
    answer = await desk.ask("GET", path, till.tenant.headers)
    await desk.chain.ask("florin_fault", {"kind": "clear"})
    assert answer.told == (503, "internal_error")
    assert (await desk.ask("GET", path, till.tenant.headers)).status == 200
