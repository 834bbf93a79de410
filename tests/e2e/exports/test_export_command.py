"""`florin export`: from the store, running or stopped, and from a server with a merchant's key."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from florin.v1 import ledger_pb2

from tests.support.command import get_refusal
from tests.support.export_stores import keep_newest, read_rows, sum_postings
from tests.support.operator import ask
from tests.support.service import run_service
from tests.support.service_harness import ORDER
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest.fixture
def command(forks, desk):
    """Return a command that runs beside the service, which continues meanwhile."""

    async def run(*words, **env):
        home = desk.service.home.path
        return await asyncio.to_thread(forks, "export", *map(str, words), home=home, **env)

    return run


def merchant(tenant_headers):
    names = {name.lower(): value for name, value in tenant_headers.items()}
    return {"FLORIN_PARTNER_KEY": names["api-key"], "FLORIN_MERCHANT_ID": names["merchant-id"]}


async def paid(desk, tenant=None):
    """Return a payment that succeeded on the chain."""
    wallet = EvmTestWallet()
    await desk.chain.fund(wallet.address)
    offer = await desk.offer(wallet, tenant=tenant)
    await desk.confirm(offer)
    assert (await desk.wait_ended(offer.payment_id))["status"] == "succeeded"
    return offer.payment_id


async def test_export_of_a_running_florin_later_adds_new_rows(desk, command, tmp_path):
    out = tmp_path / "out"
    first = await paid(desk)
    done = await command("--to", out, "--format", "jsonl")
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == str(out / "export.json")
    (row,) = [
        each_row for each_row in read_rows(out, "payments") if each_row["payment_id"] == first
    ]
    # the test token's decimals are known without a call to its chain
    assert (row["status"], row["requested"], row["paid"]) == ("succeeded", "12.50", "12.500000")
    (option,) = [
        each_row for each_row in read_rows(out, "options") if each_row["payment_id"] == first
    ]
    assert option["chosen"] is True
    second = await paid(desk)
    done = await command("--to", out, "--format", "jsonl")
    assert done.status == 0, done.err
    assert {item["payment_id"] for item in keep_newest(read_rows(out, "payments"), "payments")} >= {
        first,
        second,
    }
    page = await ask(desk, "ListBalances", ledger_pb2.ListBalancesRequest(limit=1000))
    assert not page.next_cursor
    balances = {(item.account, item.asset): int(item.amount) for item in page.balances}
    assert sum_postings(read_rows(out, "ledger")) == balances


async def test_a_stopped_florin_is_exported_too(forks, tmp_path):
    async with run_service(tmp_path / "home") as service:
        env = service.home.read_demo_env()
        assert env
    words = ("export", "--to", str(tmp_path / "out"), "--format", "jsonl", "--table", "ledger")
    before = {item.name for item in (tmp_path / "home").iterdir()}
    done = await asyncio.to_thread(forks, *words, home=tmp_path / "home")
    assert done.status == 0, done.err
    assert {item.name for item in (tmp_path / "home").iterdir()} == before
    assert read_rows(tmp_path / "out", "ledger")


async def test_a_merchant_exports_its_own_payments_and_nothing_else(desk, command, tmp_path):
    out = tmp_path / "out"
    ours, remaining = await desk.tenant(), await desk.tenant()
    mine, theirs = await paid(desk, ours), await paid(desk, remaining)
    waiting = (await desk.rest.call("POST", "/v1/payments", ours.headers, ORDER))["paymentId"]
    target = desk.env["FLORIN_GRPC_TARGET"]
    words = ("--server", target, "--to", out, "--format", "jsonl")
    done = await command(*words, **merchant(ours.headers))
    assert done.status == 0, done.err
    rows = {row["payment_id"]: row for row in read_rows(out, "payments")}
    assert rows.keys() == {mine, waiting}
    everything = tmp_path / "everything"
    await command("--to", everything, "--format", "jsonl")
    (own,) = [row for row in read_rows(everything, "payments") if row["payment_id"] == mine]
    existing = {name: value for name, value in rows[mine].items() if value is not None}
    # the merchant's export has the same values
    assert existing == {name: own[name] for name in existing}
    assert {"paid_minor", "paid", "tx_hash", "payer", "updated_at"} <= existing.keys()
    written = b"".join(file.read_bytes() for file in out.rglob("*") if file.is_file())
    for word in (theirs, remaining.merchant.id, remaining.partner.id):
        assert word.encode() not in written
    # changed and refunded payments are written again, and no others
    request = await desk.rest.call("POST", "/v1/refunds", ours.headers, {"paymentId": mine})
    await desk.rest.call("POST", f"/v1/payments/{waiting}/cancel", ours.headers)

    async def completed():
        await command(*words, **merchant(ours.headers))
        (back,) = keep_newest(read_rows(out, "refunds"), "refunds")
        desk.clock.advance(10)
        return back if back["status"] == "succeeded" else None

    back = await wait_until(completed)
    assert (back["refund_id"], back["payment_id"]) == (request["refundId"], mine)
    assert back["amount"] == "12.500000"
    ends = {
        row["payment_id"]: row["status"]
        for row in keep_newest(read_rows(out, "payments"), "payments")
    }
    assert ends == {mine: "succeeded", waiting: "cancelled"}
    assert sum(row["payment_id"] == waiting for row in read_rows(out, "payments")) == 2
    # the operator's own export continues too, and includes the transactions
    await command("--to", everything, "--format", "jsonl")
    rows = keep_newest(read_rows(everything, "payouts"), "payouts")
    (payout,) = [row for row in rows if row["payment_id"] == mine]
    assert (payout["payout_id"], payout["status"]) == (request["refundId"], "done")
    booked = [row for row in read_rows(everything, "ledger") if row["tx_hash"] == payout["tx_hash"]]
    assert {row["kind"] for row in booked} == {"refund", "gas"}


async def test_unusable_server_or_credentials_are_reported(desk, command, tmp_path):
    out = tmp_path / "out"
    ours = await desk.tenant()
    target = desk.env["FLORIN_GRPC_TARGET"]
    good = merchant(ours.headers)
    assert "set FLORIN_PARTNER_KEY and FLORIN_MERCHANT_ID" in get_refusal(
        await command("--server", target, "--to", out)
    )
    assert "refuses the key" in get_refusal(
        await command("--server", target, "--to", out, **{**good, "FLORIN_PARTNER_KEY": "fl_no"})
    )
    assert "refuse" in get_refusal(
        await command("--server", target, "--to", out, **{**good, "FLORIN_MERCHANT_ID": "mrch_no"})
    )
    assert "does not answer by gRPC" in get_refusal(
        await command("--server", "127.0.0.1:1", "--to", out, **good)
    )
    assert "plain text would expose API keys" in get_refusal(
        await command("--server", "florin.example:443", "--to", out, **good)
    )
    assert "a server does not export ledger to a merchant, only payments, refunds" in get_refusal(
        await command("--server", target, "--to", out, "--table", "ledger", **good)
    )
    assert not out.exists() or not (out / "export.json").exists()


async def test_outdated_server_is_reported(command, tmp_path):
    """An old server that answers gRPC but does not know the list."""
    old = grpc.server(ThreadPoolExecutor(1))
    port = old.add_insecure_port("127.0.0.1:0")
    old.start()
    try:
        env = {"FLORIN_PARTNER_KEY": "fl_test_pk_1", "FLORIN_MERCHANT_ID": "mrch_1"}
        done = await command("--server", f"127.0.0.1:{port}", "--to", tmp_path / "out", **env)
    finally:
        old.stop(None).wait()
    assert "lists no payments: it is not Florin, or too old" in get_refusal(done)


async def test_invalid_export_arguments_are_reported(command, desk, forks, tmp_path):
    out = tmp_path / "out"
    wrong = await command("--to", out, "--format", "xlsx")
    assert wrong.status == 2
    assert "unknown format 'xlsx': use csv, jsonl, parquet" in get_refusal(wrong)
    wrong = await command("--to", out, "--table", "payment")
    assert wrong.status == 2
    assert "unknown table 'payment': use payments, events," in get_refusal(wrong)
    nowhere = await asyncio.to_thread(forks, "export", "--to", str(out), home=tmp_path / "nowhere")
    assert "no Florin state folder exists in" in get_refusal(nowhere)
    assert not (tmp_path / "nowhere").exists()
    assert not out.exists()


async def test_missing_parquet_extra_is_reported_and_csv_is_written(desk, tmp_path):
    """Run in a process of its own, whose Python finds no pyarrow."""
    from tests.support.command import run_florin

    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "pyarrow.py").write_text("raise ImportError('none')\n")
    home, hidden = desk.service.home.path, {"PYTHONPATH": str(tmp_path / "none")}
    words = ("export", "--to", str(tmp_path / "out"), "--format")
    refused = await asyncio.to_thread(run_florin, *words, "parquet", home=home, **hidden)
    assert "pip install 'florin-pay[export]'" in get_refusal(refused)
    assert refused.status == 1
    done = await asyncio.to_thread(run_florin, *words, "csv", home=home, **hidden)
    assert done.status == 0, done.err
    assert json.loads((tmp_path / "out" / "export.json").read_bytes())["format"] == "csv"
