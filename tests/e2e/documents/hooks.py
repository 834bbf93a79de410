"""How the documents of webhooks and of the examples are followed: in three terminals."""

from __future__ import annotations

import asyncio
import json
import re
import socket

from tests.e2e.documents.steps import step
from tests.support.documents import Block
from tests.support.newcomer import PATIENCE_S, Walk, begun, ended, typed, until
from tests.support.until import until as so

HOOKS, EXAMPLES = "docs/webhooks.md", "docs/examples.md"
# what each terminal reads first, as in "Your first payment"
TERMINAL = 'set -a; . .florin/demo.env; set +a\nexport PATH="$PWD/.venv/bin:$PATH"\n'


def elsewhere(walk: Walk, text: str) -> str:
    """The same at a port that is free."""
    if walk.port is None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            walk.port = server.getsockname()[1]
    assert "3000" in text
    return text.replace("3000", str(walk.port))


@step(HOOKS, "An endpoint", 0)
async def endpoint(walk: Walk, block: Block) -> None:
    assert (await walk.shell.run(block.text)).startswith("whsec_")


@step(HOOKS, "An endpoint", 1)
async def listed_and_deleted(walk: Walk, block: Block) -> None:
    endpoint_id = await walk.shell.value("ENDPOINT_ID")
    said = await walk.shell.run(block.text)
    assert re.search(rf"^{endpoint_id} .* https://shop.example/florin$", said, re.MULTILINE)
    assert endpoint_id not in await walk.shell.run("florin webhooks list")


@step(HOOKS, "Events", 0)
async def a_body(walk: Walk, block: Block) -> None:
    """It is in the form of what an endpoint without a URL takes."""
    told = await walk.shell.run(TAKEN)
    (taken,) = json.loads(told.splitlines()[-1])["events"]
    body, shown = json.loads(taken["body"]), json.loads(block.text)
    assert body.keys() == shown.keys()
    assert shown["data"].keys() == body["data"].keys()
    assert body["api_version"] == shown["api_version"]


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
async def receiver(walk: Walk, block: Block) -> None:
    """It is run as "On your machine" says."""
    (walk.folder / block.file).write_text(elsewhere(walk, block.text))
    assert f"/{block.file}" in (walk.folder / ".gitignore").read_text().splitlines()


@step(HOOKS, "Verify", 1)
async def node(walk: Walk, block: Block) -> None:
    """Run elsewhere, by this very text."""
    test = (walk.folder / "tests/e2e/webhooks/test_webhooks.py").read_text()
    assert all(repr(one).replace("'", '"') in test for one in block.place[:2])


@step(HOOKS, "On your machine", 0)
@step(EXAMPLES, "A shop", 0)
async def listening(walk: Walk, block: Block) -> None:
    await begun(walk, "listen", TERMINAL + elsewhere(walk, block.text))
    said = await until(walk.beside["listen"], "whsec_")
    walk.secret = said.split()[-1]


async def serving(walk: Walk, name: str, text: str) -> None:
    """A server in a terminal of its own, once it takes connections."""
    assert text.count("whsec_…") == 1
    assert walk.secret
    script = f"export SHOP_PORT={walk.port}\n{text.replace('whsec_…', walk.secret)}"
    await begun(walk, name, TERMINAL + script)

    async def takes_connections() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", walk.port)
        except OSError:
            assert walk.beside[name].returncode is None
            return False
        writer.close()
        return True

    await so(takes_connections, True, patience_s=PATIENCE_S)


@step(HOOKS, "On your machine", 1)
async def received(walk: Walk, block: Block) -> None:
    await serving(walk, "server", block.text)


@step(HOOKS, "On your machine", 2)
async def triggered(walk: Walk, block: Block) -> None:
    payment_id = (await walk.shell.run(block.text)).strip()
    assert await until(walk.beside["server"], f"payment.succeeded {payment_id}")
    await ended(walk.beside["server"])
    await ended(walk.beside["listen"])


@step(EXAMPLES, "A shop", 1)
async def shop(walk: Walk, block: Block) -> None:
    await serving(walk, "shop", block.text)


@step(EXAMPLES, "A shop", 2)
async def ordered(walk: Walk, block: Block) -> None:
    """By somebody who agrees to pay."""
    member = """member() { python -c "import json, sys; print(json.load(sys.stdin)$1)"; }\n"""
    async with typed(walk, TERMINAL + member + elsewhere(walk, block.text), answer="y\n") as shell:
        said = (await asyncio.wait_for(shell.communicate(), PATIENCE_S))[0].decode()
        assert shell.returncode == 0, said
    assert "PAYMENT_STATUS_SUCCEEDED 0x" in said
    assert await until(walk.beside["shop"], "ships tea for shop-")
    await ended(walk.beside["shop"])
    await ended(walk.beside["listen"])


@step(EXAMPLES, "A terminal", 0)
async def terminal(walk: Walk, block: Block) -> None:
    await begun(walk, "terminal", TERMINAL + block.text)
    said = await until(walk.beside["terminal"], "/pay_")
    await walk.shell.run(f"florin pay {said.split()[-1]}")
    assert await until(walk.beside["terminal"], "PAID pay_")
    await asyncio.wait_for(walk.beside["terminal"].wait(), PATIENCE_S)


@step(EXAMPLES, "A job", 0)
async def job(walk: Walk, block: Block) -> None:
    told = await walk.shell.run(block.text)
    assert told == "1 orders, 1 paid, of which 0 are still owed by the operator\n"
