"""The books and the chains agree to the unit, and each difference is reported as what it is."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import ledger_pb2, payout_pb2, system_pb2
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.cli.payments import ledger as command
from florin_server.domain.ledger import accounts
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.service import books
from florin_server.money.ledger.service.books import ReconciliationStatus
from florin_server.money.ledger.store import ledger

from tests.support.api import ApiCallError
from tests.support.books import SETTINGS, get_balance, get_treasury, wait_exact
from tests.support.installation import open_operator
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    ETHER,
    EUR,
    FEE,
    GBP,
    PRICE,
    USD,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import make_offer
from tests.support.until import wait_until
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOLLARS = f"{CHAIN}/erc20:{DOLLAR}"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("books") / "home", **SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> PayoutMerchant:
    return PayoutMerchant(desk, await desk.tenant())


async def line_of(desk: ServiceHarness, account: str, asset: str) -> books.ReconciliationLine:
    reconciliation = await books.reconcile(desk.service.app)
    (line,) = [
        each_line for each_line in reconciliation.lines if each_line.wallet == (account, asset)
    ]
    return line


async def sold_on_solana(desk: ServiceHarness, token: int, headers: Any = None) -> str:
    offer = await make_offer(desk.rest, SolanaTestWallet(), token, headers)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    return offer.payment_id


async def test_books_open_with_the_holdings_of_the_wallets(desk):
    await wait_exact(desk)
    relayer = f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"
    for account, asset in ((relayer, ETHER), (get_treasury(desk), DOLLARS)):
        line = await line_of(desk, account, asset)
        assert line.has_opening_balance
        assert line.booked_balance == line.chain_balance > 0


async def test_every_way_to_pay_and_to_pay_back_is_booked_to_the_unit(desk, shop):
    await wait_exact(desk)
    own = PayoutMerchant(desk, await desk.tenant())
    for asset in (f"erc20:{DOLLAR}", f"erc20:{DEVNET.euro.address}", "slip44:60"):
        await own.set_destination(asset, "0x" + "5a" * 20)
    mute = EvmTestWallet()
    await wait_faucet_booked(desk, mute)
    await mute.delegate(desk.chain, NON_SIGNING_ADDRESS)
    paid = []
    for item in (shop, own):
        for amount in (USD, EUR, GBP):
            payment_id = await item.create_paid_payment(EvmTestWallet(), amount)
            # the treasury has euros only from payments
            if amount is not EUR or item is shop:
                paid.append((item, payment_id))
        paid.append((item, await item.create_paid_payment(mute, USD)))
    paid += [(shop, await sold_on_solana(desk, token, shop.tenant.headers)) for token in (0, 1)]
    # the demo's merchant has a destination of its own there
    for token in (0, 1):
        await sold_on_solana(desk, token)
    await wait_exact(desk)
    first, *more = paid
    await refunded_in_parts(desk, *first)
    for item, payment_id in more:
        await item.refund(payment_id)
    await wait_exact(desk)
    await shop.create_paid_payment(EvmTestWallet(), USD)
    await shop.create_paid_payment(EvmTestWallet(), USD)
    await shop.set_destination(f"erc20:{DOLLAR}", "0x" + "5b" * 20)
    async with open_operator(desk.service) as operator:
        request = payout_pb2.CreatePayoutRequest(
            merchant_id=shop.tenant.merchant.id, asset=DOLLARS, amount="1000000"
        )
        await operator.call("CreatePayout", request)
    await wait_until(lambda: desk.chain.balance("0x" + "5b" * 20), 1_000_000)
    await wait_exact(desk)


async def refunded_in_parts(desk, shop, payment_id) -> None:
    """Refund a payment in two parts, each a book entry of its own."""
    headers = shop.tenant.headers
    for value in ("500", "750"):
        body = {"paymentId": payment_id, "amount": {"unit": "iso4217/USD", "value": value}}
        await desk.rest.call("POST", "/v1/refunds", headers, body)
    await desk.wait_refunded(payment_id, headers, every=True)
    path = f"/v1/payments/{payment_id}"
    parts = (await desk.rest.call("GET", path, headers))["refunds"]
    async with open_operator(desk.service) as operator:
        request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
        entries = (await operator.call("ListEntries", request)).entries
    # entries of one second are in the order of their names, which are random
    assert sorted(
        (entry.journal, entry.tx_id, entry.amount)
        for entry in entries
        if entry.journal.startswith("refund:")
    ) == sorted(
        (f"refund:{part['refundId']}", part["txId"], part["amount"]["value"]) for part in parts
    )


async def test_rent_on_solana_is_booked_apart_from_fees(desk, shop):
    rail = desk.service.app.rails[SOLANA_DEVNET.chain_id]
    await wait_exact(desk)
    node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    gas, rent, coin = (
        await get_balance(desk, "expense:gas", rail.native_asset),
        await get_balance(desk, "expense:rent", rail.native_asset),
        await node.coin(rail.senders[0]),
    )
    payment_id = await sold_on_solana(desk, 0, shop.tenant.headers)
    result = await node.ask(
        "getTransaction",
        (await desk.rest.status(payment_id))["info"]["txId"],
        {"maxSupportedTransactionVersion": 0},
    )
    await wait_exact(desk)
    fee = result["meta"]["fee"]
    assert await get_balance(desk, "expense:gas", rail.native_asset) == gas + fee
    spent = coin - await node.coin(rail.senders[0])
    assert await get_balance(desk, "expense:rent", rail.native_asset) == rent + spent - fee


async def test_work_that_is_under_way_explains_a_difference(desk, shop):
    await wait_exact(desk)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    offer = await desk.offer(tenant=shop.tenant)
    await desk.confirm(offer)
    line = await line_of(desk, get_treasury(desk), DOLLARS)
    assert (line.status, line.incoming) == (ReconciliationStatus.EXACT, PRICE)
    assert not line.is_quiet
    async with open_operator(desk.service) as operator:
        request = ledger_pb2.BookDifferenceRequest(
            account=get_treasury(desk), asset=DOLLARS, note="too early"
        )
        with pytest.raises(ApiCallError) as caught:
            await operator.call("BookDifference", request)
        assert caught.value.code == "invalid_state"
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.mine()
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    await wait_exact(desk)


async def test_gift_is_unbooked_until_the_operator_books_it(desk):
    await wait_exact(desk)
    stranger, treasury = EvmTestWallet(), get_treasury(desk)
    before = await get_balance(desk, "external:operator", DOLLARS)
    await wait_faucet_booked(desk, stranger)
    data = "0xa9059cbb" + treasury.rpartition(":")[2][2:].rjust(64, "0") + f"{700:064x}"
    await stranger.transact(desk.chain, gas=100_000, to=bytes.fromhex(DOLLAR[2:]), data=data)
    line = await line_of(desk, treasury, DOLLARS)
    assert (line.status, line.difference) == (ReconciliationStatus.UNBOOKED, 700)
    async with open_operator(desk.service) as operator:
        assert (
            (await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest()))
            .chains[0]
            .healthy
        )
        request = ledger_pb2.BookDifferenceRequest(account=treasury, asset=DOLLARS, note="a gift")
        assert (await operator.call("BookDifference", request)).amount == "700"
        with pytest.raises(ApiCallError):
            await operator.call("BookDifference", request)
    assert await get_balance(desk, "external:operator", DOLLARS) == before - 700
    notes = desk.select("SELECT note FROM ledger_journal WHERE type = 'operator'")
    assert ("a gift",) in notes
    await wait_exact(desk)


async def test_money_that_a_merchant_paid_is_booked_on_its_balance(desk, shop):
    await wait_exact(desk)
    stranger, treasury, operator_id = EvmTestWallet(), get_treasury(desk), "external:operator"
    merchant_id = shop.tenant.merchant.id
    owed = await get_balance(desk, f"merchant:{merchant_id}", DOLLARS)
    before = await get_balance(desk, operator_id, DOLLARS)
    await wait_faucet_booked(desk, stranger)
    data = "0xa9059cbb" + treasury.rpartition(":")[2][2:].rjust(64, "0") + f"{300:064x}"
    await stranger.transact(desk.chain, gas=100_000, to=bytes.fromhex(DOLLAR[2:]), data=data)
    assert (await line_of(desk, treasury, DOLLARS)).difference == 300
    request = ledger_pb2.BookDifferenceRequest(account=treasury, asset=DOLLARS, note="fees of May")
    async with open_operator(desk.service) as operator:
        request.merchant_id = "mrch_unknown"
        with pytest.raises(ApiCallError) as caught:
            await operator.call("BookDifference", request)
        assert caught.value.code == "merchant_not_found"
        request.merchant_id = merchant_id
        assert (await operator.call("BookDifference", request)).amount == "300"
    assert await get_balance(desk, f"merchant:{merchant_id}", DOLLARS) == owed - 300
    assert await get_balance(desk, operator_id, DOLLARS) == before
    await wait_exact(desk)


async def test_money_that_is_gone_is_missing_and_alarms(desk, shop):
    await wait_exact(desk)
    thief = EvmTestWallet(key=desk.service.secrets.treasury_key)
    treasury = get_treasury(desk)
    data = "0xa9059cbb" + ("66" * 20).rjust(64, "0") + f"{5000:064x}"
    receipt = await thief.transact(desk.chain, gas=100_000, to=bytes.fromhex(DOLLAR[2:]), data=data)
    gas = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    for asset, lost in ((DOLLARS, 5000), (ETHER, gas)):
        line = await line_of(desk, treasury, asset)
        assert (line.status, line.difference) == (ReconciliationStatus.MISSING, -lost)

    async def is_reported() -> bool:
        async with open_operator(desk.service) as operator:
            status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        (chain,) = [each_chain for each_chain in status.chains if each_chain.chain_id == CHAIN]
        desk.clock.advance(400)
        return f"{treasury} holds 5000 minor units of {DOLLARS} less" in chain.problem

    await wait_until(is_reported, True)
    async with open_operator(desk.service) as operator:
        request = ledger_pb2.BookDifferenceRequest(
            account=treasury,
            asset=DOLLARS,
            note="a merchant took it",
            merchant_id=shop.tenant.merchant.id,
        )
        with pytest.raises(ApiCallError) as caught:
            await operator.call("BookDifference", request)
        assert caught.value.code == "invalid_state"
        for asset in (DOLLARS, ETHER):
            request = ledger_pb2.BookDifferenceRequest(
                account=treasury, asset=asset, note="stolen, written off"
            )
            assert (await operator.call("BookDifference", request)).amount.startswith("-")
    desk.clock.advance(400)
    await wait_exact(desk)


async def test_ledger_entries_of_a_payment_are_listed_for_the_operator(desk, shop):
    payment_id = await shop.create_paid_payment(EvmTestWallet(), USD)
    async with open_operator(desk.service) as operator:
        request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
        entries = (await operator.call("ListEntries", request)).entries
        balances = (await operator.call("ListBalances", ledger_pb2.ListBalancesRequest())).balances
    merchant = f"merchant:{shop.tenant.merchant.id}"
    assert [(item.debit, item.credit, item.amount) for item in entries] == [
        (f"wallet:{get_treasury(desk)}", merchant, str(PRICE - FEE)),
        (f"wallet:{get_treasury(desk)}", "income:fee", str(FEE)),
    ]
    assert {item.journal for item in entries} == {f"settle:{payment_id}"}
    (owed,) = [
        each_balance
        for each_balance in balances
        if (each_balance.account, each_balance.asset) == (merchant, DOLLARS)
    ]
    assert owed.amount == str(-(PRICE - FEE))
    sums: dict[str, int] = {}
    for balance in balances:
        sums[balance.asset] = sums.get(balance.asset, 0) + int(balance.amount)
    assert set(sums.values()) == {0}


async def test_balance_page_has_the_requested_size_and_at_most_1000_rows(desk, shop):
    await shop.create_paid_payment(EvmTestWallet(), USD)
    async with open_operator(desk.service) as operator:

        async def ask(**values: Any) -> ledger_pb2.ListBalancesResponse:
            return await operator.call("ListBalances", ledger_pb2.ListBalancesRequest(**values))

        response = await ask(limit=1000)
        assert await ask() == response
        assert len(response.balances) > 3
        assert not response.next_cursor
        rows, cursor = [], ""
        while True:
            page = await ask(limit=2, cursor=cursor)
            assert len(page.balances) <= 2
            rows += page.balances
            cursor = page.next_cursor
            if not cursor:
                break
        assert rows == list(response.balances)
        wallets = await ask(kind=ledger_pb2.ACCOUNT_KIND_WALLET)
        assert list(wallets.balances) == [row for row in rows if row.account.startswith("wallet:")]
        for limit in (0, -1, 1001, 2**31 - 1):
            with pytest.raises(ApiCallError) as excess:
                await ask(limit=limit)
            assert excess.value.code == "params_validation"
        other_list = (await ask(limit=1)).next_cursor
        for values in ({"cursor": "x"}, {"cursor": other_list, "kind": 1}):
            with pytest.raises(ApiCallError) as refusal:
                await ask(**values)
            assert refusal.value.code == "invalid_params"
        with pytest.raises(ApiCallError) as refusal:
            await ask(kind=99)
        assert refusal.value.code == "params_validation"


async def test_command_lists_the_balances_of_every_page(desk, shop, monkeypatch):
    monkeypatch.setattr(command, "PAGE", 2)
    async with open_operator(desk.service) as operator:
        page = await operator.call("ListBalances", ledger_pb2.ListBalancesRequest())
        assert await command.list_balances(operator) == list(page.balances)


async def test_answer_to_callers_that_name_no_limit_is_bounded(desk):
    postings = [
        LedgerPosting(
            accounts.outside_party(f"eip155:1:0x{number:040x}"), accounts.OPERATOR, DOLLARS, 1
        )
        for number in range(books.BALANCES + 5)
    ]
    store = desk.service.app.store
    await store.write(ledger.post("operator:many", "operator", None, None, postings, 1))
    external = ledger_pb2.ACCOUNT_KIND_EXTERNAL
    async with open_operator(desk.service) as operator:
        request = ledger_pb2.ListBalancesRequest(kind=external)
        page = await operator.call("ListBalances", request)
    assert len(page.balances) == books.BALANCES
    assert page.next_cursor
    await store.write(ledger.reverse("operator:many", 2))


async def test_a_restart_changes_nothing_in_the_books(tmp_path):
    home = tmp_path / "home"
    async with open_service(home, **SETTINGS) as desk:
        shop = PayoutMerchant(desk, await desk.tenant())
        await shop.refund(await shop.create_paid_payment(EvmTestWallet(), USD))
        await wait_exact(desk)
        before = desk.select("SELECT count(*) FROM ledger_journal")
    async with open_service(home, **SETTINGS) as desk:
        await wait_exact(desk)
        assert desk.select("SELECT count(*) FROM ledger_journal") == before
