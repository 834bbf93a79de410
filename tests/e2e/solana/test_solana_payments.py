"""Payments on Solana from the first call to the money on chain, over REST.

The chain gives each transaction a slot of its own and makes it final with the next.
"""

from __future__ import annotations

import asyncio
import base64

import aiohttp
import pytest
import pytest_asyncio
from florin.v1 import ledger_pb2
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.domain.ledger import accounts
from florin_server.settings import EmbeddedSolanaSettings
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from tests.support.api import RestApi
from tests.support.installation import open_operator
from tests.support.operator import check_ledger, get_balance, get_relayer, get_treasury
from tests.support.service import run_service
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import (
    ASSETS,
    COIN,
    INSTANT_SOLANA,
    SolanaNodeClient,
    SolanaTestWallet,
    encode_transaction,
    get_transaction,
    list_instructions,
    make_time_step,
    rebuild_transaction,
)
from tests.support.solana_offers import ORDER, PRICE, SolanaOffer, get_refusal, make_offer
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(
        tmp_path_factory.mktemp("solana") / "home", solana=INSTANT_SOLANA
    ) as desk:
        yield desk


@pytest.fixture
def node(desk: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


@pytest.fixture
def wallet() -> SolanaTestWallet:
    return SolanaTestWallet()


# ---- money arrives


@pytest.mark.parametrize("token", [0, 1])
async def test_a_wallet_that_signs_has_paid_the_merchant(desk, node, wallet, token):
    merchant = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    before = await node.balance(merchant, token)
    offer = await make_offer(desk.rest, wallet, token)
    assert offer.option["amount"]["value"] == str(PRICE)
    coin, tokens = await node.coin(wallet.address), await node.balance(wallet.address, token)
    confirmed = await offer.confirm()
    assert confirmed["status"] == "processing"
    ended = await offer.final()
    assert ended["status"] == "succeeded"
    signature = ended["info"]["txId"]
    status = (await node.ask("getSignatureStatuses", [signature]))["value"][0]
    assert (status["err"], status["confirmationStatus"]) == (None, "finalized")
    assert await node.balance(merchant, token) == before + PRICE
    assert await node.balance(wallet.address, token) == tokens - PRICE
    # the buyer paid no fee
    assert await node.coin(wallet.address) == coin
    detail = await desk.rest.detail(offer.payment_id)
    assert detail["settlement"]["successful"]["txId"] == signature
    await check_ledger(desk)


async def test_the_relayers_cost_is_booked_to_the_lamport(desk, node, wallet):
    relayer = await get_relayer(desk, SOLANA_DEVNET.chain_id)
    before = await node.coin(relayer)

    async def expenses() -> int:
        kinds = (accounts.GAS, accounts.RENT)
        return sum([await get_balance(desk, kind, COIN) for kind in kinds])

    booked = await expenses()
    offer = await make_offer(desk.rest, wallet)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    spent = before - await node.coin(relayer)
    assert spent > 0
    assert await expenses() - booked == spent


async def test_a_merchant_without_a_destination_is_paid_to_the_treasury(desk, node, wallet):
    tenant = await desk.tenant()
    treasury = await get_treasury(desk, SOLANA_DEVNET.chain_id)
    before = await node.balance(treasury, 1)
    offer = await make_offer(desk.rest, wallet, 1, tenant.headers)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.balance(treasury, 1) == before + PRICE
    assert await get_balance(desk, f"merchant:{tenant.merchant.id}", ASSETS[1]) == -PRICE
    await check_ledger(desk)


@pytest.mark.parametrize("token", [0, 1])
async def test_a_fee_goes_to_the_operator_in_the_same_transaction(tmp_path, wallet, token):
    fees = {"fee_fixed": 7, "fee_basis_points": 100}
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA, **fees) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        merchant = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
        treasury = await get_treasury(desk, SOLANA_DEVNET.chain_id)
        held = await node.balance(treasury, token)
        offer = await make_offer(desk.rest, wallet, token)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        fee = 7 + PRICE // 100
        assert await node.balance(merchant, token) == PRICE - fee
        assert await node.balance(treasury, token) == held + fee
        assert await get_balance(desk, "income:fee", ASSETS[token]) == -fee
        await check_ledger(desk)


