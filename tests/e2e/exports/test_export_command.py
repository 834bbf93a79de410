"""`florin export`: from the store, running or stopped, and from a server with a merchant's key."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from florin_server.boot.exports import server
from florin_server.store.ledger import books

from tests.support.command import told
from tests.support.desk import ORDER
from tests.support.exported import lines, newest, sums
from tests.support.service import running
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest.fixture
def command(forks, desk):
    """A command beside the service, which goes on meanwhile."""

    async def run(*words, **env):
        home = desk.service.home.path
        return await asyncio.to_thread(forks, "export", *map(str, words), home=home, **env)

    return run


def merchant(tenant_headers):
    names = {name.lower(): value for name, value in tenant_headers.items()}
    return {"FLORIN_PARTNER_KEY": names["api-key"], "FLORIN_MERCHANT_ID": names["merchant-id"]}


async def paid(desk, tenant=None):
    """A payment that succeeded on the chain."""
    wallet = Wallet()
    await desk.chain.fund(wallet.address)
    offer = await desk.offer(wallet, tenant=tenant)
    await desk.confirm(offer)
    assert (await desk.ended(offer.payment_id))["status"] == "succeeded"
    return offer.payment_id


async def test_a_running_florin_is_exported_and_later_what_is_new(desk, command, tmp_path):
    out = tmp_path / "out"
    first = await paid(desk)
    done = await command("--to", out, "--format", "jsonl")
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == str(out / "export.json")
    (row,) = [one for one in lines(out, "payments") if one["payment_id"] == first]
    # the decimals of the test token are known without asking its chain
    assert (row["status"], row["requested"], row["paid"]) == ("succeeded", "12.50", "12.500000")
    (option,) = [one for one in lines(out, "options") if one["payment_id"] == first]
    assert option["chosen"] is True
    second = await paid(desk)
    done = await command("--to", out, "--format", "jsonl")
    assert done.status == 0, done.err
    assert {one["payment_id"] for one in newest(lines(out, "payments"), "payments")} >= {
        first,
        second,
    }
    page = await desk.service.app.store.read(books.list_balances(None, None, 1000))
    assert page.last is None
    balances = {balance[:2]: balance[2] for balance in page.balances}
    assert sums(lines(out, "ledger")) == balances


async def test_a_stopped_florin_is_exported_too(forks, tmp_path):
    async with running(tmp_path / "home") as service:
        env = service.home.read_demo_env()
        assert env
    words = ("export", "--to", str(tmp_path / "out"), "--format", "jsonl", "--table", "ledger")
    before = {one.name for one in (tmp_path / "home").iterdir()}
    done = await asyncio.to_thread(forks, *words, home=tmp_path / "home")
    assert done.status == 0, done.err
    assert {one.name for one in (tmp_path / "home").iterdir()} == before
    assert lines(tmp_path / "out", "ledger")


async def test_a_merchant_exports_its_own_payments_and_nothing_else(desk, command, tmp_path):
    out = tmp_path / "out"
    ours, others = await desk.tenant(), await desk.tenant()
    mine, theirs = await paid(desk, ours), await paid(desk, others)
    waiting = (await desk.rest.call("POST", "/v1/payments", ours.headers, ORDER))["paymentId"]
    target = desk.env["FLORIN_GRPC_TARGET"]
    words = ("--server", target, "--to", out, "--format", "jsonl")
    done = await command(*words, **merchant(ours.headers))
    assert done.status == 0, done.err
    rows = {row["payment_id"]: row for row in lines(out, "payments")}
    assert rows.keys() == {mine, waiting}
    everything = tmp_path / "everything"
    await command("--to", everything, "--format", "jsonl")
    (own,) = [one for one in lines(everything, "payments") if one["payment_id"] == mine]
    known = {name: value for name, value in rows[mine].items() if value is not None}
    # what a merchant is told is told in the same words
    assert known == {name: own[name] for name in known}
    assert {"paid_minor", "paid", "tx_hash", "payer", "updated_at"} <= known.keys()
    written = b"".join(file.read_bytes() for file in out.rglob("*") if file.is_file())
    for word in (theirs, others.merchant.id, others.partner.id):
        assert word.encode() not in written
    # a payment that changes, and one that is refunded, are written again, and no other is
    asked = await desk.rest.call("POST", "/v1/refunds", ours.headers, {"paymentId": mine})
    await desk.rest.call("POST", f"/v1/payments/{waiting}/cancel", ours.headers)

    async def completed():
        await command(*words, **merchant(ours.headers))
        (back,) = newest(lines(out, "refunds"), "refunds")
        desk.clock.advance(10)
        return back if back["status"] == "succeeded" else None

    back = await until(completed)
    assert (back["refund_id"], back["payment_id"]) == (asked["refundId"], mine)
    assert back["amount"] == "12.500000"
    ends = {row["payment_id"]: row["status"] for row in newest(lines(out, "payments"), "payments")}
    assert ends == {mine: "succeeded", waiting: "cancelled"}
    assert sum(row["payment_id"] == waiting for row in lines(out, "payments")) == 2
    # the operator's own export goes on too, and knows what moved the money
    await command("--to", everything, "--format", "jsonl")
    rows = newest(lines(everything, "payouts"), "payouts")
    (payout,) = [row for row in rows if row["payment_id"] == mine]
    assert (payout["payout_id"], payout["status"]) == (asked["refundId"], "done")
    booked = [row for row in lines(everything, "ledger") if row["tx_hash"] == payout["tx_hash"]]
    assert {row["kind"] for row in booked} == {"refund", "gas"}


async def test_a_server_that_cannot_be_asked_is_told(desk, command, tmp_path):
    out = tmp_path / "out"
    ours = await desk.tenant()
    target = desk.env["FLORIN_GRPC_TARGET"]
    good = merchant(ours.headers)
    assert "set FLORIN_PARTNER_KEY and FLORIN_MERCHANT_ID" in told(
        await command("--server", target, "--to", out)
    )
    assert "refuses the key" in told(
        await command("--server", target, "--to", out, **{**good, "FLORIN_PARTNER_KEY": "fl_no"})
    )
    assert "refuse" in told(
        await command("--server", target, "--to", out, **{**good, "FLORIN_MERCHANT_ID": "mrch_no"})
    )
    assert "does not answer by gRPC" in told(
        await command("--server", "127.0.0.1:1", "--to", out, **good)
    )
    assert "plain text would show API keys" in told(
        await command("--server", "florin.example:443", "--to", out, **good)
    )
    assert "a server does not tell ledger to a merchant, only payments, refunds" in told(
        await command("--server", target, "--to", out, "--table", "ledger", **good)
    )
    assert not out.exists() or not (out / "export.json").exists()


async def test_a_server_that_is_too_old_is_told(command, tmp_path):
    """One that answers gRPC and has never heard of the list."""
    old = grpc.server(ThreadPoolExecutor(1))
    port = old.add_insecure_port("127.0.0.1:0")
    old.start()
    try:
        env = {server.KEY: "fl_test_pk_1", server.MERCHANT: "mrch_1"}
        done = await command("--server", f"127.0.0.1:{port}", "--to", tmp_path / "out", **env)
    finally:
        old.stop(None).wait()
    assert "lists no payments: it is no Florin, or one that is too old" in told(done)


async def test_what_a_command_gets_wrong_is_told(command, desk, forks, tmp_path):
    out = tmp_path / "out"
    wrong = await command("--to", out, "--format", "xlsx")
    assert wrong.status == 2
    assert "there is no format xlsx; there are csv, jsonl, parquet" in told(wrong)
    wrong = await command("--to", out, "--table", "payment")
    assert wrong.status == 2
    assert "there is no table payment; there are payments, events," in told(wrong)
    nowhere = await asyncio.to_thread(forks, "export", "--to", str(out), home=tmp_path / "nowhere")
    assert "there is no Florin in" in told(nowhere)
    assert not (tmp_path / "nowhere").exists()
    assert not out.exists()


async def test_without_the_extra_parquet_is_told_and_csv_is_written(desk, tmp_path):
    """In a process of its own, whose Python finds no pyarrow."""
    from tests.support.command import florin

    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "pyarrow.py").write_text("raise ImportError('none')\n")
    home, hidden = desk.service.home.path, {"PYTHONPATH": str(tmp_path / "none")}
    words = ("export", "--to", str(tmp_path / "out"), "--format")
    refused = await asyncio.to_thread(florin, *words, "parquet", home=home, **hidden)
    assert "pip install 'florin-pay[export]'" in told(refused)
    assert refused.status == 1
    done = await asyncio.to_thread(florin, *words, "csv", home=home, **hidden)
    assert done.status == 0, done.err
    assert json.loads((tmp_path / "out" / "export.json").read_bytes())["format"] == "csv"
