"""The `florin` command as people and their tools use it: what it prints, keeps, refuses, returns."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import grpc
import pytest
import uvloop

from tests.e2e.test_payment_story import ORDER, PRICE, follow
from tests.support.api import GrpcApi, Refused, RestApi
from tests.support.chain import Chain
from tests.support.command import begin, end, florin, lasting
from tests.support.service import running
from tests.support.wallet import Wallet

DOCUMENTED = {
    "FLORIN_BASE_URL",
    "FLORIN_GRPC_TARGET",
    "FLORIN_PARTNER_KEY",
    "FLORIN_MERCHANT_ID",
    "FLORIN_WALLET_KEY",
    "FLORIN_APP_ID",
    "FLORIN_CLIENT_ID",
    "FLORIN_EVM_RPC_URL",
    "FLORIN_EVM_CHAIN",
}
OURS = {"FLORIN_EVM_ASSET", "FLORIN_MERCHANT_DESTINATION"}
CREDENTIALS = {name for name in DOCUMENTED | OURS if not name.endswith(("_URL", "_TARGET"))}
KEY = re.compile(r"^fl_test_wk_\w{8}_\w{49}$", re.MULTILINE)


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    """`florin up`, shared by what does not end it."""
    home = tmp_path_factory.mktemp("up") / "home"
    with lasting("up", home=home, FLORIN_KEY_CACHE_S="0.5") as command:
        yield command
        command.tell(signal.SIGTERM)
        done = command.ended()
        # nothing that the tests asked of it was worth a complaint
        assert (done.status, done.err) == (0, "")


@pytest.fixture
def stopped(tmp_path) -> Path:
    """The state of an installation that has run."""

    async def once() -> None:
        async with running(tmp_path / "home"):
            pass

    uvloop.run(once())
    return tmp_path / "home"


async def get(session, url: str) -> tuple[int, str]:
    async with session.get(url) as answer:
        return answer.status, await answer.text()


async def pay(api, wallet) -> str:
    """A payment, paid; its id."""
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    states = await asyncio.wait_for(follow(api, payment_id), 30)
    assert states[-1]["status"] == "succeeded"
    return payment_id


def told(done) -> str:
    """The one sentence of a command that refuses."""
    assert done.out == ""
    (sentence,) = done.err.splitlines()
    return sentence


# what `up` gives


async def test_up_prints_credentials_and_a_link_that_opens(up, session):
    assert up.out.startswith("Florin is up.")
    for name, value in up.env.items():
        assert f"  {name}={value}\n" in up.out
    link = re.search(r"A first payment waits for a wallet: (\S+)", up.out)[1]
    assert link.startswith(up.env["FLORIN_BASE_URL"] + "/pay_")
    status, page = await get(session, link)
    assert (status, "12.50 USD" in page) == (200, True)


async def test_up_is_healthy_and_ready(up, session):
    base = up.env["FLORIN_BASE_URL"]
    assert await get(session, f"{base}/healthz") == (200, '{"status":"ok"}')
    assert await get(session, f"{base}/readyz") == (200, '{"status":"ready"}')


def test_the_demo_credentials_are_complete_and_private(up):
    assert set(up.env) == DOCUMENTED | OURS
    assert all(up.env.values())
    for name in ("demo.env", "secrets.json", "running.json"):
        assert (up.home.path / name).stat().st_mode & 0o777 == 0o600
    assert up.home.path.stat().st_mode & 0o777 == 0o700


def test_a_shell_reads_the_demo_credentials(up):
    script = 'set -a; . "$0"; set +a; env'
    done = subprocess.run(
        ["sh", "-c", script, up.home.demo_env], capture_output=True, text=True, check=True
    )
    assert {f"{name}={value}" for name, value in up.env.items()} <= set(done.stdout.splitlines())


# the demo


def test_the_demo_pays_at_the_florin_that_runs(up):
    done = florin("demo", home=up.home.path)
    assert (done.status, done.err) == (0, "")
    states = re.findall(r"stream +version (\d): (\w+)", done.out)
    assert states == [("0", "requires_action"), ("1", "processing"), ("2", "succeeded")]
    assert "9987.500000 tUSD" in done.out
    assert re.search(r"succeeded  transaction 0x[0-9a-f]{64}\n", done.out)


def test_the_demo_without_a_florin_says_what_to_do(tmp_path):
    done = florin("demo", home=tmp_path / "home")
    assert done.status == 1
    assert told(done).endswith(
        f"no Florin runs with its state in {tmp_path}/home; start: florin up"
    )


# what is refused


@pytest.fixture(scope="module")
def refusals(up, tmp_path_factory):
    """Starts that cannot succeed, all at once: each mostly loads code."""
    folder = tmp_path_factory.mktemp("refusals")
    with closing(socket.create_server(("127.0.0.1", 0))) as busy:
        port = str(busy.getsockname()[1])
        (folder / "damaged").mkdir()
        (folder / "damaged" / "secrets.json").write_text("{}")
        starts = {
            "second": begin("up", home=up.home.path),
            "rest": begin("up", home=folder / "rest", FLORIN_HTTP_PORT=port),
            "grpc": begin("up", home=folder / "grpc", FLORIN_GRPC_PORT=port),
            "chain": begin("up", home=folder / "chain", FLORIN_EMBEDDED__RPC_PORT=port),
            "host": begin("up", home=folder / "host", FLORIN_HOST="0.0.0.0"),
            "port": begin("up", home=folder / "port", FLORIN_HTTP_PORT="eighty"),
            "damaged": begin("up", home=folder / "damaged"),
            "gateway": begin("gateway", "--upstream=x:1", "--host=0.0.0.0", home=folder / "g"),
        }
        yield {name: end(process) for name, process in starts.items()} | {"busy": port}


def test_a_second_service_on_the_same_state_is_refused(refusals, up):
    assert refusals["second"].status == 1
    assert "another server has this store open" in told(refusals["second"])
    assert up.process.poll() is None
    assert json.loads(up.home.running.read_text())["pid"] == up.process.pid


@pytest.mark.parametrize(
    ("name", "who"), [("rest", "REST"), ("grpc", "gRPC"), ("chain", "The test chain")]
)
def test_a_busy_port_is_told(refusals, name, who):
    assert refusals[name].status == 1
    assert told(refusals[name]) == (
        f"Florin does not start: {who} cannot listen on 127.0.0.1:{refusals['busy']}: "
        "Address already in use"
    )


@pytest.mark.parametrize("name", ["host", "gateway"])
def test_an_open_address_is_refused_without_consent(refusals, name):
    assert refusals[name].status == 1
    assert "0.0.0.0 can be reached by others" in told(refusals[name])
    assert "FLORIN_INSECURE_BIND=true" in told(refusals[name])


def test_a_setting_that_is_not_valid_is_told_by_its_name(refusals):
    assert refusals["port"].status == 2
    assert "FLORIN_HTTP_PORT: Input should be a valid integer" in told(refusals["port"])


def test_damaged_secrets_are_told(refusals):
    assert refusals["damaged"].status == 1
    assert "secrets.json is damaged" in told(refusals["damaged"])


# state, signals, death


async def hold(api: RestApi, session, env):
    """A stream over REST, one over gRPC and a long poll, all held by the service."""
    payment_id = (await api.create(ORDER))["paymentId"]
    sse, channel = api.watch(payment_id), grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"])
    watch = GrpcApi(channel, env).watch(payment_id)
    for stream in (sse, watch):
        assert (await anext(stream))["status"] == "requires_action"
    url = f"{api.base}/v1/gateway/payment/{payment_id}/status"
    async with aiohttp.ClientSession() as own:
        # the connection is there and the poll is sent on it before the same question is answered
        await (await own.get(url, headers=api.wallet)).read()
        poll = asyncio.create_task(own.get(f"{url}?maxPollMs=20000", headers=api.wallet))
        await api.status(payment_id)
        assert not poll.done()
        yield payment_id
        answer = await poll
        assert (await answer.json())["status"] == "requires_action"
        assert answer.status == 200
    assert [state async for state in sse] == []
    assert [state async for state in watch] == []
    await channel.close()


async def test_state_outlives_every_end(tmp_path, session):
    home = tmp_path / "home"

    async def connect(command):
        env = command.env
        token = env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        chain = Chain(session, env["FLORIN_EVM_RPC_URL"], token)
        return env, RestApi(session, env["FLORIN_BASE_URL"], env), chain

    async def check(command):
        """Credentials, payments and balances are what they were."""
        env, api, chain = await connect(command)
        assert {name: env[name] for name in CREDENTIALS} == kept
        assert (await api.detail(first))["status"] == "succeeded"
        merchant = env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]
        assert await chain.balance(merchant) == paid
        return env, api

    async def end_while_held(command, signum):
        env, api, _ = await connect(command)
        async for held in hold(api, session, env):
            command.tell(signum)
            pending.append(held)
        done = command.ended()
        assert (done.status, done.out, done.err) == (0, "Stopping …\n", "")
        assert not command.home.running.exists()

    pending: list[str] = []
    with lasting("demo", "--up", home=home) as command:
        env, api, chain = await connect(command)
        kept = {name: env[name] for name in CREDENTIALS}
        assert "Florin is up." in command.out.partition("succeeded  transaction")[2]
        first, wallet = re.search(r"paymentId: (pay_\w+)", command.out)[1], Wallet()
        await pay(api, wallet)
        paid = 2 * PRICE
        await end_while_held(command, signal.SIGINT)
    with lasting("up", home=home) as command:
        env, api = await check(command)
        assert "A first payment" not in command.out
        assert (await api.status(pending[0]))["status"] == "requires_action"
        await pay(api, wallet)
        paid += PRICE
        command.process.kill()
        assert command.ended().status == -signal.SIGKILL
    assert command.home.running.exists()
    assert command.home.addresses() is None
    with lasting("up", home=home) as command:
        await check(command)
        await end_while_held(command, signal.SIGTERM)


def test_a_signal_during_the_start_ends_it_too(tmp_path):
    process = begin("up", home=tmp_path / "home")
    # its first durable step: code is loaded and signals are taken from here on
    lock = tmp_path / "home" / "florin.db.lock"
    while not lock.exists():
        assert process.poll() is None
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    done = end(process)
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("Stopping …\n")


# the doctor


def test_the_doctor_is_content_with_a_florin_that_runs(up):
    done = florin("doctor", home=up.home.path)
    assert (done.status, done.err) == (0, "")
    assert "✗" not in done.out
    assert re.search(r"✓ service \S+ is running\n✓ eip155:31337 at block \d+, relayer 0x", done.out)


def test_the_doctor_is_content_with_one_that_is_stopped(stopped):
    done = florin("doctor", home=stopped)
    assert (done.status, done.err) == (0, "")
    assert [line[:2] for line in done.out.splitlines()] == ["✓ "] * 4
    assert "✓ service is not running\n✓ store opens\n✓ ledger balances\n" in done.out


def test_the_doctor_finds_secrets_that_others_can_read(stopped):
    (stopped / "secrets.json").chmod(0o644)
    done = florin("doctor", home=stopped)
    assert done.status == 1
    assert "✗" in done.out
    assert "secrets.json can be read by others: chmod 600" in done.out


# keys


def listed(home: Path) -> dict[str, str]:
    """The table's rows by key id."""
    done = florin("keys", "list", home=home)
    assert (done.status, done.err) == (0, "")
    _, *rows = done.out.splitlines()
    return {row.split()[0]: row for row in rows}


