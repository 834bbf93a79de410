"""Test the work that looking for wallets' own transactions causes, whatever others send."""

from __future__ import annotations

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.db.engine.query import Command, Op, insert, operation
from florin_server.db.tables.tables import process_table
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.money.settlement.worker import late_transfers
from florin_server.money.settlement.worker.requested_payments import RequestedPayments
from florin_server.rails.transfers import ObservedTransfers
from florin_server.rails.types import AddressMention, MentionQuery, RailUnavailable, RequestedEvents

from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import make_offer
from tests.support.solana_pay import (
    ORDER,
    fetch_transaction,
    find_address,
    fund,
    give_coin,
    let_time_pass,
    list_legacy_instructions,
    make_transfer,
    name_address,
    open_link,
    post_account,
    send_instructions,
    wait_status,
)

CHAIN = SOLANA_DEVNET.chain_id


@pytest.fixture
async def service(tmp_path):
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA) as service:
        offer = await make_offer(service.rest, SolanaTestWallet())
        await offer.confirm()
        await offer.final()
        yield service


@pytest.fixture
def node(service: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])


def count_calls(service: ServiceHarness, method: str) -> int:
    return service.service.app.rails[CHAIN].nodes.calls_by_method.get(method, 0)


async def test_each_transaction_with_a_note_is_read_once_and_no_other(service, node):
    wallet, spammer = SolanaTestWallet(), SolanaTestWallet()
    await fund(node, wallet)
    await fund(node, spammer)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    steps = list_legacy_instructions(transaction.message)
    address = await find_address(service, payment_id)
    for amount in range(1, 25):
        transfer = name_address(make_transfer(spammer, wallet.address, amount), address)
        await send_instructions(node, spammer, [*steps[: amount % 2], transfer])
    before = count_calls(service, "getTransaction")
    await let_time_pass(service, node, 10)
    assert count_calls(service, "getTransaction") - before == 12
    await send_instructions(node, wallet, steps)
    await wait_status(service, node, payment_id, "succeeded")
    # it is read when it is found, and when it ends the payment
    assert count_calls(service, "getTransaction") - before <= 12 + 3


async def test_chain_is_asked_for_nothing_while_no_wallet_asked(service, node):
    before = count_calls(service, "getSignaturesForAddress")
    await service.rest.create(ORDER)
    await let_time_pass(service, node, 4)
    assert count_calls(service, "getSignaturesForAddress") == before


class ListingRail:
    """A rail whose node lists the transactions of each address in pages of three."""

    chain_id = CHAIN
    method = "direct"
    page_size = 3

    def __init__(self) -> None:
        self.transaction_requests = self.terms = self
        self.transfer_requests = None
        self.is_silent = False
        self.failing_address = ""
        self.newest_first: list[AddressMention] = []
        self.queries: list[MentionQuery] = []
        self.reads: list[str] = []

    async def list_mentions(self, queries) -> list[list[AddressMention] | None]:
        self.queries += queries
        if self.is_silent:
            raise RailUnavailable("no answer")
        return [
            None if query.address == self.failing_address else self.list_page(query)
            for query in queries
        ]

    def list_page(self, query: MentionQuery) -> list[AddressMention]:
        hashes = [mention.tx_hash for mention in self.newest_first]
        start = hashes.index(query.before) + 1 if query.before else 0
        end = hashes.index(query.until) if query.until else len(hashes)
        return self.newest_first[start:end][: self.page_size]

    async def find_events(self, candidates) -> RequestedEvents:
        self.reads += [tx_hash for tx_hash, _ in candidates]
        return RequestedEvents((), frozenset())

    def get_reference(self, option) -> str:
        return str(option.reference)