async def test_wallet_with_accounts_on_both_chains_gets_options_on_both(desk, wallet):
    created = await desk.rest.create(ORDER)
    accounts = [EvmTestWallet().account, wallet.account]
    options = (await desk.rest.options(created["paymentId"], accounts))["options"]
    assert [item["account"] for item in options] == [accounts[0], accounts[1], accounts[1]]
    kinds = [[action["type"] for action in item["actions"]] for item in options]
    assert kinds == [["walletRpc"], ["build"], ["build"]]


async def test_accounts_that_cannot_pay_get_no_option(desk):
    created = await desk.rest.create(ORDER)
    relayer = await get_relayer(desk, SOLANA_DEVNET.chain_id)
    mint = SOLANA_DEVNET.tokens[0].address
    off_curve = spl.derive_associated_address(Keypair().pubkey(), spl.parse_pubkey(mint), spl.TOKEN)
    accounts = [
        f"{SOLANA_DEVNET.chain_id}:{relayer}",
        f"{SOLANA_DEVNET.chain_id}:{off_curve}",
        f"{SOLANA_DEVNET.chain_id}:nonsense",
        f"{SOLANA_DEVNET.chain_id}:0x1234",
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:" + str(Keypair().pubkey()),
    ]
    assert (await desk.rest.options(created["paymentId"], accounts))["options"] == []


# ---- fetching and confirming again


