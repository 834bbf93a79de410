"""The books and the chains agree to the unit, and what does not is told for what it is."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import ledger_pb2, payout_pb2, system_pb2
from florin_server.cli.payments import ledger as command
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.ledger import accounts
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.flows.ledger import books
from florin_server.flows.ledger.books import Verdict
from florin_server.store.ledger import ledger

from tests.support.api import Refused
from tests.support.books import SETTINGS, balance, exact, treasury_of
from tests.support.desk import Desk, opened
from tests.support.installation import operator_of
from tests.support.payout_shop import (
    CHAIN,
    DOLLAR,
    ETHER,
    EUR,
    FEE,
    GBP,
    PRICE,
    USD,
    Shop,
    filled,
)
from tests.support.solana import SolanaNode, SolanaWallet
from tests.support.solana_offers import offered
from tests.support.until import until
from tests.support.wallet import MUTE, Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOLLARS = f"{CHAIN}/erc20:{DOLLAR}"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("books") / "home", **SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> Shop:
    return Shop(desk, await desk.tenant())


async def line_of(desk: Desk, account: str, asset: str) -> books.Line:
    found = await books.compare(desk.service.app)
    (line,) = [one for one in found.lines if one.place == (account, asset)]
    return line


async def sold_on_solana(desk: Desk, token: int, headers: Any = None) -> str:
    offer = await offered(desk.rest, SolanaWallet(), token, headers)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    return offer.payment_id


async def test_the_books_begin_with_what_the_wallets_hold(desk):
    await exact(desk)
    relayer = f"{CHAIN}:{desk.service.app.rails[CHAIN].senders[0]}"
    for account, asset in ((relayer, ETHER), (treasury_of(desk), DOLLARS)):
        line = await line_of(desk, account, asset)
        assert line.opened
        assert line.booked == line.held > 0


async def test_every_way_to_pay_and_to_pay_back_is_booked_to_the_unit(desk, shop):
    await exact(desk)
    own = Shop(desk, await desk.tenant())
    for asset in (f"erc20:{DOLLAR}", f"erc20:{DEVNET.euro.address}", "slip44:60"):
        await own.wants(asset, "0x" + "5a" * 20)
    mute = Wallet()
    await filled(desk, mute)
    await mute.delegate(desk.chain, MUTE)
    paid = []
    for one in (shop, own):
        for amount in (USD, EUR, GBP):
            payment_id = await one.sold(Wallet(), amount)
            # the treasury has euros only of those who pay it
            if amount is not EUR or one is shop:
                paid.append((one, payment_id))
        paid.append((one, await one.sold(mute, USD)))
    paid += [(shop, await sold_on_solana(desk, token, shop.tenant.headers)) for token in (0, 1)]
    # the demo's merchant has a destination of its own there
    for token in (0, 1):
        await sold_on_solana(desk, token)
    await exact(desk)
    first, *more = paid
    await refunded_in_parts(desk, *first)
    for one, payment_id in more:
        await one.refund(payment_id)
    await exact(desk)
    await shop.sold(Wallet(), USD)
    await shop.sold(Wallet(), USD)
    await shop.wants(f"erc20:{DOLLAR}", "0x" + "5b" * 20)
    async with operator_of(desk.service) as operator:
        request = payout_pb2.CreatePayoutRequest(
            merchant_id=shop.tenant.merchant.id, asset=DOLLARS, amount="1000000"
        )
        await operator.ask("CreatePayout", request)
    await until(lambda: desk.chain.balance("0x" + "5b" * 20), 1_000_000)
    await exact(desk)


async def refunded_in_parts(desk, shop, payment_id) -> None:
    """Two parts, each in an entry of its own."""
    headers = shop.tenant.headers
    for value in ("500", "750"):
        body = {"paymentId": payment_id, "amount": {"unit": "iso4217/USD", "value": value}}
        await desk.rest.call("POST", "/v1/refunds", headers, body)
    await desk.refunded(payment_id, headers, every=True)
    path = f"/v1/payments/{payment_id}"
    parts = (await desk.rest.call("GET", path, headers))["refunds"]
    async with operator_of(desk.service) as operator:
        request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
        entries = (await operator.ask("ListEntries", request)).entries
    # entries of one second stand in the order of their names, which are random
    assert sorted(
        (one.journal, one.tx_id, one.amount) for one in entries if one.journal.startswith("refund:")
    ) == sorted((f"refund:{one['refundId']}", one["txId"], one["amount"]["value"]) for one in parts)


async def test_rent_on_solana_is_booked_apart_from_fees(desk, shop):
    rail = desk.service.app.rails[SOLNET.chain_id]
    await exact(desk)
    node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    gas, rent, coin = (
        await balance(desk, "expense:gas", rail.native_asset),
        await balance(desk, "expense:rent", rail.native_asset),
        await node.coin(rail.senders[0]),
    )
    payment_id = await sold_on_solana(desk, 0, shop.tenant.headers)
    found = await node.ask(
        "getTransaction",
        (await desk.rest.status(payment_id))["info"]["txId"],
        {"maxSupportedTransactionVersion": 0},
    )
    await exact(desk)
    fee = found["meta"]["fee"]
    assert await balance(desk, "expense:gas", rail.native_asset) == gas + fee
    spent = coin - await node.coin(rail.senders[0])
    assert await balance(desk, "expense:rent", rail.native_asset) == rent + spent - fee


async def test_work_that_is_under_way_explains_a_difference(desk, shop):
    await exact(desk)
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    offer = await desk.offer(tenant=shop.tenant)
    await desk.confirm(offer)
    line = await line_of(desk, treasury_of(desk), DOLLARS)
    assert (line.verdict, line.coming) == (Verdict.EXACT, PRICE)
    assert not line.quiet
    async with operator_of(desk.service) as operator:
        request = ledger_pb2.BookDifferenceRequest(
            account=treasury_of(desk), asset=DOLLARS, note="too early"
        )
        with pytest.raises(Refused) as caught:
            await operator.ask("BookDifference", request)
        assert caught.value.code == "invalid_state"
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": False})
    await desk.chain.mine()
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    await exact(desk)


async def test_a_gift_is_unbooked_until_the_operator_says_what_it_was(desk):
    await exact(desk)
    stranger, treasury = Wallet(), treasury_of(desk)
    before = await balance(desk, "external:operator", DOLLARS)
    await filled(desk, stranger)
    data = "0xa9059cbb" + treasury.rpartition(":")[2][2:].rjust(64, "0") + f"{700:064x}"
    await stranger.transact(desk.chain, gas=100_000, to=bytes.fromhex(DOLLAR[2:]), data=data)
    line = await line_of(desk, treasury, DOLLARS)
    assert (line.verdict, line.difference) == (Verdict.UNBOOKED, 700)
    async with operator_of(desk.service) as operator:
        assert (
            (await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest()))
            .chains[0]
            .healthy
        )
        request = ledger_pb2.BookDifferenceRequest(account=treasury, asset=DOLLARS, note="a gift")
        assert (await operator.ask("BookDifference", request)).amount == "700"
        with pytest.raises(Refused):
            await operator.ask("BookDifference", request)
    assert await balance(desk, "external:operator", DOLLARS) == before - 700
    notes = desk.select("SELECT note FROM ledger_journal WHERE type = 'operator'")
    assert ("a gift",) in notes
    await exact(desk)


async def test_money_that_is_gone_is_missing_and_alarms(desk):
    await exact(desk)
    thief = Wallet(key=desk.service.secrets.treasury_key)
    treasury = treasury_of(desk)
    data = "0xa9059cbb" + ("66" * 20).rjust(64, "0") + f"{5000:064x}"
    receipt = await thief.transact(desk.chain, gas=100_000, to=bytes.fromhex(DOLLAR[2:]), data=data)
    gas = int(receipt["gasUsed"], 16) * int(receipt["effectiveGasPrice"], 16)
    for asset, lost in ((DOLLARS, 5000), (ETHER, gas)):
        line = await line_of(desk, treasury, asset)
        assert (line.verdict, line.difference) == (Verdict.MISSING, -lost)

    async def told() -> bool:
        async with operator_of(desk.service) as operator:
            status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        (chain,) = [one for one in status.chains if one.chain_id == CHAIN]
        desk.clock.advance(400)
        return f"{treasury} holds 5000 minor units of {DOLLARS} less" in chain.problem

    await until(told, True)
    async with operator_of(desk.service) as operator:
        for asset in (DOLLARS, ETHER):
            request = ledger_pb2.BookDifferenceRequest(
                account=treasury, asset=asset, note="stolen, written off"
            )
            assert (await operator.ask("BookDifference", request)).amount.startswith("-")
    desk.clock.advance(400)
    await exact(desk)


async def test_an_operator_sees_what_was_booked_for_a_payment(desk, shop):
    payment_id = await shop.sold(Wallet(), USD)
    async with operator_of(desk.service) as operator:
        request = ledger_pb2.ListEntriesRequest(payment_id=payment_id)
        found = (await operator.ask("ListEntries", request)).entries
        balances = (await operator.ask("ListBalances", ledger_pb2.ListBalancesRequest())).balances
    merchant = f"merchant:{shop.tenant.merchant.id}"
    assert [(one.debit, one.credit, one.amount) for one in found] == [
        (f"wallet:{treasury_of(desk)}", merchant, str(PRICE - FEE)),
        (f"wallet:{treasury_of(desk)}", "income:fee", str(FEE)),
    ]
    assert {one.journal for one in found} == {f"settle:{payment_id}"}
    (owed,) = [one for one in balances if (one.account, one.asset) == (merchant, DOLLARS)]
    assert owed.amount == str(-(PRICE - FEE))
    sums: dict[str, int] = {}
    for one in balances:
        sums[one.asset] = sums.get(one.asset, 0) + int(one.amount)
    assert set(sums.values()) == {0}


async def test_page_of_balances_has_as_many_rows_as_asked_for_and_never_more_than_1000(desk, shop):
    await shop.sold(Wallet(), USD)
    async with operator_of(desk.service) as operator:

        async def ask(**values: Any) -> ledger_pb2.ListBalancesResponse:
            return await operator.ask("ListBalances", ledger_pb2.ListBalancesRequest(**values))

        whole = await ask(limit=1000)
        assert await ask() == whole
        assert len(whole.balances) > 3
        assert not whole.next_cursor
        rows, cursor = [], ""
        while True:
            page = await ask(limit=2, cursor=cursor)
            assert len(page.balances) <= 2
            rows += page.balances
            cursor = page.next_cursor
            if not cursor:
                break
        assert rows == list(whole.balances)
        wallets = await ask(kind=ledger_pb2.ACCOUNT_KIND_WALLET)
        assert list(wallets.balances) == [one for one in rows if one.account.startswith("wallet:")]
        for limit in (0, -1, 1001, 2**31 - 1):
            with pytest.raises(Refused) as excess:
                await ask(limit=limit)
            assert excess.value.code == "params_validation"
        other_list = (await ask(limit=1)).next_cursor
        for values in ({"cursor": "x"}, {"cursor": other_list, "kind": 1}):
            with pytest.raises(Refused) as refusal:
                await ask(**values)
            assert refusal.value.code == "invalid_params"
        with pytest.raises(Refused) as refusal:
            await ask(kind=99)
        assert refusal.value.code == "params_validation"


async def test_command_lists_the_balances_of_every_page(desk, shop, monkeypatch):
    monkeypatch.setattr(command, "PAGE", 2)
    async with operator_of(desk.service) as operator:
        page = await operator.ask("ListBalances", ledger_pb2.ListBalancesRequest())
        assert await command.list_balances(operator) == list(page.balances)


async def test_answer_to_callers_that_name_no_limit_is_bounded(desk):
    postings = [
        Posting(accounts.external(f"eip155:1:0x{number:040x}"), accounts.BY_OPERATOR, DOLLARS, 1)
        for number in range(books.BALANCES + 5)
    ]
    store = desk.service.app.store
    await store.write(ledger.post("operator:many", "operator", None, None, postings, 1))
    external = ledger_pb2.ACCOUNT_KIND_EXTERNAL
    async with operator_of(desk.service) as operator:
        request = ledger_pb2.ListBalancesRequest(kind=external)
        page = await operator.ask("ListBalances", request)
    assert len(page.balances) == books.BALANCES
    assert page.next_cursor
    await store.write(ledger.reverse("operator:many", 2))


async def test_a_restart_changes_nothing_in_the_books(tmp_path):
    home = tmp_path / "home"
    async with opened(home, **SETTINGS) as desk:
        shop = Shop(desk, await desk.tenant())
        await shop.refund(await shop.sold(Wallet(), USD))
        await exact(desk)
        before = desk.select("SELECT count(*) FROM ledger_journal")
    async with opened(home, **SETTINGS) as desk:
        await exact(desk)
        assert desk.select("SELECT count(*) FROM ledger_journal") == before
