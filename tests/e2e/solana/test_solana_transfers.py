"""Payments by links of Solana Pay with which a wallet makes the transfer itself."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio
from florin.v1 import held_pb2
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from solders.pubkey import Pubkey

from tests.support.javascript import run_script
from tests.support.operator import ask, block, check_ledger, list_entries
from tests.support.receipts import ReceiptVerifier, get_outcomes, get_receipt
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import ASSETS, COIN, INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_accounts import register_destination
from tests.support.solana_coin import GBP, LAMPORTS
from tests.support.solana_offers import make_offer
from tests.support.solana_pay import (
    ORDER,
    PRICE,
    fetch_transaction,
    find_address,
    fund,
    give_coin,
    let_time_pass,
    list_legacy_instructions,
    make_linked_transfer,
    make_transfer,
    name_address,
    open_link,
    read_link,
    send_instructions,
    wait_status,
)
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAIN = SOLANA_DEVNET.chain_id
RATES = {COIN: {"GBP": "120.00"}}

WALLET = """
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const need = createRequire(process.cwd() + '/package.json');
const { parseURL, createTransfer, findReference, validateTransfer } = need('@solana/pay');
const { Connection, Keypair } = need('@solana/web3.js');
const { secret, rpc, url } = JSON.parse(readFileSync(0, 'utf8'));
const wallet = Keypair.fromSecretKey(Uint8Array.from(secret));
const connection = new Connection(rpc, 'finalized');
const { recipient, amount, splToken, reference, label } = parseURL(url);
const fields = { recipient, amount, splToken, reference };
const transaction = await createTransfer(connection, wallet.publicKey, fields);
transaction.feePayer = wallet.publicKey;
transaction.recentBlockhash = (await connection.getLatestBlockhash()).blockhash;
transaction.sign(wallet);
const signature = await connection.sendRawTransaction(transaction.serialize());
console.log(JSON.stringify({ signature, label, amount: amount.toString() }));
process.exit(0);
"""


async def open_accounts(service: ServiceHarness) -> None:
    """Open the merchant's accounts, by the first payments on Solana."""
    for token in range(2):
        offer = await make_offer(service.rest, SolanaTestWallet(), token)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def service(tmp_path_factory):
    home = tmp_path_factory.mktemp("solana_transfers") / "home"
    async with open_service(home, solana=INSTANT_SOLANA, rates=RATES) as service:
        await open_accounts(service)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        answer = await open_link(service, payment_id)
        assert answer.refusal == (400, "invalid_state")
        assert "holds no coin" in answer.text
        await give_coin(service)
        yield service


@pytest.fixture
def node(service: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


@pytest_asyncio.fixture(loop_scope="module")
async def wallet(node) -> SolanaTestWallet:
    wallet = SolanaTestWallet()
    await fund(node, wallet)
    return wallet


@pytest.fixture
def merchant(service: ServiceHarness) -> str:
    return service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]


async def create_link(service, **order):
    payment_id = (await service.rest.create({**ORDER, **order}))["paymentId"]
    link = await open_link(service, payment_id)
    assert link.status == 200, link.text
    return payment_id, link


async def status_of(service, payment_id: str) -> str:
    return str((await service.rest.status(payment_id))["status"])


async def list_deposits(service, payment_id: str) -> list[tuple[str, int, str]]:
    """Return what the merchant got by a payment's link: asset, minor units, bare sender."""
    detail = await service.rest.detail(payment_id)
    return [
        (item["asset"], int(item["amount"]), item["sender"].rpartition(":")[2])
        for item in detail.get("deposits", [])
    ]