async def test_fetching_again_gives_the_same_transaction_until_it_grows_old(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    first = offer.action
    assert await offer.fetch() == first
    await node.fault("slots", slots=80)
    second = await offer.fetch()
    assert second != first
    blockhashes = {get_transaction(item).message.recent_blockhash for item in (first, second)}
    assert len(blockhashes) == 2
    # the older one is valid as long as the chain accepts it
    confirmed = await offer.confirm(wallet.execute(first))
    assert confirmed["status"] == "processing"
    assert (await offer.final())["status"] == "succeeded"


async def test_a_transaction_that_lapsed_is_fetched_anew(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    late = offer.output
    await node.fault("slots", slots=151)
    error = await get_refusal(offer.confirm(late))
    assert (error.http, error.code) == (409, "quote_expired")
    assert (await offer.status())["status"] == "requires_action"
    await offer.fetch()
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_confirming_again_is_a_poll(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    output = offer.output
    await offer.confirm(output)
    ended = await offer.final()
    again = await offer.confirm(output)
    assert (again["status"], again["info"]) == ("succeeded", ended["info"])
    other = await get_refusal(offer.confirm(wire_of(bytes(100))))
    assert (other.http, other.code) == (409, "idempotency_conflict")


async def test_a_transaction_in_an_object_is_taken_too(desk, wallet):
    offer = await make_offer(desk.rest, wallet)
    await offer.confirm({"transaction": offer.output})
    assert (await offer.final())["status"] == "succeeded"


async def test_a_wallet_may_raise_the_compute_price(desk, wallet):
    offer = await make_offer(desk.rest, wallet)
    message = get_transaction(offer.action).message
    own = list_instructions(message)
    own[1] = set_compute_unit_price(100_000)
    await offer.confirm(wallet.sign(rebuild_transaction(message, own)))
    assert (await offer.final())["status"] == "succeeded"


# ---- confirms that do not pay


async def test_a_build_that_was_never_fetched_is_not_confirmed(desk, wallet):
    created = await desk.rest.create(ORDER)
    option = (await desk.rest.options(created["paymentId"], [wallet.account]))["options"][0]
    error = await get_refusal(desk.rest.confirm(created["paymentId"], option["id"], ["AA" * 60]))
    assert (error.http, error.code) == (400, "invalid_params")


async def test_another_number_or_kind_of_results_fails_the_payment(desk, wallet):
    for outputs in (["0x" + "ab" * 65], ["0x" + "ab" * 32], []):
        offer = await make_offer(desk.rest, wallet)
        body = {
            "optionId": offer.option["id"],
            "results": [{"type": "walletRpc", "data": outputs}],
        }
        path = f"/v1/gateway/payment/{offer.payment_id}/confirm"
        result = await desk.rest.call("POST", path, desk.rest.wallet, body)
        assert (result["status"], result["isFinal"]) == ("failed", True)


async def test_a_blocked_payer_is_declined(tmp_path, wallet):
    home = tmp_path / "home"
    async with open_service(home, solana=INSTANT_SOLANA) as desk:
        offer = await make_offer(desk.rest, wallet)
    async with open_service(
        home, solana=INSTANT_SOLANA, blocked_accounts=(wallet.account,)
    ) as desk:
        offer.api = desk.rest
        result = await offer.confirm()
        assert (result["status"], result["failureCode"]) == ("failed", "declined_user")


@pytest.mark.parametrize(
    ("reason", "tamper"),
    [
        ("unreadable_output", lambda o: "!" * 100),
        ("unreadable_output", lambda o: base64.b64encode(bytes(80)).decode()),
        ("unreadable_output", lambda o: base64.b64encode(bytes(1300)).decode()),
        ("unreadable_output", lambda o: {"signed": o.output}),
        ("unreadable_output", lambda o: wire_of(raw(o.output) + b"\0")),
        ("signature_mismatch", lambda o: wire_of(flipped(raw(o.output), 1 + 64 + 9))),
        ("signature_mismatch", lambda o: encode_transaction(get_transaction(o.action))),
        ("transaction_mismatch", lambda o: stranger_signs(o, SolanaTestWallet())),
        ("transaction_mismatch", lambda o: o.wallet.sign(changed(o, -2, amount=1))),
        ("transaction_mismatch", lambda o: o.wallet.sign(without_memo(o))),
        ("transaction_mismatch", lambda o: o.wallet.sign(with_price(o, 5_000_001))),
        ("transaction_mismatch", lambda o: o.wallet.sign(with_coin_for_buyer(o))),
        ("transaction_mismatch", lambda o: o.wallet.sign(with_other_hash(o))),
    ],
)
async def test_output_that_was_not_issued_is_refused_without_loss(
    desk, node, wallet, reason, tamper
):
    offer = await make_offer(desk.rest, wallet)
    tokens = await node.balance(wallet.address)
    error = await get_refusal(offer.confirm(tamper(offer)))
    assert (error.http, error.code, error.details["reason"]) == (400, "invalid_params", reason)
    assert (await offer.status())["status"] == "requires_action"
    assert await node.balance(wallet.address) == tokens
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_a_signature_by_the_relayers_place_is_not_the_payers(desk, wallet):
    offer = await make_offer(desk.rest, wallet)
    message = get_transaction(offer.action).message
    own = wallet.key.sign_message(bytes(message))
    swapped = VersionedTransaction.populate(message, [own, Signature.default()])
    error = await get_refusal(offer.confirm(encode_transaction(swapped)))
    assert error.details["reason"] == "signature_mismatch"


async def test_money_spent_meanwhile_is_missed(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    output = offer.output
    held = await node.balance(wallet.address)
    await node.spend(wallet, held - PRICE + 1)
    error = await get_refusal(offer.confirm(output))
    assert (error.http, error.details["reason"]) == (400, "insufficient_funds")
    assert (await offer.status())["status"] == "requires_action"


def raw(output: str) -> bytes:
    return base64.b64decode(output)


def wire_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def own_steps(offer: SolanaOffer):
    message = get_transaction(offer.action).message
    return message, list_instructions(message)


def changed(offer: SolanaOffer, index: int, *, amount: int) -> VersionedTransaction:
    message, own = own_steps(offer)
    item = own[index]
    data = bytes(item.data)[:1] + amount.to_bytes(8, "little") + bytes(item.data)[9:]
    own[index] = type(item)(item.program_id, data, item.accounts)
    return rebuild_transaction(message, own)


def without_memo(offer: SolanaOffer) -> VersionedTransaction:
    message, own = own_steps(offer)
    return rebuild_transaction(message, own[:-1])


def with_price(offer: SolanaOffer, price: int) -> VersionedTransaction:
    message, own = own_steps(offer)
    own[1] = set_compute_unit_price(price)
    return rebuild_transaction(message, own)


def with_coin_for_buyer(offer: SolanaOffer) -> VersionedTransaction:
    message, own = own_steps(offer)
    gift = TransferParams(
        from_pubkey=message.account_keys[0], to_pubkey=offer.wallet.key.pubkey(), lamports=1
    )
    return rebuild_transaction(message, [*own, transfer(gift)])


def with_other_hash(offer: SolanaOffer) -> VersionedTransaction:
    message, own = own_steps(offer)
    message_v0 = MessageV0.try_compile(message.account_keys[0], own, [], Hash.new_unique())
    return VersionedTransaction.populate(message_v0, [Signature.default()] * 2)


def stranger_signs(offer: SolanaOffer, stranger: SolanaTestWallet) -> str:
    """Return the same transfer by a stranger, in the payer's place."""
    message, own = own_steps(offer)
    payer = offer.wallet.key.pubkey()
    for place, item in enumerate(own):
        accounts = [
            AccountMeta(stranger.key.pubkey(), meta.is_signer, meta.is_writable)
            if meta.pubkey == payer
            else meta
            for meta in item.accounts
        ]
        own[place] = type(item)(item.program_id, bytes(item.data), accounts)
    return stranger.sign(rebuild_transaction(message, own))


# ---- faults


async def test_a_broadcast_that_was_dropped_is_repeated(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    await node.fault("answer", method="sendTransaction", effect="drop", times=2)
    await offer.confirm()
    watching = asyncio.create_task(offer.final())
    await wait_until(watching.done, meanwhile=lambda: node.fault("slots", slots=2))
    assert (await watching)["status"] == "succeeded"


async def test_transaction_lapsed_before_landing_fails_its_payment(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await offer.confirm()
    watching = asyncio.create_task(offer.final())
    # the blockhash that the buyer signed is valid for 150 blocks
    move = make_time_step(desk, node, slots=40)
    await wait_until(watching.done, meanwhile=move)
    assert (await watching)["status"] == "failed"
    (result,) = desk.select("SELECT failure_detail FROM payment WHERE id = ?", offer.payment_id)
    assert result == ("The transaction lapsed before it landed",)
    await wait_until(lambda: not desk.select("SELECT 1 FROM chain_tx WHERE state = 'sent'"))
    await node.fault("clear")
    assert await node.balance(wallet.address) == 10_000 * 10**6
    await check_ledger(desk)


async def test_a_service_that_restarts_in_the_middle_settles_once(tmp_path, wallet):
    solana = EmbeddedSolanaSettings(slot_s=0, finalized_slots=20)
    home = tmp_path / "home"
    async with run_service(home, solana=solana) as service, aiohttp.ClientSession() as session:
        env = service.home.read_demo_env()
        node = SolanaNodeClient(session, env["FLORIN_SOLANA_RPC_URL"])
        offer = await make_offer(RestApi(session, env["FLORIN_BASE_URL"], env), wallet)
        await node.fault("landing", paused=True)
        assert (await offer.confirm())["status"] == "processing"
    async with run_service(home, solana=solana) as service, aiohttp.ClientSession() as session:
        env = service.home.read_demo_env()
        node = SolanaNodeClient(session, env["FLORIN_SOLANA_RPC_URL"])
        offer.api = RestApi(session, env["FLORIN_BASE_URL"], env)
        assert (await offer.status())["status"] == "processing"
        watching = asyncio.create_task(offer.final())
        await wait_until(watching.done, meanwhile=lambda: node.fault("slots", slots=1))
        assert (await watching)["status"] == "succeeded"
        merchant = env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
        assert await node.balance(merchant) == PRICE
        signatures = await node.ask("getSignaturesForAddress", wallet.address)
        assert sum("faucet" not in (signature["memo"] or "") for signature in signatures) == 1
        async with open_operator(service) as operator:
            answer = await operator.call("CheckLedger", ledger_pb2.CheckLedgerRequest())
        assert list(answer.problems) == []
