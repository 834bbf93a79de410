"""Steps for the documents of clients."""

from __future__ import annotations

import re
import tomllib

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock
from tests.support.newcomer import NewcomerWalk

CLIENT = ["pip install florin-client", "pip install 'florin-client[wallet]'"]


@step("docs/clients.md", "Python", 0)
async def client(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert block.lines == CLIENT[1:]
    project = tomllib.loads((walk.folder / "client/pyproject.toml").read_text())["project"]
    assert project["name"] == "florin-client"
    assert "wallet" in project["optional-dependencies"]


async def script(walk: NewcomerWalk, block: DocumentBlock) -> list[str]:
    """Return the lines that a script prints."""
    file = walk.folder.parent / "script.py"
    file.write_text(block.text)
    return (await walk.shell.run(f"python {file}")).splitlines()


@step("docs/clients.md", "Python", 1)
async def client_and_wallet(walk: NewcomerWalk, block: DocumentBlock) -> None:
    request, paid = await script(walk, block)
    assert re.fullmatch(r"to be paid: http://\S+/pay_\w+", request)
    assert re.fullmatch(r"PAYMENT_STATUS_SUCCEEDED 0x\w{64}", paid)


@step("docs/clients.md", "Python", 2)
async def client_with_asyncio(walk: NewcomerWalk, block: DocumentBlock) -> None:
    *result, listed = await script(walk, block)
    assert result[-1].endswith(" PAYMENT_STATUS_SUCCEEDED")
    assert listed == "True"


@step("docs/clients.md", "Python", 3)
async def client_that_refunds_parts(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert await script(walk, block) == [
        "500 REFUND_STATUS_SUCCEEDED a broken cup",
        "75 REFUND_STATUS_SUCCEEDED too late",
        "left: 675",
        "already_refunded 6750000",
    ]


@step("docs/clients.md", "Python", 4)
async def client_that_is_refused(walk: NewcomerWalk, block: DocumentBlock) -> None:
    form = 'must be a whole number of minor units as a string: "1250" for 12.50 USD'
    assert await script(walk, block) == [
        "payment_not_found 404",
        f"params_validation [('amount.value', {form!r})]",
    ]


@step("client/README.md", "", 0)
async def distribution(_walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert block.lines == CLIENT


@step("client/README.md", "", 1)
async def shortest_client(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (request,) = await script(walk, block)
    assert request.startswith("to be paid: http")


@step("docs/clients.md", "Node", 0)
async def node(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """A separate test runs this text."""
    test = (walk.folder / "tests/e2e/client/test_client_node.py").read_text()
    assert all(repr(text).replace("'", '"') in test for text in block.place[:2])


@step("client/typescript/README.md", "Quick start", 0)
@step("client/typescript/README.md", "Webhooks", 0)
async def typescript(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """A separate test runs this text."""
    test = (walk.folder / "tests/e2e/client/test_typescript_client.py").read_text()
    assert all(f'"{text}"' in test for text in block.place[:2])


@step("docs/clients.md", "TypeScript", 0)
async def package_of_typescript(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (line,) = block.lines
    folder = line.removeprefix("cd ").partition(" && ")[0]
    assert line == f"cd {folder} && npm install && npm pack"
    assert (walk.folder / folder / "package-lock.json").is_file()


@step("docs/clients.md", "Go", 0)
@step("docs/clients.md", "Go", 1)
@step("docs/clients.md", "PHP", 0)
@step("docs/clients.md", "PHP", 1)
async def without_a_client(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """A separate test runs this text."""
    test = (walk.folder / "tests/e2e/client/test_client_programs.py").read_text()
    assert f'("{block.place[1]}", ' in test