async def test_keys_are_made_and_revoked_while_florin_runs(up, session):
    made = florin("keys", "create", "wallet", home=up.home.path)
    assert made.status == 0
    assert KEY.fullmatch(made.out.strip())
    key_id = made.out.split("_")[3]
    assert f"Key id {key_id}." in made.err

    api = RestApi(session, up.env["FLORIN_BASE_URL"], up.env)
    payment_id = (await api.create(ORDER))["paymentId"]
    headers, path = {"Api-Key": made.out.strip()}, f"/v1/gateway/payment/{payment_id}/status"
    assert (await api.call("GET", path, headers))["status"] == "requires_action"

    assert florin("keys", "revoke", key_id, home=up.home.path).status == 0
    revoked = time.monotonic()
    with pytest.raises(Refused) as caught:
        while True:
            await api.call("GET", path, headers)
    assert time.monotonic() - revoked < 5
    assert (caught.value.http, caught.value.code) == (401, "invalid_api_key")
    row = listed(up.home.path)[key_id]
    assert re.search(r"wallet +test .* \d{4}-\d\d-\d\d \d\d:\d\dZ *$", row)


def test_keys_are_made_and_revoked_while_florin_is_stopped(stopped):
    partner = next(row for row in listed(stopped).values() if " partner " in row).split()[3]
    made = florin("keys", "create", "partner", f"--partner={partner}", home=stopped)
    key_id = made.out.split("_")[3]
    assert made.out.startswith("fl_test_pk_")
    done = florin("keys", "revoke", key_id, home=stopped)
    assert (done.status, done.out) == (0, f"{key_id} is revoked.\n")
    rows = listed(stopped)
    assert len(rows) == 3
    assert [row.rstrip().endswith("Z") for row in rows.values()].count(True) == 1
    assert rows[key_id].rstrip().endswith("Z")


