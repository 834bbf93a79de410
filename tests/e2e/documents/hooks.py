"""Steps for the documents of webhooks and of the examples, in three terminals."""

from __future__ import annotations

import asyncio
import json
import re
import socket

from florin.v1 import webhook_pb2
from florin_server.domain.webhooks.endpoint import DEPOSIT_TYPES

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock, check_request
from tests.support.newcomer import (
    PATIENCE_S,
    NewcomerWalk,
    interrupt,
    run_typed,
    start_terminal,
    wait_output,
)
from tests.support.until import wait_until as so

HOOKS, EXAMPLES = "docs/webhooks.md", "docs/examples.md"
# the exports that each terminal reads first, as in "Your first payment"
TERMINAL = 'set -a; . .florin/demo.env; set +a\nexport PATH="$PWD/.venv/bin:$PATH"\n'


def elsewhere(walk: NewcomerWalk, text: str) -> str:
    """Return the text with a free port."""
    if walk.port is None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            walk.port = server.getsockname()[1]
    assert "3000" in text
    return text.replace("3000", str(walk.port))


@step(HOOKS, "An endpoint", 0)
async def endpoint(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert (await walk.shell.run(block.text)).startswith("whsec_")


@step(HOOKS, "An endpoint", 1)
async def listed_and_deleted(walk: NewcomerWalk, block: DocumentBlock) -> None:
    endpoint_id = await walk.shell.value("ENDPOINT_ID")
    text = await walk.shell.run(block.text)
    assert re.search(rf"^{endpoint_id} .* https://shop.example/florin$", text, re.MULTILINE)
    assert endpoint_id not in await walk.shell.run("florin webhooks list")


@step(HOOKS, "Events", 0)
async def a_body(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Compare with the body of an event that is taken from an endpoint without a URL."""
    output = await walk.shell.run(TAKEN)
    (taken,) = json.loads(output.splitlines()[-1])["events"]
    body, shown = json.loads(taken["body"]), json.loads(block.text)
    assert body.keys() == shown.keys()
    assert shown["data"].keys() == body["data"].keys()
    assert body["api_version"] == shown["api_version"]


@step(HOOKS, "Deposits", 0)
async def an_endpoint_of_deposits(walk: NewcomerWalk, block: DocumentBlock) -> None:
    request = webhook_pb2.CreateWebhookEndpointRequest(**json.loads(block.text))
    check_request(request)
    assert {*DEPOSIT_TYPES} < {*request.events}


@step(HOOKS, "Deposits", 1)
async def a_deposit(walk: NewcomerWalk, block: DocumentBlock) -> None:
    shown = json.loads(block.text)["deposit"]
    assert list(shown) == list(webhook_pb2.WebhookDeposit.DESCRIPTOR.fields_by_name)


TAKEN = """
hooks() { curl -s $FLORIN_BASE_URL/v1/webhook-endpoints$1 -H "Api-Key: $FLORIN_PARTNER_KEY" \\
  -H 'Content-Type: application/json' "${@:2}"; }
TAKER=$(hooks '' -d '{}' | member '["endpoint"]["id"]')
florin trigger created > /dev/null
hooks /$TAKER/take -d '{}' > taken.json
hooks /$TAKER -X DELETE > /dev/null
cat taken.json; rm taken.json
"""


@step(HOOKS, "Verify", 0)
async def receiver(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Run as described in "On your machine"."""
    (walk.folder / block.file).write_text(elsewhere(walk, block.text))
    assert f"/{block.file}" in (walk.folder / ".gitignore").read_text().splitlines()


@step(HOOKS, "Verify", 1)
async def node(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """A separate test runs this text."""
    test = (walk.folder / "tests/e2e/webhooks/test_webhooks.py").read_text()
    assert all(repr(text).replace("'", '"') in test for text in block.place[:2])


@step(HOOKS, "On your machine", 0)
@step(EXAMPLES, "A shop", 0)
async def listening(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await start_terminal(walk, "listen", TERMINAL + elsewhere(walk, block.text))
    text = await wait_output(walk.terminals["listen"], "whsec_")
    walk.secret = text.split()[-1]


async def serving(walk: NewcomerWalk, name: str, text: str) -> None:
    """Start a server in a terminal of its own; return once it takes connections."""
    assert text.count("whsec_…") == 1
    assert walk.secret
    script = f"export SHOP_PORT={walk.port}\n{text.replace('whsec_…', walk.secret)}"
    await start_terminal(walk, name, TERMINAL + script)

    async def takes_connections() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", walk.port)
        except OSError:
            assert walk.terminals[name].returncode is None
            return False
        writer.close()
        return True

    await so(takes_connections, True, patience_s=PATIENCE_S)


@step(HOOKS, "On your machine", 1)
async def received(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await serving(walk, "server", block.text)


@step(HOOKS, "On your machine", 2)
async def triggered(walk: NewcomerWalk, block: DocumentBlock) -> None:
    payment_id = (await walk.shell.run(block.text)).strip()
    assert await wait_output(walk.terminals["server"], f"payment.succeeded {payment_id}")
    await interrupt(walk.terminals["server"])
    await interrupt(walk.terminals["listen"])


@step(EXAMPLES, "A shop", 1)
async def shop(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await serving(walk, "shop", block.text)


@step(EXAMPLES, "A shop", 2)
async def ordered(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Order as a buyer who agrees to pay."""
    member = """member() { python -c "import json, sys; print(json.load(sys.stdin)$1)"; }\n"""
    async with run_typed(
        walk, TERMINAL + member + elsewhere(walk, block.text), answer="y\n"
    ) as shell:
        text = (await asyncio.wait_for(shell.communicate(), PATIENCE_S))[0].decode()
        assert shell.returncode == 0, text
    assert "PAYMENT_STATUS_SUCCEEDED 0x" in text
    assert await wait_output(walk.terminals["shop"], "ships tea for shop-")
    await interrupt(walk.terminals["shop"])
    await interrupt(walk.terminals["listen"])


@step(EXAMPLES, "A terminal", 0)
async def terminal(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await start_terminal(walk, "terminal", TERMINAL + block.text)
    text = await wait_output(walk.terminals["terminal"], "/pay_")
    await walk.shell.run(f"florin pay {text.split()[-1]}")
    assert await wait_output(walk.terminals["terminal"], "PAID pay_")
    await asyncio.wait_for(walk.terminals["terminal"].wait(), PATIENCE_S)


@step(EXAMPLES, "A job", 0)
async def job(walk: NewcomerWalk, block: DocumentBlock) -> None:
    output = await walk.shell.run(block.text)
    assert output == "1 orders, 1 paid, of which 0 are still owed by the operator\n"