async def test_long_listing_is_read_in_pages_and_then_only_what_is_new(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await fetch_transaction(service, payment_id, SolanaTestWallet())
    ((reference,),) = service.select(
        "SELECT reference FROM payment_option WHERE payment_id = ?", payment_id
    )
    rail = ListingRail()
    rail.newest_first = [AddressMention(f"tx{n}", reference) for n in range(7, 0, -1)]
    app = service.service.app
    context = app.settlers[CHAIN].context
    worker = RequestedPayments(app, rail, context.direct_payments)

    async def look() -> None:
        service.clock.advance(1)
        await worker.run_turn({})

    for _ in range(4):
        await look()
    assert sorted(rail.reads) == [f"tx{n}" for n in range(1, 8)]
    assert [query.before for query in rail.queries[:3]] == ["", "tx5", "tx2"]
    rail.newest_first.insert(0, AddressMention("tx8", reference))
    await look()
    assert rail.reads[7:] == ["tx8"]
    assert rail.queries[-1].until == "tx7"
    # once a minute from its start again, without reading anything twice
    service.clock.advance(60)
    for _ in range(4):
        await look()
    assert rail.queries[-4].until == ""
    assert rail.reads[8:] == []


async def test_copies_of_one_note_do_not_delay_another_account(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    for _ in range(2):
        await fetch_transaction(service, payment_id, SolanaTestWallet())
    references = service.select(
        "SELECT reference FROM payment_option WHERE payment_id = ?", payment_id
    )
    (spammed,), (paid,) = references
    rail = ListingRail()
    rail.page_size = 1000
    rail.newest_first = [AddressMention(f"copy{n}", spammed) for n in range(500)]
    rail.newest_first.append(AddressMention("payment", paid))
    app = service.service.app
    worker = RequestedPayments(app, rail, app.settlers[CHAIN].context.direct_payments)
    service.clock.advance(1)
    await worker.run_turn({})
    assert len(rail.reads) == 100
    assert rail.reads[1] == "payment"


class TransferringRail(ListingRail):
    """A rail whose node lists transactions that pay nothing, thousands of them."""

    def __init__(self, rail) -> None:
        super().__init__()
        self.page_size = 1000
        self.transfer_requests = self
        self.find_payer = rail.find_payer

    async def find_transfers(self, candidates) -> ObservedTransfers:
        self.reads += [candidate.tx_hash for candidate in candidates]
        return ObservedTransfers((), frozenset())


async def test_thousands_of_transactions_without_a_note_are_read_once_and_delay_no_other(service):
    await give_coin(service)
    spammed_id = (await service.rest.create(ORDER))["paymentId"]
    assert (await open_link(service, spammed_id)).status == 200
    app = service.service.app
    rail = TransferringRail(app.rails[CHAIN])
    worker = RequestedPayments(app, rail, app.settlers[CHAIN].context.direct_payments)
    rail.newest_first = [AddressMention(f"spam{n}", "") for n in range(4_999)]
    rail.newest_first.insert(2_500, AddressMention("payment", ""))
    rail.newest_first += [AddressMention(f"failed{n}", "", is_failed=True) for n in range(100)]
    looks = 0
    while "payment" not in rail.reads:
        service.clock.advance(1)
        await worker.run_turn({})
        looks += 1
        # a look reads a bounded number, whatever is listed
        assert len(rail.reads) <= 100 * looks
        assert looks <= 60
    # each is read once, and failed ones never
    assert len(rail.reads) == len(set(rail.reads))
    assert not any(tx_hash.startswith("failed") for tx_hash in rail.reads)
    assert len(rail.queries) <= looks


async def test_transactions_without_a_note_are_read_only_for_payments_with_a_link(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await fetch_transaction(service, payment_id, SolanaTestWallet())
    app = service.service.app
    rail = TransferringRail(app.rails[CHAIN])
    rail.newest_first = [AddressMention("noteless", "")]
    worker = RequestedPayments(app, rail, app.settlers[CHAIN].context.direct_payments)
    service.clock.advance(1)
    await worker.run_turn({})
    assert rail.reads == []
    await give_coin(service)
    assert (await open_link(service, payment_id)).status == 200
    service.clock.advance(61)
    await worker.run_turn({})
    assert rail.reads == ["noteless"]


async def test_silent_node_is_asked_again_after_ten_seconds(service, node):
    wallet = SolanaTestWallet()
    await fund(node, wallet)
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    transaction = await fetch_transaction(service, payment_id, wallet)
    rail = ListingRail()
    rail.is_silent = True
    app = service.service.app
    worker = RequestedPayments(app, rail, app.settlers[CHAIN].context.direct_payments)
    for _ in range(20):
        service.clock.advance(1)
        await worker.run_turn({})
    assert len(rail.queries) == 2
    await send_instructions(node, wallet, list_legacy_instructions(transaction.message))
    await wait_status(service, node, payment_id, "succeeded")


_JOIN = Command(insert(process_table))


@operation
def join(revision: str) -> Op[None]:
    """Register a process of a release."""
    yield _JOIN(id=f"process of {revision}", now_us=0, revision=revision)


@pytest.mark.parametrize(("revision", "status"), [("v0031", 503), ("v0032", 200), ("v0041", 200)])
async def test_link_waits_until_no_process_of_an_older_release_settles(service, revision, status):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await service.service.app.store.write(join(revision))
    answer = await post_account(service, payment_id, SolanaTestWallet().address)
    assert answer.status == status, answer.text
    watched = service.select("SELECT 1 FROM watched_address WHERE payment_id = ?", payment_id)
    assert bool(watched) is (status == 200)


async def test_ended_payments_are_looked_at_rarely(service):
    payment_id = (await service.rest.create(ORDER))["paymentId"]
    await fetch_transaction(service, payment_id, SolanaTestWallet())
    await service.rest.call("POST", f"/v1/payments/{payment_id}/cancel", service.rest.merchant)
    payment = await service.service.app.store.payments.find(payment_id)
    assert payment.status is PaymentStatus.CANCELLED
    rail = ListingRail()
    app = service.service.app
    worker = RequestedPayments(app, rail, app.settlers[CHAIN].context.direct_payments)
    for _ in range(100):
        service.clock.advance(1)
        await worker.run_turn({})
    assert len(rail.queries) == 1


DAY_S = 86_400


async def open_late_links(service, count=1):
    """Return the addresses of links whose time is over, while no worker runs; and their rail."""
    await give_coin(service)
    links = [
        await open_link(service, (await service.rest.create(ORDER))["paymentId"])
        for _ in range(count)
    ]
    await service.service.workers.stop()
    service.clock.advance(3 * 3600)
    rail = TransferringRail(service.service.app.rails[CHAIN])
    return [link.body["reference"] for link in links], rail


def make_late_worker(service, rail) -> RequestedPayments:
    app = service.service.app
    return RequestedPayments(app, rail, app.settlers[CHAIN].context.direct_payments)


async def take_turns(service, worker, seconds=11, turns=2) -> None:
    for _ in range(turns):
        service.clock.advance(seconds)
        await worker.run_turn({})


async def test_link_is_looked_at_every_day_for_half_a_year_after_its_time(service):
    _, rail = await open_late_links(service)
    rail.newest_first = [AddressMention("late", "", block_number=5)]
    worker = make_late_worker(service, rail)
    await take_turns(service, worker, turns=20)
    assert (len(rail.queries), rail.reads) == (1, ["late"])
    service.clock.advance(DAY_S)
    await take_turns(service, worker, turns=20)
    assert (len(rail.queries), rail.reads) == (2, ["late", "late"])
    service.clock.advance(180 * DAY_S)
    await take_turns(service, worker)
    assert len(rail.queries) == 2


async def test_daily_look_reads_no_transaction_again_after_two_days_of_blocks(service):
    _, rail = await open_late_links(service)
    worker = make_late_worker(service, rail)
    old = [AddressMention(f"old{n}", "", block_number=5) for n in range(1_500)]
    rail.newest_first = [AddressMention("new", "", block_number=2_000_000), *old]
    await take_turns(service, worker, seconds=1, turns=40)
    assert len(rail.reads) == 1_501
    assert [query.before for query in rail.queries[:2]] == ["", "old998"]
    listed = len(rail.queries)
    service.clock.advance(DAY_S)
    await take_turns(service, worker)
    # only the page that has the newest is listed
    assert rail.reads[1_501:] == ["new"]
    assert len(rail.queries) == listed + 1


async def test_late_look_continues_after_a_silent_node_and_after_a_restart(service):
    _, rail = await open_late_links(service)
    rail.newest_first = [AddressMention("late", "", block_number=5)]
    rail.is_silent = True
    worker = make_late_worker(service, rail)
    await take_turns(service, worker, turns=3)
    assert rail.reads == []
    restarted = make_late_worker(service, rail)
    rail.is_silent = False
    await take_turns(service, worker, turns=1)
    assert rail.reads == ["late"]
    # a process that ended in the middle of a look
    service.clock.advance(DAY_S)
    rail.is_silent = True
    await take_turns(service, restarted)
    rail.is_silent = False
    await take_turns(service, make_late_worker(service, rail), seconds=601, turns=1)
    assert rail.reads == ["late", "late"]


async def test_reference_that_cannot_be_listed_delays_no_other(service):
    (failing, _), rail = await open_late_links(service, count=2)
    rail.newest_first = [AddressMention("late", "", block_number=5)]
    rail.failing_address = failing
    worker = make_late_worker(service, rail)
    await take_turns(service, worker, turns=3)
    assert rail.reads == ["late"]
    rail.failing_address = ""
    await take_turns(service, worker)
    assert rail.reads == ["late", "late"]


async def test_late_looks_take_no_more_places_than_a_turn_has(service, monkeypatch):
    monkeypatch.setattr(late_transfers, "_LOOKS_MAX", 2)
    references, rail = await open_late_links(service, count=5)
    worker = make_late_worker(service, rail)
    requested: list[set[str]] = []
    for _ in range(5):
        before = len(rail.queries)
        await take_turns(service, worker, turns=1)
        requested.append({query.address for query in rail.queries[before:]})
    assert max(map(len, requested)) == 2
    assert set().union(*requested) == set(references)
    assert len(rail.queries) == 5
