"""Fixtures: a running service, its chain, clients of every kind, and commands.

A fixture imports what it opens when it is used: a unit test alone loads no service.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import uvloop
from florin_server.app import memory
from hypothesis import HealthCheck, settings

from tests.support.chainlab import profiles, selection

if TYPE_CHECKING:
    import aiohttp
    from florin_server.app.service import FlorinService

    from tests.support.api import PaymentApi, RestApi
    from tests.support.chain import ChainClient
    from tests.support.chains import EvmChains
    from tests.support.command import CommandForks
    from tests.support.service_harness import ServiceHarness
    from tests.support.wallet import EvmTestWallet

_MANY = 1_000

# an environment that forbids it would have each process compile again what it imports
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# jsonschema, which notebooks need, would build 38 parsers of web addresses in each worker; it does
# without the package, and no test validates such an address
sys.modules.setdefault("rfc3987_syntax", None)


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files of tests/wire anew"
    )
    parser.addoption(
        "--chain-profile",
        choices=sorted(profiles.BY_NAME),
        help="the chain that the labs of the tests are like",
    )


def pytest_configure(config):
    """Use the same examples in every run, unless a seed is set, and no deadlines.

    By default, Hypothesis draws new examples each time, and fails a test that is slow on a busy
    machine.
    """
    memory.reduce_collections()
    if profile := config.getoption("--chain-profile"):
        os.environ[selection.VARIABLE] = profile
    # an object inherited by a fork can belong to a thread that is missing there: a gRPC channel
    # collected in the fork waits for its thread forever
    os.register_at_fork(
        before=gc.disable, after_in_parent=gc.enable, after_in_child=_collect_own_only
    )
    seeded = config.getoption("--hypothesis-seed") is not None
    settings.register_profile(
        "repeated",
        derandomize=not seeded,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("repeated")


def _collect_own_only():
    gc.freeze()
    gc.enable()


def pytest_asyncio_loop_factories():
    # the service's event loop
    return {"uvloop": uvloop.new_event_loop}


def pytest_generate_tests(metafunc):
    is_on_both_chains = metafunc.definition.get_closest_marker("both_chains") is not None
    if is_on_both_chains and "evm" in metafunc.fixturenames:
        metafunc.parametrize("evm", ["embedded", "anvil"], indirect=True, scope="module")


def pytest_collection_modifyitems(config, items):
    """Use one protocol on anvil: a chain must not change how requests are handled.

    Slow files come first, so that no worker ends with one while the others are idle.
    """
    selection.skip_own_pace(config, items)
    long = {
        item.path
        for item in items
        if item.get_closest_marker("long") or item.get_closest_marker("slow")
    }
    items.sort(key=lambda item: item.path not in long)
    calls = ((item, getattr(item, "callspec", None)) for item in items)
    result = [(item, call.params) for item, call in calls if call is not None]
    again = {
        item
        for item, params in result
        if params.get("evm") == "anvil" and params.get("api", "rest") != "rest"
    }
    if again:
        config.hook.pytest_deselected(items=again)
        items[:] = [item for item in items if item not in again]


def pytest_collection_finish(session):
    """Freeze modules and thousands of tests, so that the garbage collector skips them.

    With few tests this takes longer than it saves.
    """
    if len(session.items) > _MANY:
        memory.freeze_startup_objects()


@pytest.fixture(scope="module")
def evm(request) -> Iterator[EvmChains]:
    """Open the EVM chain of services: the embedded one, and also anvil for tests marked so."""
    from tests.support import chains

    with chains.open_chains(getattr(request, "param", "embedded")) as opened:
        yield opened


@pytest.fixture
async def service(tmp_path, evm) -> AsyncIterator[FlorinService]:
    from tests.support import postgres
    from tests.support.service import run_service

    async with run_service(tmp_path, evm=evm) as started:
        yield started
    await postgres.drop_database(tmp_path)


@pytest.fixture
def env(service) -> dict[str, str]:
    return service.home.read_demo_env()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    import aiohttp

    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def chain(session, env, evm) -> ChainClient:
    return evm.open_client(session, env)


@pytest.fixture
def rest(session, env) -> RestApi:
    from tests.support.api import RestApi

    return RestApi(session, env["FLORIN_BASE_URL"], env)


@pytest.fixture(params=["rest", "remote gateway", "grpc"])
async def api(request, service, session, env) -> AsyncIterator[PaymentApi]:
    """Open the API over REST, over a remote gateway, and over gRPC."""
    import grpc
    from florin_server.app.servers import gateway

    from tests.support.api import GrpcApi, RestApi

    async with AsyncExitStack() as stack:
        if request.param == "rest":
            yield RestApi(session, env["FLORIN_BASE_URL"], env)
        elif request.param == "grpc":
            channel = grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"])
            yield GrpcApi(await stack.enter_async_context(channel), env)
        else:
            listener = gateway.bind_socket("127.0.0.1", 0)
            url = await gateway.start_remote_gateway(env["FLORIN_GRPC_TARGET"], listener, stack)
            yield RestApi(session, url, env)


@pytest.fixture
def wallet() -> EvmTestWallet:
    from tests.support.wallet import EvmTestWallet

    return EvmTestWallet()


@pytest.fixture
async def funded(chain, wallet) -> None:
    """Give the wallet what a buyer needs, on any chain."""
    await chain.fund(wallet.address)


@pytest.fixture
def merchant_address(env) -> str:
    return env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory, evm) -> AsyncIterator[ServiceHarness]:
    """Open one service for all tests of a module, with a clock that only they move."""
    from tests.support import postgres
    from tests.support.service_harness import open_service

    home = tmp_path_factory.mktemp("desk")
    async with open_service(home, evm=evm) as desk:
        yield desk
    await postgres.drop_database(home)


@pytest.fixture(scope="session")
def forks(tmp_path_factory) -> Iterator[CommandForks]:
    """Start processes for commands and modules that need not load Florin."""
    from tests.support.command import CommandForks

    with CommandForks.open_forks(tmp_path_factory.mktemp("forks")) as forks:
        yield forks


@pytest.fixture(scope="module")
def up(tmp_path_factory, forks):
    """Run `florin up`, shared by all tests that do not end it."""
    home = tmp_path_factory.mktemp("up") / "home"
    with forks.start_lasting("up", home=home, FLORIN_KEY_CACHE_S="0.5") as command:
        yield command
        assert command.process.poll() is None
        command.send_signal(signal.SIGTERM)
        done = command.wait_ended()
        # no test call caused a warning
        assert (done.status, done.err) == (0, "")


@pytest.fixture
def home(tmp_path) -> Path:
    """Return where a test's own installation is created."""
    return tmp_path / "home"


@pytest.fixture
def stopped(tmp_path) -> Path:
    """Return the state of an installation that has run."""
    from tests.support.service import run_service

    async def once() -> None:
        async with run_service(tmp_path / "home"):
            pass

    uvloop.run(once())
    return tmp_path / "home"


@pytest.fixture(scope="session")
def update_golden(request) -> bool:
    return request.config.getoption("--update-golden")
