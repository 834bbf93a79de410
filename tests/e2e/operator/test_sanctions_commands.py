"""`florin sanctions`, on a Florin that runs and on one that is stopped."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
import uvloop

from tests.support.api import Refused, RestApi
from tests.support.command import Lasting, told
from tests.support.desk import ORDER
from tests.support.screening import sdn
from tests.support.service import running
from tests.support.wallet import Wallet

pytestmark = pytest.mark.long

SOLANA = "4" + "z" * 42
BITCOIN = "1" + "B" * 33


@pytest.fixture(params=["up", "stopped"])
def home(request):
    if request.param == "up":
        return request.getfixturevalue("up").home.path
    return request.getfixturevalue("stopped")


@pytest.fixture
def file(tmp_path):
    """Writes a file of a list."""

    def write(content: str, name: str = "sdn.xml") -> str:
        path = tmp_path / name
        path.write_text(content)
        return str(path)

    return write


async def serves(env: dict[str, str], wallet: Wallet) -> bool:
    """Whether a wallet is offered anything."""
    async with aiohttp.ClientSession() as session:
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        payment_id = (await api.create(ORDER))["paymentId"]
        try:
            return bool((await api.options(payment_id, [wallet.account]))["options"])
        except Refused as refused:
            if refused.code != "sanctioned_user":
                raise
            return False


def served(request, home: Path, wallet: Wallet) -> bool:
    async def once() -> bool:
        async with running(home) as service:
            return await serves(service.home.read_demo_env(), wallet)

    if request.node.callspec.params["home"] == "up":
        up: Lasting = request.getfixturevalue("up")
        return uvloop.run(serves(up.env, wallet))
    return uvloop.run(once())


def test_lists_are_imported_listed_checked_replaced_and_removed(request, home, forks, file):
    first, second = Wallet(), Wallet()
    content = sdn(("ETH", first.address), ("SOL", SOLANA), ("XBT", BITCOIN), day="2024-09-27")
    done = forks("sanctions", "import", file(content), home=home)
    assert (done.status, done.out) == (0, "sdn has 2 addresses.\n")
    left = "Left out, because they are of chains that Florin does not serve: 1.\n"
    assert done.err == left
    lines = forks("sanctions", "list", home=home).out.splitlines()
    assert lines[0].split() == ["Name", "Addresses", "Published", "Imported", "SHA-256"]
    pattern = r"sdn   2          2024-09-27  \d{4}-\d\d-\d\dT\d\d:\d\dZ  [0-9a-f]{16}"
    assert re.fullmatch(pattern, lines[1])
    for account in (first.address, f"eip155:1:{first.address.lower()}", SOLANA):
        done = forks("sanctions", "check", account, home=home)
        assert (done.status, done.out, done.err) == (0, "sdn\n", "Not served.\n")
    done = forks("sanctions", "check", second.address, home=home)
    assert (done.out, done.err) == ("", "Served: it is on no list.\n")
    assert not served(request, home, first)
    assert served(request, home, second)

    # the doctor knows how old it is
    done = forks("doctor", home=home)
    assert done.status == 1
    subject = r"installation: screening_lists_old( since [\d-]+ [\d:]+ UTC)?"
    assert re.search(rf"✗ {subject}: screening list sdn is \d{{3,}} days old", done.out)

    plain = file(f"# mine\n{second.address}\n", "sdn.txt")
    done = forks("sanctions", "import", plain, "--published", "2024-09-28", home=home)
    assert (done.status, done.out) == (0, "sdn has 1 addresses, 2 until now.\n")
    assert served(request, home, first)
    assert not served(request, home, second)

    assert forks("sanctions", "remove", "sdn", home=home).out == "sdn is removed.\n"
    assert forks("sanctions", "list", home=home).out.count("\n") == 1
    assert served(request, home, second)
    assert forks("doctor", home=home).status == 0


def test_a_list_of_many_parts_is_one(home, forks, file):
    many = "\n".join(f"0x{number:040x}" for number in range(1, 25_002))
    done = forks("sanctions", "import", file(many, "many.txt"), home=home)
    assert (done.status, done.out, done.err) == (0, "many has 25001 addresses.\n", "")
    for number in (1, 10_001, 25_001):
        assert forks("sanctions", "check", f"0x{number:040x}", home=home).out == "many\n"
    few = file("\n".join(f"0x{number:040x}" for number in range(1, 12_000)), "few.txt")
    done = forks("sanctions", "import", few, "--name", "many", home=home)
    assert (done.status, done.out) == (1, "")
    assert "has 11999 addresses, and 25001 until now" in told(done)
    assert forks("sanctions", "check", f"0x{25_001:040x}", home=home).out == "many\n"
    done = forks("sanctions", "import", few, "--name", "many", "--force", home=home)
    assert done.out == "many has 11999 addresses, 25001 until now.\n"
    forks("sanctions", "remove", "many", home=home)


def test_a_file_that_is_no_list_is_refused(stopped, forks, file):
    before = forks("sanctions", "list", home=stopped).out
    for content, name, status, why in (
        ("<html></html>", "sdn.xml", 1, "sdn.xml was not read: the XML is about 'html'"),
        ("<!DOCTYPE x><x/>", "sdn.xml", 1, "document type"),
        (sdn(("ETH", Wallet().address))[:-9], "sdn.xml", 1, "damaged XML"),
        (f"{BITCOIN}\n", "btc.txt", 1, "no address that could be screened"),
        ("0x11 0x12", "two.txt", 1, "more than an address"),
        ("0x" + "11" * 20, "with blank.txt", 2, "a list is named with"),
    ):
        done = forks("sanctions", "import", file(content, name), home=stopped)
        assert done.status == status
        assert why in told(done)
    done = forks("sanctions", "import", str(stopped / "missing.xml"), home=stopped)
    assert (done.status, told(done).startswith("missing.xml was not read: ")) == (1, True)
    dated = file(sdn(("ETH", Wallet().address), day="2024-09-27"))
    done = forks("sanctions", "import", dated, "--published", "2024-09-28", home=stopped)
    assert (done.status, "published on 2024-09-27" in told(done)) == (2, True)
    assert forks("sanctions", "list", home=stopped).out == before
