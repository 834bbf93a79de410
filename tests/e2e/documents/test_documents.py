"""The documents, followed from top to bottom and verbatim, in the state of a fresh clone.

Every block is run, saved or inserted where its document says; a block without a step fails the
test, unless it is only an illustration (`SHOWN`).

Only these points differ from a newcomer's day:

- `.venv` is there already, with what `make setup` would install into it (nothing is fetched).
- Ports are any that are free, by FLORIN_HTTP_PORT and FLORIN_GRPC_PORT.
- The node of the real chain is an embedded chain that says it is Base (`REAL_CHAIN`), and the file
  with the password is where the test may write.
- Targets of make other than `demo` are expanded (`make -n`) and not run: this test is part of one.
- Jupyter takes any port that is free, and opens nothing (JUPYTER_PORT, BROWSER).
- `pip install` is looked at, not run (`EXPORTS`, `CLIENT`); the client in Node is run by
  `tests/e2e/client/test_client_node.py`, which is skipped where there is no Node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from eth_utils import keccak
from florin.v1 import refund_pb2
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.settings import Settings
from florin_server.settings.amounts import CurrencyAmounts
from google.protobuf import json_format

from tests.e2e.documents import (  # noqa: F401  (their steps)
    addresses,
    clients,
    commands,
    data,
    hooks,
    receipts,
    store,
    tutorials,
)
from tests.e2e.documents.steps import STEPS, step
from tests.support import foreign_chains
from tests.support.documents import (
    CONTRIBUTING,
    DocumentBlock,
    check_request,
    check_settings_taken,
    insert_fragment,
    list_blocks,
    parse_chain,
)
from tests.support.newcomer import PATIENCE_S, NewcomerWalk, run_typed, start_walk, wait_output
from tests.support.screening import make_sdn_list
from tests.support.until import wait_until as so

REAL_CHAIN = ("@base-node.url", "/run/secrets/florin-keystores")
SHOWN = {"text", "mermaid"}
LISTED, OTHER = "0x" + "bb" * 20, "0x" + "cc" * 20
EURC, USDC = (
    "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42",
    "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913",
)
SOLANA = """
[[solana_chains]]
reference = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"
rpc_url = "https://solana.node.example"
treasury = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("curl") is None or shutil.which("make") is None,
        reason="the documents type both",
    ),
]


@pytest.fixture
async def walk(tmp_path) -> AsyncIterator[NewcomerWalk]:
    async with start_walk(tmp_path) as walk:
        yield walk


async def test_the_documents_are_followed_from_top_to_bottom(walk):
    for block in list_blocks():
        if block.place in STEPS:
            await STEPS[block.place](walk, block)


def test_every_documented_block_has_a_step_and_is_executed():
    blocks = [block for block in list_blocks() if block.place[0] not in CONTRIBUTING]
    places = {block.place for block in blocks}
    shown = {block.place for block in blocks if block.kind in SHOWN}
    assert STEPS.keys() <= places
    assert places - shown <= STEPS.keys(), "no step follows these"


# from the first payment on