async def test_unmodified_solana_pay_makes_the_transfer_of_a_link(service, node, wallet, merchant):
    held = await node.balance(wallet.address)
    before = await node.balance(merchant)
    payment_id, link = await create_link(service)
    assert link.headers["Access-Control-Allow-Origin"] == "*"
    secret, rpc = list(bytes(wallet.key)), service.env["FLORIN_SOLANA_RPC_URL"]
    content = {"secret": secret, "rpc": rpc, "url": link.body["url"]}
    result = await asyncio.to_thread(run_script, WALLET, content)
    detail = await wait_status(service, node, payment_id, "succeeded")
    assert result["label"] == detail["merchant"]["name"]
    assert result["amount"] == "12.5"
    assert detail["info"]["txId"] == result["signature"]
    assert detail["buyer"]["accountCaip10"] == wallet.account
    assert await list_deposits(service, payment_id) == [(ASSETS[0], PRICE, wallet.address)]
    assert await node.balance(wallet.address) == held - PRICE
    assert await node.balance(merchant) == before + PRICE
    await check_ledger(service)


async def test_link_names_recipient_amount_token_and_reference(service, merchant):
    payment_id, link = await create_link(service)
    recipient, query = read_link(link.body["url"])
    detail = await service.rest.detail(payment_id)
    assert recipient == merchant
    assert query == {
        "amount": "12.5",
        "spl-token": SOLANA_DEVNET.tokens[0].address,
        "reference": str(await find_address(service, payment_id)),
        "label": detail["merchant"]["name"],
    }
    assert link.body["asset"] == ASSETS[0]
    assert link.body["amount"]["value"] == str(PRICE)
    assert link.body["expiresAt"] == detail["expiresAt"]
    again = await open_link(service, payment_id, ASSETS[0])
    assert again.body == link.body


async def test_transfer_of_coin_at_a_rate_pays(service, node, wallet, merchant):
    tenant = await service.tenant()
    await register_destination(service, tenant, merchant, COIN)
    created = await service.rest.call("POST", "/v1/payments", tenant.headers, {"amount": GBP})
    payment_id = created["paymentId"]
    link = await open_link(service, payment_id, COIN)
    recipient, query = read_link(link.body["url"])
    assert "spl-token" not in query
    transfer = spl.transfer_coin(
        wallet.key.pubkey(), Pubkey.from_string(recipient), int(link.body["amount"]["value"])
    )
    assert int(link.body["amount"]["value"]) == LAMPORTS
    reference = Pubkey.from_string(query["reference"])
    await send_instructions(node, wallet, [name_address(transfer, reference)])

    async def read() -> str:
        path = f"/v1/payments/{payment_id}"
        return str((await service.rest.call("GET", path, tenant.headers))["status"])

    await wait_until(
        read, "succeeded", meanwhile=lambda: let_time_pass(service, node, 1), patience_s=30
    )


async def test_transfer_at_a_renewed_quote_of_the_same_price_pays(service, node, wallet, merchant):
    tenant = await service.tenant()
    await register_destination(service, tenant, merchant, COIN)
    order = {"amount": GBP, "expiresAt": service.now + 7_200}
    created = await service.rest.call("POST", "/v1/payments", tenant.headers, order)
    payment_id = created["paymentId"]
    link = await open_link(service, payment_id, COIN)
    for _ in range(6):
        service.clock.advance(link.body["expiresAt"] - service.now + 1)
        await let_time_pass(service, node, 1)
        link = await open_link(service, payment_id, COIN)
    recipient, query = read_link(link.body["url"])
    assert int(link.body["amount"]["value"]) == LAMPORTS
    transfer = spl.transfer_coin(wallet.key.pubkey(), Pubkey.from_string(recipient), LAMPORTS)
    named = name_address(transfer, Pubkey.from_string(query["reference"]))
    await send_instructions(node, wallet, [named])

    async def read() -> str:
        path = f"/v1/payments/{payment_id}"
        return str((await service.rest.call("GET", path, tenant.headers))["status"])

    await wait_until(read, "succeeded", meanwhile=lambda: let_time_pass(service, node, 1))


@pytest.mark.parametrize("difference", [-1, 1])
async def test_other_amount_pays_nothing_and_is_shown(service, node, wallet, difference):
    payment_id, link = await create_link(service)
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link, difference)])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"
    arrived = [(ASSETS[0], PRICE + difference, wallet.address)]
    assert await list_deposits(service, payment_id) == arrived
    # the whole amount still pays
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
    await wait_status(service, node, payment_id, "succeeded")
    assert len(await list_deposits(service, payment_id)) == 2


