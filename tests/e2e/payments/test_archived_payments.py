"""Archived payments over every way in: they answer by id, and change only once restored."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from florin.v1 import archive_pb2, trace_pb2
from florin_server.cli.exits import ExitStatus

from tests.support import operator
from tests.support.api import ApiCallError
from tests.support.capture import open_pos, submit_form
from tests.support.command import CommandResult, get_refusal, run_florin
from tests.support.receipts import decode_claims, get_receipt
from tests.support.service_harness import ORDER, open_service
from tests.support.until import advance, wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]

DAY_S = 86_400


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("archived")
    settings = {
        "archive": {"folder": home / "archive", "payment_days": 30},
        "capture": {"enabled": True, "from_amount": {"USD": 200_000}},
    }
    async with open_service(home / "home", **settings) as desk:
        yield desk


async def pay(desk, wallet: EvmTestWallet | None = None) -> str:
    offer = await desk.offer(wallet)
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    # no reorganization can undo it any more
    await desk.chain.mine(200)
    await wait_until(
        lambda: not desk.select("SELECT * FROM watched_tx"),
        meanwhile=lambda: advance(desk.clock, 2),
    )
    return offer.payment_id


async def archive(desk, *payment_ids: str) -> None:
    """Let months pass, until payments are in the archive."""
    desk.clock.advance(62 * DAY_S)

    def are_archived() -> bool:
        return all(
            not desk.select(f"SELECT id FROM payment WHERE id = '{payment_id}'")
            for payment_id in payment_ids
        )

    await wait_until(are_archived, meanwhile=lambda: advance(desk.clock, 600))


async def read_all(desk, payment_id: str) -> dict:
    """Return what every call answers for a payment."""
    path = f"/v1/payments/{payment_id}"
    trace = await operator.ask(
        desk, "TracePayment", trace_pb2.TracePaymentRequest(payment_id=payment_id)
    )
    claims = decode_claims(await get_receipt(desk, payment_id))
    claims.pop("iat")
    detail = await desk.rest.call("GET", path, desk.rest.merchant)
    # an archive has no names of wallets
    detail.pop("buyer")
    return {
        "status": await desk.rest.status(payment_id),
        "detail": detail,
        "events": await desk.rest.call("GET", f"{path}/history", desk.rest.merchant),
        "receipt": claims,
        "trace": [event.event.cause for event in trace.events],
        "page": (await desk.ask("GET", f"/{payment_id}")).status,
        "receipt_page": (await desk.ask("GET", f"/{payment_id}/receipt")).status,
        "watched": [state async for state in desk.rest.watch(payment_id)],
    }


async def test_archived_payments_answer_as_before_and_refunds_after_a_restore(desk):
    payment_id = await pay(desk)
    cancelled = (await desk.rest.call("POST", "/v1/payments", desk.rest.merchant, {**ORDER}))[
        "paymentId"
    ]
    await desk.rest.call("POST", f"/v1/payments/{cancelled}/cancel", desk.rest.merchant, {})
    before = await read_all(desk, payment_id)
    await archive(desk, payment_id, cancelled)
    assert await read_all(desk, payment_id) == before
    assert (await desk.rest.status(cancelled))["status"] == "cancelled"

    listed = await desk.rest.call("GET", "/v1/payments", desk.rest.merchant)
    assert payment_id not in str(listed)
    # for other merchants it is as unknown as one that never existed
    stranger = await desk.tenant()
    answer = await desk.ask("GET", f"/v1/payments/{payment_id}", stranger.headers)
    assert answer.refusal == (404, "payment_not_found")

    for method, path, body in (
        ("POST", f"/v1/payments/{payment_id}/cancel", {}),
        ("POST", f"/v1/payments/{payment_id}/notes", {"text": "late"}),
        ("POST", "/v1/refunds", {"paymentId": payment_id}),
    ):
        answer = await desk.ask(method, path, desk.rest.merchant, body)
        assert answer.refusal == (400, "invalid_state"), (path, answer.text)

    files = (
        await operator.ask(desk, "ListArchiveFiles", archive_pb2.ListArchiveFilesRequest())
    ).files
    of_payments = [file for file in files if not file.name.startswith("transactions/")]
    assert sum(file.payments for file in of_payments) == 2
    assert len(of_payments) < len(files)
    assert desk.select("SELECT * FROM chain_tx WHERE state = 'final'") == []
    restore = archive_pb2.RestorePaymentRequest(payment_id=payment_id)
    await operator.ask(desk, "RestorePayment", restore)
    assert await read_all(desk, payment_id) == before
    with pytest.raises(ApiCallError) as refused:
        await operator.ask(desk, "RestorePayment", restore)
    assert refused.value.code == "payment_not_found"
    await desk.rest.call("POST", "/v1/refunds", desk.rest.merchant, {"paymentId": payment_id})
    refund = await desk.wait_refunded(payment_id)
    assert refund["status"] == "succeeded"


async def run_customers(
    desk, command: str, account: str, *options: str, has_folder: bool = True
) -> CommandResult:
    """Run a command about a customer; its settings name the folder of the archive, or none."""
    home = desk.service.home
    folder = {"FLORIN_ARCHIVE__FOLDER": str(desk.service.settings.archive.folder)}
    words = ("customers", command, account, *options)
    with home.announce({"operator": desk.service.grpc.operator_target}):
        return await asyncio.to_thread(
            run_florin, *words, home=home.path, **folder if has_folder else {}
        )


async def export_payments(desk, account: str, *options: str) -> list[tuple[str, str, bool, bool]]:
    """Return the payments of an export, and whether each is paid by the account and archived."""
    exported = json.loads((await run_customers(desk, "export", account, *options)).out)
    assert exported["archiveLeftOut"] is bool(options)
    return [
        (payment["paymentId"], payment["status"], payment["payer"], payment["archived"])
        for payment in exported["payments"]
    ]


async def test_customer_export_includes_archived_payments_once(desk):
    wallet = EvmTestWallet()
    paid = await pay(desk, wallet)
    detail = await desk.rest.detail(paid)
    # the archive has no account of it, and its data is still in the store
    amount = {"unit": "iso4217/USD", "value": "200000"}
    pos = await open_pos(desk, wallet, amount=amount)
    await submit_form(desk, await pos.url())
    await desk.rest.cancel(pos.payment_id)
    await archive(desk, paid, pos.payment_id)
    recent = await pay(desk, wallet)
    exported = json.loads((await run_customers(desk, "export", wallet.account)).out)
    assert [data["paymentId"] for data in exported["collectedData"]] == [pos.payment_id]
    assert exported["payments"][2] == {
        "paymentId": paid,
        "status": "succeeded",
        "createdAt": detail["createdAt"],
        "payer": True,
        "walletName": None,
        "txId": detail["info"]["txId"],
        "archived": True,
    }
    newer = [(recent, "succeeded", True, False), (pos.payment_id, "cancelled", False, True)]
    assert await export_payments(desk, wallet.account) == [*newer, (paid, "succeeded", True, True)]
    await operator.ask(desk, "RestorePayment", archive_pb2.RestorePaymentRequest(payment_id=paid))
    restored = (paid, "succeeded", True, False)
    assert await export_payments(desk, wallet.account) == [*newer, restored]
    assert await export_payments(desk, wallet.account, "--no-archive") == [newer[0], restored]


async def test_account_that_is_only_in_the_archive_is_exported_and_not_erased(desk):
    wallet = EvmTestWallet()
    paid = await pay(desk, wallet)
    await archive(desk, paid)
    for _ in range(2):
        exported = await export_payments(desk, wallet.account)
        assert exported == [(paid, "succeeded", True, True)]
        erased = await run_customers(desk, "erase", wallet.account)
        assert erased.status == ExitStatus.NOT_FOUND
    for account, options in ((wallet.account, ["--no-archive"]), (EvmTestWallet().account, [])):
        refused = await run_customers(desk, "export", account, *options)
        assert refused.status == ExitStatus.NOT_FOUND
        assert "customer_not_found" in get_refusal(refused)


@contextmanager
def moved(path: Path) -> Iterator[None]:
    """Move a file or folder away during a block."""
    elsewhere = path.rename(path.with_name("elsewhere"))
    try:
        yield
    finally:
        elsewhere.rename(path)


async def test_customer_export_without_all_files_is_refused(desk):
    wallet = EvmTestWallet()
    await archive(desk, await pay(desk, wallet))
    await pay(desk, wallet)
    folder = desk.service.settings.archive.folder
    path = max(folder.glob("*/*.parquet"))
    with moved(path):
        refused = await run_customers(desk, "export", wallet.account)
        assert refused.status == ExitStatus.REFUSED
        assert str(path) in get_refusal(refused)
        left_out = await run_customers(desk, "export", wallet.account, "--no-archive")
    assert left_out.status == ExitStatus.DONE
    assert "are not included" in left_out.err
    refused = await run_customers(desk, "export", wallet.account, has_folder=False)
    assert refused.status == ExitStatus.USAGE_ERROR
    assert "[archive] folder" in get_refusal(refused)