@step("README.md", "Two commands", 0)
async def two_commands(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert block.lines == ["make demo", "make test"]
    make = await asyncio.create_subprocess_exec(
        *block.lines[0].split(),
        cwd=walk.folder,
        env=walk.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    walk.services.append(make)
    text = await wait_output(make, "Ctrl-C ends it.")
    assert re.search(r"^succeeded  transaction 0x", text, re.MULTILINE)
    await walk.shell.run("make -n test")


@step("README.md", "Your first payment", 0)
async def first_payment_by_commands(walk: NewcomerWalk, block: DocumentBlock) -> None:
    environment, create, pay, tail = block.lines
    await walk.shell.run(environment)
    (link,) = re.findall(r"http\S+pay_\w+", await walk.shell.run(create))
    await walk.shell.run(pay.replace("LINK", link))
    assert "succeeded" in await walk.shell.run(tail.replace("LINK", link))


@step("docs/first-payment.md", "In a shell", 0)
async def first_payment(walk: NewcomerWalk, block: DocumentBlock) -> None:
    created, confirmed, *stream = (await walk.shell.run(block.text)).splitlines()
    assert json.loads(created)["status"] == "requires_action"
    # the status depends on the machine's speed; the stream shows the end
    assert json.loads(confirmed)["status"] in {"processing", "succeeded"}
    states = [json.loads(line[5:]) for line in stream if line.startswith("data:")]
    assert (states[-1]["status"], states[-1]["isFinal"]) == ("succeeded", True)


@step("docs/payments.md", "In Python, over gRPC", 0)
async def merchants_side(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """The next block runs it, and pays the payment that it waits for."""
    (walk.folder / "merchant.py").write_text(block.text)
    # git ignores it, so `make test` does not check it
    assert "/merchant.py" in (walk.folder / ".gitignore").read_text().splitlines()


@step("docs/payments.md", "In Python, over gRPC", 1)
async def both_sides(walk: NewcomerWalk, block: DocumentBlock) -> None:
    confirmed, *log = (await walk.shell.run(block.text)).splitlines()
    # the status depends on the machine's speed; the log shows the end
    assert json.loads(confirmed)["status"] in {"processing", "succeeded"}
    payment_id = await walk.shell.value("WAITING")
    request, *result = [line for line in log if line]
    assert request == f"to be paid: {payment_id}"
    states = [
        "0 PAYMENT_STATUS_REQUIRES_ACTION",
        "1 PAYMENT_STATUS_PROCESSING",
        "2 PAYMENT_STATUS_SUCCEEDED",
    ]
    # in their order; short-lived states may be skipped
    assert result == [state for state in states if state in result]
    assert result[-1] == states[-1]


@step("docs/payments.md", "In a browser", 0)
async def back_to_the_shop(walk: NewcomerWalk, block: DocumentBlock) -> None:
    payment_id = json.loads(await walk.shell.run(block.text))["paymentId"]
    assert "shop.example" not in await walk.page(payment_id)
    await walk.shell.run(f"pay {payment_id}")
    url = f"{await walk.shell.value('FLORIN_BASE_URL')}/v1/gateway/payment/{payment_id}/status"
    headers = {"App-Id": await walk.shell.value("FLORIN_APP_ID"), "Client-Id": "florin-demo-client"}
    async with walk.session.get(f"{url}?maxPollMs=25000", headers=headers) as answer:
        assert (await answer.json())["status"] == "succeeded"
    link = f"https://shop.example/thanks?order=1002&amp;payment_id={payment_id}"
    assert f'href="{link}"' in await walk.page(payment_id)


@step("docs/payments.md", "In a notebook", 0)
async def notebooks(walk: NewcomerWalk, block: DocumentBlock) -> None:
    async with run_typed(walk, f"export BROWSER=true JUPYTER_PORT=0\n{block.text}") as lab:
        text = await wait_output(lab, "/lab?token=")
        link = urlsplit(re.findall(r"http://\S+", text)[-1])
        url = f"http://127.0.0.1:{link.port}/api/contents?{link.query}"

        async def listed() -> set[str]:
            # it prints its address a moment before it listens
            with contextlib.suppress(aiohttp.ClientConnectorError):
                async with walk.session.get(url) as answer:
                    return {item["name"] for item in (await answer.json())["content"]}
            return set()

        names = await so(listed)
        assert {"00_start_here.ipynb", "lab.py"} <= names


@step("docs/sandbox.md", "", 0)
async def every_outcome(walk: NewcomerWalk, block: DocumentBlock) -> None:
    result = [json.loads(line) for line in (await walk.shell.run(block.text)).splitlines() if line]
    succeeded, failed, moved, expired, reverts, fault = result
    assert [item["status"] for item in (succeeded, failed, expired)] == [
        "succeeded",
        "failed",
        "expired",
    ]
    assert moved["movable"] is True
    assert reverts["result"] is fault["result"] is True
    # armed faults hit the next payments; the ones below must not be hit
    assert "cleared" in await walk.shell.run("florin faults clear && echo cleared")


@step("docs/sandbox.md", "Days of payments", 0)
async def days_of_payments(walk: NewcomerWalk, block: DocumentBlock) -> None:
    text = await walk.shell.run(block.text)
    assert text.startswith("60 payments in 2 days")
    assert "Checked: every payment ended as its buyer expects" in text
    assert text.rstrip().endswith("the ledger balances")
    # it was made beside the sources
    shutil.rmtree(walk.folder / "simulated")


# settings


@step("docs/payment-methods.md", "Tokens", 0)
@step("docs/payment-methods.md", "Tokens", 1)
@step("docs/payment-methods.md", "Accounts that do not exist yet", 0)
@step("docs/payment-methods.md", "Native coin", 0)
@step("docs/solana.md", "", 0)
@step("docs/x402.md", "The facilitator", 0)
@step("docs/payments.md", "In a browser", 1)
@step("docs/checkout.md", "Operator settings", 0)
@step("docs/prices.md", "Sources", 0)
@step("docs/nodes-and-relayers.md", "Nodes", 0)
@step("docs/nodes-and-relayers.md", "Relayers", 0)
@step("docs/nodes-and-relayers.md", "Relayers", 1)
@step("docs/buyer-data.md", "", 0)
@step("docs/archive.md", "", 0)
@step("docs/real-chains.md", "Write one by hand", 0)
@step("docs/deployment.md", "TLS", 0)
@step("docs/deployment.md", "TLS", 1)
@step("docs/tutorials/operator.md", "Install", 2)
@step("docs/monitoring.md", "Traces", 0)
async def fragment(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Load the block in florin.toml, beside the documents' complete chain, and in a chain file."""
    (total,) = [
        each_block.text for each_block in list_blocks() if "chain_id = 8453" in each_block.text
    ]
    base = total + SOLANA
    # the prices read a feed of a chain that must be in the settings
    if "eip155:1" in block.text:
        base = base.replace("chain_id = 8453", "chain_id = 1").replace('"USDC", "WETH"', '"USDC"')
    text = base if block.text == total else insert_fragment(base, block.text)
    settings = loaded(walk.folder.parent / f"settings-{len(block.text)}", text)
    sent_text = tomllib.loads(text)
    for name in tomllib.loads(block.text):
        if name not in {"chains", "solana_chains"}:
            check_settings_taken(settings, {name: sent_text[name]})
    for name, kind in (("chains", "evm"), ("solana_chains", "solana")):
        (chain,) = getattr(settings, name)
        assets = sent_text[name][0].pop("assets", None)
        check_settings_taken(chain, sent_text[name][0])
        if assets is not None:
            check_settings_taken(chain.assets[0], assets[0])
        own_file(text, name, kind, chain)


@step("docs/chains.md", "When a payment is final", 0)
async def larger_amounts(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (total,) = [
        each_block.text for each_block in list_blocks() if "chain_id = 8453" in each_block.text
    ]
    own = total.replace("[[chains]]", "[evm]") + block.text.replace("EURC", "WETH")
    chain = parse_chain(own)
    usdc, _ = (token.address for token in chain.assets)
    amounts = (999_990_000, 1_000_000_000, 50_000_000_000)
    assert [chain.final_after(usdc, amount) for amount in amounts] == [10, 60, 1800]


@step("docs/prices.md", "Bounds and fees in a currency", 0)
async def bounds_in_currencies(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (total,) = [
        each_block.text for each_block in list_blocks() if "chain_id = 8453" in each_block.text
    ]
    settings = loaded(walk.folder.parent / "settings-of-bounds", insert_fragment(total, block.text))
    assert settings.amount_min == CurrencyAmounts({"USD": 50})
    assert settings.fee_fixed == CurrencyAmounts({"USD": 30, "EUR": 25})


def loaded(folder: Path, text: str) -> Settings:
    """Return the settings as a Florin that is started there has them."""
    folder.mkdir()
    (folder / "florin.toml").write_text(text)
    with pytest.MonkeyPatch.context() as changed:
        changed.chdir(folder)
        for name in os.environ:
            if name.startswith("FLORIN_"):
                changed.delenv(name)
        return Settings()


def own_file(text: str, name: str, kind: str, chain: Any) -> None:
    """Assert that the same lines below `[evm]` or `[solana]` have the same meaning."""
    table = rf"^\[\[{name}\]\].*?(?=^\[(?!\[{name}\.)|\Z)"
    (lines,) = re.findall(table, text, re.MULTILINE | re.DOTALL)
    more = re.findall(rf"^\[\[{name}\..*?(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    own = "".join([lines, *(item for item in more if item not in lines)])
    own = own.replace(f"[[{name}]]", f"[{kind}]").replace(f"[[{name}.", f"[[{kind}.")
    read = parse_chain(own)
    assert read.model_dump(exclude={"name"}) == chain.model_dump(exclude={"name"})


# a real chain


def usd_coin() -> bytes:
    """Return the test token's code with the name of Base's USDC, which its signatures include."""
    code = load_artifact("TestDollar").runtime
    named = (b"\x60\x0b\x81\x52\x7fTest Dollar", b"\x60\x08\x81\x52\x7fUSD Coin\0\0\0")
    hashed = (keccak(b"Test Dollar"), keccak(b"USD Coin"))
    for former, changed in (named, hashed):
        assert code.count(former) == 1
        code = code.replace(former, changed)
    return code


@step("docs/real-chains.md", "Add a chain with a command", 0)
async def real_chain(walk: NewcomerWalk, block: DocumentBlock) -> None:
    password = walk.folder.parent / "password"
    password.write_text("correct horse")
    there = {USDC: usd_coin(), EURC: load_artifact("TestDollar").runtime}
    async with foreign_chains.open_embedded(8453, there) as chain:
        # more blocks than make one final, as on any real chain
        await chain.ask("evm_mine", {"blocks": 50})
        script = block.text
        for former, changed in zip(REAL_CHAIN, (chain.url, str(password)), strict=True):
            assert script.count(former) == 1
            script = script.replace(former, changed)
        # the comment asks for a manual step, between two commands
        before, comment, after = script.partition("# give the relayer some coin")
        assert comment
        async with run_typed(walk, before) as shell:
            text = (await asyncio.wait_for(shell.communicate(), PATIENCE_S))[0].decode()
            assert shell.returncode == 0, text
        (relayer,) = re.findall(r"^Relayer: (0x\w+)$", text, re.MULTILINE)
        await chain.fund(relayer)
        exports = "".join(line for line in before.splitlines(True) if line.startswith("export"))
        async with run_typed(walk, exports + comment + after, answer="y\n") as shell:
            text = await wait_output(shell, "Ctrl-C ends it.")
        assert "Base" in text


# the operator


@step("docs/merchants.md", "A partner of your own", 0)
async def partner(walk: NewcomerWalk, block: DocumentBlock) -> None:
    out = await walk.shell.run(block.text)
    places, bank, info = (line for line in out.splitlines() if line)
    (place,) = json.loads(places)["settlements"]
    assert place["id"].startswith("crypto_")
    assert bank.startswith("fiat_")
    assert json.loads(info)["merchant"]["name"] == "Tea House"
    assert json.loads(info)["status"] == "requires_action"
    ids = await walk.shell.run("echo $MERCHANT $APP_ID $WALLET_KEY")
    assert re.fullmatch(r"tea-house app_\w{17} fl_test_wk_\w+", ids.strip())


@step("docs/payouts.md", "Refunds", 0)
async def refund(walk: NewcomerWalk, block: DocumentBlock) -> None:
    request = json.loads(await walk.shell.run(block.text))
    assert request["refundId"].startswith("rfnd_")
    payment = "as_merchant $FLORIN_BASE_URL/v1/payments/$PAYMENT_ID"

    async def over() -> Any:
        reported_refund = json.loads(await walk.shell.run(payment))["refund"]
        return reported_refund if "completedAt" in reported_refund else None

    result = await so(over, patience_s=PATIENCE_S)
    assert (result["status"], result["txId"][:2]) == ("succeeded", "0x")


@step("docs/payouts.md", "Refunds", 1)
async def refund_request(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Build the body of a request for a partial refund, whose payment alone varies."""
    body = json_format.ParseDict(json.loads(block.text), refund_pb2.CreateRefundRequest())
    body.payment_id = "pay_" + "0" * 24
    check_request(body)
    assert (body.amount.unit, body.amount.value, body.reason != "") == ("iso4217/USD", "500", True)


@step("docs/payouts.md", "Payouts", 0)
async def payouts(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Use a merchant with money in the treasury, while the treasury's executors are paused."""
    assert '"succeeded"' in (await walk.shell.run(OWED)).splitlines()[-1]
    executors = await walk.shell.run("florin executors list")
    treasuries = re.findall(r"^(eip155:\S+)", executors, re.MULTILINE)
    await walk.shell.run("\n".join(f"florin executors pause {treasury}" for treasury in treasuries))
    *_, resolve = block.text.splitlines()
    out = await walk.shell.run(block.text.removesuffix(resolve + "\n"))
    payout = await walk.shell.value("PAYOUT")
    assert re.search(rf"^{payout} .*waiting", out, re.MULTILINE)
    assert f"{payout} is refused." in out
    status, out, err = await walk.shell.run_with_output(resolve)
    assert (status, out.strip()) == (6, "")
    assert "Not done: " in err
    await walk.shell.run(
        "\n".join(f"florin executors resume {treasury}" for treasury in treasuries)
    )


OWED = """
MERCHANT=$(florin merchants import late-house --partner $PARTNER --name "Late House" \\
  --email owner@late-house.example)
late() { curl -s -H "Api-Key: $PARTNER_KEY" -H "Merchant-Id: $MERCHANT" \\
  -H 'Content-Type: application/json' "$@"; }
OWED=$(late $FLORIN_BASE_URL/v1/payments \\
  -d '{"amount": {"unit": "iso4217/USD", "value": "1250"}}' | member '["paymentId"]')
pay $OWED
late $FLORIN_BASE_URL/v1/merchants/$MERCHANT/settlements/crypto -H 'Idempotency-Key: late' \\
  -d "{\\"settlements\\": [{\\"asset\\": \\"$FLORIN_EVM_ASSET\\",
       \\"destination\\": \\"$FLORIN_MERCHANT_DESTINATION\\"}]}" > /dev/null
late "$FLORIN_BASE_URL/v1/payments/$OWED/status?maxPollMs=25000"
"""


@step("docs/books.md", "", 0)
async def the_books(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Use a relayer that was topped up."""
    output = await walk.shell.run("florin ledger check")
    wallet, *_ = re.findall(r"\b(eip155:31337:0x\w+)", output)
    coin = "eip155:31337/slip44:60"
    have = int(await walk.ask_chain("eth_getBalance", wallet.rpartition(":")[2], "latest"), 16)
    gift = {"accounts": [wallet.rpartition(":")[2]], "nativeWei": hex(have + 10**18)}
    await walk.ask_chain("florin_faucet", {**gift, "tokenUnits": "0x0"})
    # books are compared with final balances only
    await walk.ask_chain("evm_mine", {"blocks": 5})
    out = await walk.shell.run(f"WALLET={wallet} COIN={coin}\n{block.text}")
    assert "✓ the ledger balances" in out
    assert "unbooked" in out


# exports


@step("docs/screening.md", "Lists", 0)
async def lists(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (walk.folder / "sdn_advanced.xml").write_text(make_sdn_list(("ETH", LISTED), day="2026-01-14"))
    (walk.folder / "own.txt").write_text(f"# mine\n{OTHER}\n")
    status, out, err = await walk.shell.run_with_output(block.text)
    assert status == 0, err
    assert out.split("\n")[:2] == ["sdn has 1 addresses.", "own has 1 addresses."]
    assert "Not blocked: it is on no list." in err


@step("docs/screening.md", "Money of blocked payers", 0)
async def verdicts(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """No money is held here; other tests cover the effect of each command on held money."""
    held, *decided = block.text.splitlines()
    await walk.shell.run(held)
    for line in decided:
        status, out, err = await walk.shell.run_with_output(f"HELD=$PAYMENT_ID\n{line}")
        assert (status, out.strip()) == (1, ""), (line, out)
        assert "Not done: " in err, err


@step("docs/deployment.md", "Backup", 0)
async def backup(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """The lists of the step before are as old as they say, and the doctor reports that."""
    _, out, err = await walk.shell.run_with_output(block.text)
    assert err == ""
    assert "✓ store opens: SQLite " in out
    assert "✓ ledger balances\n" in out
    assert re.findall("^✗ ([a-z_: ]+): ", out, re.MULTILINE) == [
        "installation: screening_lists_old"
    ]


@step("docs/alarms.md", "FlorinStandsStill", 0)
async def set_aside(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """No item is quarantined: the output has a heading, and nothing to retry."""
    (heading,) = (await walk.shell.run(block.text)).splitlines()
    assert heading.split()[:2] == ["Item", "id"]


@step("docs/deployment.md", "Alarms", 0)
async def alarms(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """The doctor's one complaint is the coin that the books do not know of."""
    ready, *result = (await walk.shell.run(block.text)).splitlines()
    assert json.loads(ready) == {"status": "ready"}
    assert result