async def test_other_token_pays_nothing_and_is_shown(service, node, wallet, merchant):
    payment_id, link = await create_link(service)
    reference = Pubkey.from_string(link.body["reference"])
    transfer = name_address(make_transfer(wallet, merchant, PRICE, token=1), reference)
    await send_instructions(node, wallet, [transfer])
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "requires_action"
    assert await list_deposits(service, payment_id) == [(ASSETS[1], PRICE, wallet.address)]


async def test_one_transfer_never_pays_two_payments(service, node, wallet, merchant):
    first_id, first = await create_link(service)
    second_id, second = await create_link(service)
    transfer = make_linked_transfer(wallet, first)
    both = name_address(transfer, Pubkey.from_string(second.body["reference"]))
    await send_instructions(node, wallet, [both])
    await let_time_pass(service, node)
    assert await status_of(service, first_id) == await status_of(service, second_id)
    assert await status_of(service, first_id) == "requires_action"
    # a note that names the second does not make the first one's transfer pay it
    other = spl.transfer_coin(wallet.key.pubkey(), wallet.key.pubkey(), 1)
    named = name_address(other, Pubkey.from_string(second.body["reference"]))
    await send_instructions(node, wallet, [transfer, named])
    await wait_status(service, node, first_id, "succeeded")
    await let_time_pass(service, node)
    assert await status_of(service, second_id) == "requires_action"


async def test_transaction_of_a_request_does_not_pay_a_link_too(service, node, wallet):
    requested_id = (await service.rest.create(ORDER))["paymentId"]
    linked_id, link = await create_link(service)
    message = (await fetch_transaction(service, requested_id, wallet)).message
    memo, _ = list_legacy_instructions(message)
    coin = spl.transfer_coin(wallet.key.pubkey(), wallet.key.pubkey(), 1)
    named = name_address(coin, await find_address(service, requested_id))
    steps = [memo, named, make_linked_transfer(wallet, link)]
    await send_instructions(node, wallet, steps)
    await wait_status(service, node, requested_id, "succeeded")
    await let_time_pass(service, node)
    assert await status_of(service, linked_id) == "requires_action"


async def test_transfer_after_the_end_pays_nothing_and_is_shown(service, node, wallet):
    payment_id, link = await create_link(service, expiresAt=service.now + 100)
    service.clock.advance(101)
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
    service.clock.advance(130)
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "expired"
    assert await list_deposits(service, payment_id) == [(ASSETS[0], PRICE, wallet.address)]
    assert list_returns(service, payment_id) == [("return", wallet.account)]


async def test_transfer_that_nothing_watched_for_is_found_a_day_later(service, node, wallet):
    payment_id, link = await create_link(service, expiresAt=service.now + 100)
    service.clock.advance(100 + 3600 + 61)
    await let_time_pass(service, node)
    watched = "SELECT 1 FROM watched_address WHERE payment_id = ?"
    assert service.select(watched, payment_id) == []
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
    service.clock.advance(3600)
    await let_time_pass(service, node)
    assert await list_deposits(service, payment_id) == []
    service.clock.advance(86_400)
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "expired"
    assert await list_deposits(service, payment_id) == [(ASSETS[0], PRICE, wallet.address)]
    assert list_returns(service, payment_id) == [("return", wallet.account)]
    # the next looks find the same transfer
    service.clock.advance(86_400)
    await let_time_pass(service, node)
    assert list_returns(service, payment_id) == [("return", wallet.account)]
    await check_ledger(service)


def list_returns(service, payment_id: str) -> list[tuple[str, str]]:
    query = "SELECT kind, account FROM payout WHERE payment_id = ?"
    return service.select(query, payment_id)


async def test_second_transfer_is_shown_and_that_of_another_account_returned(service, node, wallet):
    payment_id, link = await create_link(service)
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
    await wait_status(service, node, payment_id, "succeeded")
    other = SolanaTestWallet()
    await fund(node, other)
    await send_instructions(node, other, [make_linked_transfer(other, link)])
    # another transaction than the first
    again = [spl.create_memo("again"), make_linked_transfer(wallet, link)]
    await send_instructions(node, wallet, again)
    service.clock.advance(130)
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "succeeded"
    senders = [sender for _, _, sender in await list_deposits(service, payment_id)]
    assert sorted(senders) == sorted([wallet.address, wallet.address, other.address])
    assert list_returns(service, payment_id) == [("return", other.account)]


