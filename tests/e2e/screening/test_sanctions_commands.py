"""`florin sanctions`, on a running Florin and on a stopped one."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
import uvloop

from tests.support.api import ApiCallError, RestApi
from tests.support.command import RunningCommand, get_refusal
from tests.support.screening import make_sdn_list
from tests.support.service import run_service
from tests.support.service_harness import ORDER
from tests.support.wallet import EvmTestWallet

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
    """Return a function that writes a file of a list."""

    def write(content: str, name: str = "sdn.xml") -> str:
        path = tmp_path / name
        path.write_text(content)
        return str(path)

    return write


async def serves(env: dict[str, str], wallet: EvmTestWallet) -> bool:
    """Return whether a wallet gets any option."""
    async with aiohttp.ClientSession() as session:
        api = RestApi(session, env["FLORIN_BASE_URL"], env)
        payment_id = (await api.create(ORDER))["paymentId"]
        try:
            return bool((await api.options(payment_id, [wallet.account]))["options"])
        except ApiCallError as refused:
            if refused.code != "sanctioned_user":
                raise
            return False


def served(request, home: Path, wallet: EvmTestWallet) -> bool:
    async def once() -> bool:
        async with run_service(home) as service:
            return await serves(service.home.read_demo_env(), wallet)

    if request.node.callspec.params["home"] == "up":
        up: RunningCommand = request.getfixturevalue("up")
        return uvloop.run(serves(up.env, wallet))
    return uvloop.run(once())


def test_lists_are_imported_listed_checked_replaced_and_removed(request, home, forks, file):
    first, second = EvmTestWallet(), EvmTestWallet()
    content = make_sdn_list(
        ("ETH", first.address), ("SOL", SOLANA), ("XBT", BITCOIN), day="2024-09-27"
    )
    done = forks("sanctions", "import", file(content), home=home)
    assert (done.status, done.out) == (0, "sdn has 2 addresses.\n")
    left = "Skipped addresses of chains that Florin does not support: 1.\n"
    assert done.err == left
    lines = forks("sanctions", "list", home=home).out.splitlines()
    assert lines[0].split() == ["Name", "Addresses", "Published", "Imported", "SHA-256"]
    pattern = r"sdn   2          2024-09-27  \d{4}-\d\d-\d\dT\d\d:\d\dZ  [0-9a-f]{16}"
    assert re.fullmatch(pattern, lines[1])
    for account in (first.address, f"eip155:1:{first.address.lower()}", SOLANA):
        done = forks("sanctions", "check", account, home=home)
        assert (done.status, done.out, done.err) == (0, "sdn\n", "Blocked.\n")
    done = forks("sanctions", "check", second.address, home=home)
    assert (done.out, done.err) == ("", "Not blocked: it is on no list.\n")
    assert not served(request, home, first)
    assert served(request, home, second)

    # the doctor knows how old it is
    done = forks("doctor", home=home)
    assert done.status == 1
    subject = r"installation: screening_lists_old( since [\d-]+ [\d:]+ UTC)?"
    assert re.search(rf"✗ {subject}: screening list sdn is \d{{3,}} days old", done.out)

    plain = file(f"# mine\n{second.address}\n", "sdn.txt")
    done = forks("sanctions", "import", plain, "--published", "2024-09-28", home=home)
    assert (done.status, done.out) == (0, "sdn has 1 addresses, 2 before.\n")
    assert served(request, home, first)
    assert not served(request, home, second)

    assert forks("sanctions", "remove", "sdn", home=home).out == "sdn is removed.\n"
    assert forks("sanctions", "list", home=home).out.count("\n") == 1
    assert served(request, home, second)
    assert forks("doctor", home=home).status == 0


def test_list_imported_in_many_parts_is_a_single_list(home, forks, file):
    many = "\n".join(f"0x{number:040x}" for number in range(1, 25_002))
    done = forks("sanctions", "import", file(many, "many.txt"), home=home)
    assert (done.status, done.out, done.err) == (0, "many has 25001 addresses.\n", "")
    for number in (1, 10_001, 25_001):
        assert forks("sanctions", "check", f"0x{number:040x}", home=home).out == "many\n"
    few = file("\n".join(f"0x{number:040x}" for number in range(1, 12_000)), "few.txt")
    done = forks("sanctions", "import", few, "--name", "many", home=home)
    assert (done.status, done.out) == (1, "")
    assert "has 11999 addresses, and the current list has 25001" in get_refusal(done)
    assert forks("sanctions", "check", f"0x{25_001:040x}", home=home).out == "many\n"
    done = forks("sanctions", "import", few, "--name", "many", "--force", home=home)
    assert done.out == "many has 11999 addresses, 25001 before.\n"
    forks("sanctions", "remove", "many", home=home)


def test_a_file_that_is_no_list_is_refused(stopped, forks, file):
    before = forks("sanctions", "list", home=stopped).out
    for content, name, status, why in (
        ("<html></html>", "sdn.xml", 1, "sdn.xml was not imported: the XML is about 'html'"),
        ("<!DOCTYPE x><x/>", "sdn.xml", 1, "document type"),
        (make_sdn_list(("ETH", EvmTestWallet().address))[:-9], "sdn.xml", 1, "damaged XML"),
        (f"{BITCOIN}\n", "btc.txt", 1, "no address that Florin can screen"),
        ("0x11 0x12", "two.txt", 1, "more than an address"),
        ("0x" + "11" * 20, "with blank.txt", 2, "is not a name of a list"),
    ):
        done = forks("sanctions", "import", file(content, name), home=stopped)
        assert done.status == status
        assert why in get_refusal(done)
    done = forks("sanctions", "import", str(stopped / "missing.xml"), home=stopped)
    assert (done.status, get_refusal(done).startswith("missing.xml was not imported: ")) == (
        1,
        True,
    )
    dated = file(make_sdn_list(("ETH", EvmTestWallet().address), day="2024-09-27"))
    done = forks("sanctions", "import", dated, "--published", "2024-09-28", home=stopped)
    assert (done.status, "published on 2024-09-27" in get_refusal(done)) == (2, True)
    assert forks("sanctions", "list", home=stopped).out == before