# the gateway alone


async def test_the_gateway_serves_the_same_payment(tmp_path, session, wallet):
    async with running(tmp_path / "home") as service:
        env, target = service.home.read_demo_env(), service.grpc.target
        command = await asyncio.to_thread(
            lasting("gateway", f"--upstream={target}", home=tmp_path / "gateway").__enter__
        )
        base = re.search(r"REST +(\S+)", command.out)[1]
        assert base != env["FLORIN_BASE_URL"]
        assert (await get(session, f"{base}/readyz"))[0] == 200
        api = RestApi(session, base, env)
        states = asyncio.create_task(follow(api, await pay(api, wallet)))
        assert [state["status"] for state in await states] == ["succeeded"]
    # the service is gone: the gateway lives, says so, and is not ready
    async with asyncio.timeout(30):
        while (answer := await get(session, f"{base}/readyz"))[0] == 200:
            pass
    assert answer[0] == 503
    assert json.loads(answer[1])["checks"] == {"upstream": f"{target} does not answer"}
    assert (await get(session, f"{base}/healthz"))[0] == 200
    command.tell(signal.SIGINT)
    done = await asyncio.to_thread(command.ended)
    assert (done.status, done.out, done.err) == (0, "Stopping …\n", "")


# help


def test_help_is_quick(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = florin("--help", home=tmp_path / "home")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.status == 0
    for command in ("up", "demo", "doctor", "gateway", "keys"):
        assert re.search(rf"^\W+{command} ", done.out, re.MULTILINE)
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 1
    assert not (tmp_path / "home").exists()