async def test_transfer_of_a_blocked_account_is_held(service, node):
    payment_id, link = await create_link(service)
    sender = SolanaTestWallet()
    await fund(node, sender)
    await block(service, sender.address)
    await send_instructions(node, sender, [make_linked_transfer(sender, link)])
    await wait_status(service, node, payment_id, "processing")
    await let_time_pass(service, node)
    assert await status_of(service, payment_id) == "processing"
    held = service.select("SELECT payer FROM held_money WHERE payment_id = ?", payment_id)
    assert held == [(sender.account,)]


async def test_transfer_before_a_restart_pays_after_it(tmp_path):
    home, wallet = tmp_path / "home", SolanaTestWallet()
    async with open_service(home, solana=INSTANT_SOLANA) as service:
        await open_accounts(service)
        await give_coin(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        await fund(node, wallet)
        payment_id, link = await create_link(service)
        signature = await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
        assert await status_of(service, payment_id) == "requires_action"
    async with open_service(home, solana=INSTANT_SOLANA) as service:
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        detail = await wait_status(service, node, payment_id, "succeeded")
        assert detail["info"]["txId"] == signature


async def test_spam_on_the_reference_hides_no_transfer(service, node, wallet, merchant):
    payment_id, link = await create_link(service)
    spammer = SolanaTestWallet()
    await fund(node, spammer)
    reference = Pubkey.from_string(link.body["reference"])
    for amount in range(1, 61):
        dust = name_address(make_transfer(spammer, merchant, amount), reference)
        await send_instructions(node, spammer, [dust])
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
    for amount in range(61, 121):
        dust = name_address(make_transfer(spammer, merchant, amount), reference)
        await send_instructions(node, spammer, [dust])
    await wait_status(service, node, payment_id, "succeeded")
    await let_time_pass(service, node)
    deposits = await list_deposits(service, payment_id)
    assert (ASSETS[0], PRICE, wallet.address) in deposits
    # what pays nothing is shown up to a bound
    assert len(deposits) <= 21


async def test_third_parties_verify_the_receipt(service, node, wallet, forks, tmp_path):
    payment_id, link = await create_link(service)
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
    await wait_status(service, node, payment_id, "succeeded")
    receipt = await get_receipt(service, payment_id)
    verifier = ReceiptVerifier(forks, tmp_path, service.env["FLORIN_SOLANA_RPC_URL"])
    options = ["--jwks", str(await verifier.keys_of(service))]
    status, result = await verifier.run(receipt, *options)
    assert status == 0, result
    assert set(get_outcomes(result).values()) == {"passed"}


@pytest.mark.parametrize("fees", [{"fee_basis_points": 100}, {"fee_fixed": 7}])
async def test_payment_with_a_fee_has_no_link(tmp_path, fees):
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA, **fees) as service:
        await open_accounts(service)
        await give_coin(service)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        assert (await open_link(service, payment_id)).refusal == (400, "invalid_state")


async def list_postings(service: ServiceHarness, payment_id: str) -> set[tuple[str, str, str]]:
    """Return the kind of the debited account, the credited account, and the amount."""
    entries = await list_entries(service, payment_id)
    return {(entry.debit.partition(":")[0], entry.credit, entry.amount) for entry in entries}


def list_held_ids(service: ServiceHarness, payment_id: str) -> list[str]:
    query = "SELECT id FROM held_money WHERE payment_id = ?"
    return [held_id for (held_id,) in service.select(query, payment_id)]


