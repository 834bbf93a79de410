"""Steps for the blocks about the command line."""

from __future__ import annotations

import json
import re

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock
from tests.support.newcomer import NewcomerWalk
from tests.support.until import wait_until

LINE = "docs/command-line.md"


@step(LINE, "A payment, from order to refund", 0)
async def from_order_to_refund(walk: NewcomerWalk, block: DocumentBlock) -> None:
    text = await walk.shell.run(block.text)
    link = await walk.shell.value("LINK")
    payment_id = link.rpartition("/")[2]
    assert payment_id.startswith("pay_")
    assert "Corner Café asks for 12.50 USD, test data" in text
    assert re.search(r"^succeeded  version \d  transaction 0x", text, re.MULTILINE)
    assert re.search(rf"^Payment +{payment_id}$", text, re.MULTILINE)
    # shown, followed, listed, and refunded
    assert re.search(r"^version 2  succeeded  12.50 tUSD  0x", text, re.MULTILINE)
    assert re.search(rf"^{payment_id}  succeeded  .*  order-2001$", text, re.MULTILINE)
    assert re.search(r"^succeeded  12.50 tUSD  0x", text.splitlines()[-1])


@step(LINE, "A payment, from order to refund", 1)
async def refunds_of_parts(walk: NewcomerWalk, block: DocumentBlock) -> None:
    text = await walk.shell.run(block.text)
    assert re.search(r"^succeeded  5.00 tUSD  0x", text, re.MULTILINE)
    assert re.search(r"^succeeded  0.75 tUSD  0x", text, re.MULTILINE)
    shown = text.rpartition("Payment ")[2]
    assert re.search(r"^Left to refund +6.75 tUSD$", shown, re.MULTILINE)
    assert shown.count("a broken cup") == 1


@step(LINE, "Addresses", 0)
async def addresses(walk: NewcomerWalk, block: DocumentBlock) -> None:
    text = await walk.shell.run(block.text)
    assert re.search(r"^Send +12.50 tUSD on ", text, re.MULTILINE)
    assert re.search(r"^succeeded  version \d  transaction 0x", text, re.MULTILINE)

    async def is_final() -> bool:
        text = await walk.shell.run("florin addresses list $SENT")
        return re.search(r"^12.50 tUSD +final +eip155:", text, re.MULTILINE) is not None

    # with the next look at addresses, a second later
    await wait_until(is_final)


@step(LINE, "Pay as programs do", 0)
async def a_program(walk: NewcomerWalk, block: DocumentBlock) -> None:
    text = await walk.shell.run(block.text)
    assert re.search(
        r"^eth_signTypedData_v4  lets the server send 12.50 tUSD to", text, re.MULTILINE
    )
    assert re.search(r"^succeeded  version \d  transaction 0x", text, re.MULTILINE)


@step(LINE, "API keys with scopes", 0)
async def keys_that_may_do_less(walk: NewcomerWalk, block: DocumentBlock) -> None:
    text = await walk.shell.run(block.text)
    reader = await walk.shell.value("READER")
    assert reader.startswith("fl_test_pk_")
    key_id = reader.split("_")[3]
    assert re.search(rf"^{key_id} .* read +- +never +Dashboard$", text, re.MULTILINE)
    assert await walk.shell.value("FLORIN_MERCHANT_ID") in text
    assert await walk.shell.value("FLORIN_MERCHANT_DESTINATION") in text


@step(LINE, "Leases", 0)
async def leases(walk: NewcomerWalk, block: DocumentBlock) -> None:
    heading, *held = (await walk.shell.run(block.text)).splitlines()
    assert heading.split()[0] == "Lease"
    # keys of former chains have leases that no process holds
    pattern = r"relayer:\S+ +held +\S+Z +\d+ s ago +\d+ +\S+:[0-9a-f]{16}$"
    assert any(re.match(pattern, line) for line in held), held
    for line in held:
        assert re.match(r"relayer:\S+ +(held|lapsed|free) ", line), line


@step(LINE, "For scripts", 0)
async def for_scripts(walk: NewcomerWalk, block: DocumentBlock) -> None:
    paid, why, ended = (await walk.shell.run(f"(\n{block.text}\n) 2>&1")).splitlines()
    assert ended == "ended with 3"
    assert json.loads(paid)["status"]["status"] == "succeeded"
    assert json.loads(why)["error"]["code"] == "payment_not_found"


@step(LINE, "Completion", 0)
async def completion(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await walk.shell.run(block.text)
    request = "COMP_WORDS='florin pay' COMP_CWORD=1 _FLORIN_COMPLETE=complete_bash florin"
    assert {"pay", "payments", "payouts"} <= {*(await walk.shell.run(request)).split()}
    assert "_florin_completion" in await walk.shell.run("complete -p florin; rm florin.bash")


@step("docs/payments.md", "With an order", 0)
async def payment_with_an_order(walk: NewcomerWalk, block: DocumentBlock) -> None:
    payment_id = (await walk.shell.run(block.text)).strip().rpartition("/")[2]
    shown = json.loads(await walk.shell.run(f"florin payments show {payment_id} --json"))
    assert [line["amount"] for line in shown["lines"]] == ["900", "350"]
    assert shown["metadata"] == {"shift": "morning", "table": "7"}