async def test_merchant_owes_the_fee_of_a_transfer(tmp_path):
    fees = {"fee_fixed": 70_000, "fee_basis_points": 100, "owed_fees": True}
    owed = 70_000 + PRICE // 100
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA, **fees) as service:
        await open_accounts(service)
        await give_coin(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        merchant = service.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
        wallet = SolanaTestWallet()
        await fund(node, wallet)
        before = await node.balance(merchant)
        payment_id, link = await create_link(service)
        assert read_link(link.body["url"])[1]["amount"] == "12.5"
        await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
        await wait_status(service, node, payment_id, "succeeded")
        # the merchant got all of it
        assert await node.balance(merchant) == before + PRICE
        entries = {
            ("external", f"external:{CHAIN}:{wallet.address}", str(PRICE)),
            ("merchant", "income:fee", str(owed)),
        }
        assert await list_postings(service, payment_id) == entries
        rows = (await service.rest.call("GET", "/v1/payments", service.rest.merchant))["data"]
        (row,) = [row for row in rows if row["paymentId"] == payment_id]
        assert (row["fees"]["total"]["value"], row["fees"]["percentage"]) == (str(owed), "1")
        assert row["settlement"]["amount"]["value"] == str(PRICE)
        # money of a blocked account is a payment, with its fee, once the operator releases it
        await block(service, wallet.address)
        payment_id, link = await create_link(service)
        await send_instructions(node, wallet, [make_linked_transfer(wallet, link)])
        await wait_status(service, node, payment_id, "processing")
        await wait_until(lambda: list_held_ids(service, payment_id))
        (held_id,) = list_held_ids(service, payment_id)
        verdict = held_pb2.ResolveHeldPaymentRequest(
            held_id=held_id, verdict=held_pb2.HELD_PAYMENT_VERDICT_RELEASE, note="checked"
        )
        await ask(service, "ResolveHeldPayment", verdict)
        assert await status_of(service, payment_id) == "succeeded"
        assert await list_postings(service, payment_id) == entries
        await check_ledger(service)


async def test_asset_that_the_payment_does_not_accept_has_no_link(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    answer = await open_link(service, payment_id, "solana:x/token:y")
    assert answer.refusal == (400, "invalid_state")
    assert (await open_link(service, payment_id, 5)).refusal == (400, "params_validation")


async def post_form(service, payment_id: str, asset: str):
    """Press the button of an asset on the page; return the answer without following it."""
    url = f"{service.rest.base}/{payment_id}/transfers"
    form = {"asset": asset}
    headers = {"Origin": service.rest.base, "Sec-Fetch-Site": "same-origin"}
    async with service.session.post(
        url, data=form, headers=headers, allow_redirects=False
    ) as answer:
        return answer.status, answer.headers.get("Location", ""), await answer.text()


async def test_page_shows_the_link_and_what_came_wrongly(service, node, wallet):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    html = {"Accept": "text/html"}
    page = await service.ask("GET", f"/{payment_id}", html)
    assert f'action="/{payment_id}/transfers"' in page.text
    assert "spl-token" not in page.text
    status, location, _ = await post_form(service, payment_id, ASSETS[0])
    assert status == 303
    assert location.endswith("#solana")
    page = await service.ask("GET", location.partition("#")[0], html)
    link = await open_link(service, payment_id)
    assert link.body["url"].replace("&", "&amp;") in page.text
    assert "Send exactly" in page.text
    assert "which is not the price" not in page.text
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link, -1)])
    await let_time_pass(service, node)
    page = await service.ask("GET", f"/{payment_id}", html)
    assert "which is not the price" in page.text
    assert "12.499999" in page.text


async def test_page_refuses_an_asset_without_a_link(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    status, _, text = await post_form(service, payment_id, "solana:x/token:y")
    assert status == 200
    assert "There is no address for this at the moment" in text


async def test_command_lists_what_came_by_a_link(service, node, wallet, forks, tmp_path):
    payment_id, link = await create_link(service)
    await send_instructions(node, wallet, [make_linked_transfer(wallet, link, -1)])
    await let_time_pass(service, node)
    words = ("addresses", "list", payment_id, "--server", service.env["FLORIN_GRPC_TARGET"])
    keys = {name: service.env[name] for name in ("FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID")}
    done = await asyncio.to_thread(forks, *words, home=tmp_path / "other", **keys)
    assert done.status == 0, done.err
    assert wallet.address in done.out
    assert str(PRICE - 1) in done.out
