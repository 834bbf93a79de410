"""The `florin` command for people and their tools: its output, its files and its refusals."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import grpc
import pytest

from tests.support import postgres
from tests.support.api import ApiCallError, GrpcApi, RestApi
from tests.support.chain import ChainClient
from tests.support.command import (
    CommandResult,
    RunningCommand,
    get_refusal,
    run_florin,
    start_command,
    wait_command,
)
from tests.support.payment_flow import ORDER, PRICE, follow_payment
from tests.support.service import run_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.long

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
OURS = {
    "FLORIN_EVM_ASSET",
    "FLORIN_MERCHANT_DESTINATION",
    "FLORIN_SOLANA_ASSET",
    "FLORIN_SOLANA_CHAIN",
    "FLORIN_SOLANA_DESTINATION",
    "FLORIN_SOLANA_RPC_URL",
}
CREDENTIALS = {name for name in DOCUMENTED | OURS if not name.endswith(("_URL", "_TARGET"))}
KEY = re.compile(r"^fl_test_wk_\w{8}_\w{49}$", re.MULTILINE)


async def get(session, url: str) -> tuple[int, str]:
    async with session.get(url) as answer:
        return answer.status, await answer.text()


async def pay(api, wallet) -> str:
    """Make and pay a payment; return its id."""
    payment_id = (await api.create(ORDER))["paymentId"]
    (option,) = (await api.options(payment_id, [wallet.account]))["options"]
    await api.confirm(payment_id, option["id"], wallet.execute_all(option))
    states = await asyncio.wait_for(follow_payment(api, payment_id), 30)
    assert states[-1]["status"] == "succeeded"
    return payment_id


# the output of `up`


async def test_up_prints_where_everything_is_and_a_link_that_opens(up, session):
    assert up.out.startswith("Florin is up.")
    assert f"Test accounts are in {up.home.demo_env_path}.\n" in up.out
    link = re.search(r"A first payment is ready to pay: (\S+)", up.out)[1]
    assert link.startswith(up.env["FLORIN_BASE_URL"] + "/pay_")
    status, page = await get(session, link)
    assert (status, "12.50\u00a0USD" in page) == (200, True)


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
        ["sh", "-c", script, up.home.demo_env_path], capture_output=True, text=True, check=True
    )
    assert {f"{name}={value}" for name, value in up.env.items()} <= set(done.stdout.splitlines())


# the demo


def test_the_demo_pays_at_the_florin_that_runs(up):
    done = run_florin("demo", home=up.home.path)
    assert (done.status, done.err) == (0, "")
    states = re.findall(r"stream +version (\d): (\w+)", done.out)
    assert states == [("0", "requires_action"), ("1", "processing"), ("2", "succeeded")]
    assert "9987.500000 tUSD" in done.out
    assert re.search(r"succeeded  transaction 0x[0-9a-f]{64}\n", done.out)


def test_demo_without_a_running_florin_prints_the_command_to_start_it(tmp_path, forks):
    done = forks("demo", home=tmp_path / "home")
    assert done.status == 1
    assert get_refusal(done).endswith(
        f"no Florin runs with its state in {tmp_path}/home: run `florin up`"
    )


# refusals


def test_a_second_service_on_the_same_state_is_refused(up, forks):
    done = forks("up", home=up.home.path)
    assert done.status == 1
    assert "another server has this store open" in get_refusal(done)
    assert up.process.poll() is None
    assert json.loads(up.home.running_path.read_text())["pid"] == up.process.pid


def test_a_gateway_speaks_plain_text_on_its_machine_only(tmp_path, forks):
    done = forks("gateway", "--upstream=florin.example:50051", home=tmp_path / "home")
    assert done.status == 1
    assert "florin.example:50051 is on another machine" in get_refusal(done)
    assert "--insecure" in get_refusal(done)
    done = forks(
        "gateway", "--upstream=127.0.0.1:1", home=tmp_path / "home", FLORIN_GATEWAY_TOKEN="short"
    )
    assert done.status == 1
    assert "the gateway token needs 32 printable ASCII characters or more" in get_refusal(done)


@pytest.mark.parametrize("command", [["up"], ["gateway", "--upstream=127.0.0.1:1"]])
def test_an_open_address_is_refused_without_consent(tmp_path, forks, command):
    done = forks(*command, home=tmp_path / "home", FLORIN_HOST="0.0.0.0")
    assert done.status == 1
    assert "0.0.0.0 can be reached from other machines" in get_refusal(done)
    assert "FLORIN_INSECURE_BIND=true" in get_refusal(done)


def test_invalid_setting_is_reported_by_name(tmp_path, forks):
    done = forks("up", home=tmp_path / "home", FLORIN_HTTP_PORT="eighty")
    assert done.status == 2
    assert "FLORIN_HTTP_PORT: Input should be a valid integer" in get_refusal(done)


def test_invalid_settings_file_is_reported(tmp_path, forks):
    (tmp_path / "florin.toml").write_text("http_port = ")
    done = forks("doctor", home=tmp_path / "home")
    assert done.status == 2
    assert get_refusal(done).startswith("The settings are not valid: florin.toml: ")


def test_damaged_secrets_file_is_reported(tmp_path, forks):
    (tmp_path / "home").mkdir(0o700)
    (tmp_path / "home" / "secrets.json").write_text("{}")
    (tmp_path / "home" / "secrets.json").chmod(0o600)
    done = forks("up", home=tmp_path / "home")
    assert done.status == 1
    assert "secrets.json is damaged" in get_refusal(done)


# state, signals, death


async def hold(api: RestApi, session, env):
    """Open a stream over REST, one over gRPC and a long poll, all waiting in the service."""
    payment_id = (await api.create(ORDER))["paymentId"]
    sse, channel = api.watch(payment_id), grpc.aio.insecure_channel(env["FLORIN_GRPC_TARGET"])
    watch = GrpcApi(channel, env).watch(payment_id)
    for stream in (sse, watch):
        assert (await anext(stream))["status"] == "requires_action"
    url = f"{api.base}/v1/gateway/payment/{payment_id}/status"
    async with aiohttp.ClientSession() as own:
        # the connection exists and the poll is sent on it before the same call is answered
        await (await own.get(url, headers=api.wallet)).read()
        poll = asyncio.create_task(own.get(f"{url}?maxPollMs=20000", headers=api.wallet))
        await api.status(payment_id)
        assert not poll.done()
        yield payment_id
        answer = await poll
        assert (await answer.json())["status"] == "requires_action"
        assert answer.status == 200
    assert [state async for state in sse] == []
    with pytest.raises(ApiCallError) as stopped:
        _ = [state async for state in watch]
    assert (stopped.value.http, stopped.value.details) == (503, {"afterVersion": "0"})
    await channel.close()


@pytest.mark.slow
async def test_state_outlives_every_end(tmp_path, session):
    home = tmp_path / "home"

    async def connect(command):
        env = command.env
        token = env["FLORIN_EVM_ASSET"].rpartition(":")[2]
        chain = ChainClient(session, env["FLORIN_EVM_RPC_URL"], token)
        return env, RestApi(session, env["FLORIN_BASE_URL"], env), chain

    async def check(command):
        """Assert that credentials, payments and balances are unchanged."""
        env, api, chain = await connect(command)
        assert {name: env[name] for name in CREDENTIALS} == stored
        assert (await api.detail(first))["status"] == "succeeded"
        merchant = env["FLORIN_MERCHANT_DESTINATION"].rpartition(":")[2]
        assert await chain.balance(merchant) == paid
        return env, api

    async def end_while_held(command, signum):
        env, api, _ = await connect(command)
        async for held in hold(api, session, env):
            command.send_signal(signum)
            pending.append(held)
        done = command.wait_ended()
        assert (done.status, done.out, done.err) == (0, "Stopping …\n", "")
        assert not command.home.running_path.exists()

    pending: list[str] = []
    with RunningCommand("demo", "--up", home=home) as command:
        env, api, _ = await connect(command)
        stored = {name: env[name] for name in CREDENTIALS}
        assert "Florin is up." in command.out.partition("succeeded  transaction")[2]
        first, wallet = re.search(r"paymentId: (pay_\w+)", command.out)[1], EvmTestWallet()
        await pay(api, wallet)
        paid = 2 * PRICE
        await end_while_held(command, signal.SIGINT)
    with RunningCommand("up", home=home) as command:
        env, api = await check(command)
        assert "A first payment" not in command.out
        assert (await api.status(pending[0]))["status"] == "requires_action"
        await pay(api, wallet)
        paid += PRICE
        command.process.kill()
        assert command.wait_ended().status == -signal.SIGKILL
    assert command.home.running_path.exists()
    assert command.home.find_addresses() is None
    with RunningCommand("up", home=home) as command:
        await check(command)
        await end_while_held(command, signal.SIGTERM)


def test_a_signal_during_the_start_ends_it_too(tmp_path, stopped):
    # a pipe instead of the secrets file: the open succeeds once the service reads, and blocks it
    home = tmp_path / "starting"
    home.mkdir(0o700)
    os.mkfifo(home / "secrets.json", 0o600)
    process = start_command("up", home=home)
    give_up = threading.Timer(60, os.open, (home / "secrets.json", os.O_RDONLY | os.O_NONBLOCK))
    give_up.start()
    with (home / "secrets.json").open("w") as pipe:
        give_up.cancel()
        process.send_signal(signal.SIGINT)
        pipe.write((stopped / "secrets.json").read_text())
    assert wait_command(process) == CommandResult(0, "Stopping …\n", "")
    assert not (home / "running.json").exists()


# the doctor


def test_the_doctor_is_content_with_a_florin_that_runs(up, forks):
    done = forks("doctor", home=up.home.path)
    assert (done.status, done.err) == (0, "")
    assert "✗" not in done.out
    assert re.search(r"✓ service \S+ is running\n✓ eip155:31337 at block \d+, relayer 0x", done.out)


def test_doctor_accepts_a_stopped_florin(stopped, forks):
    done = forks("doctor", home=stopped)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    # no asset of the sandbox pays in it
    assert [line for line in lines if line[:2] != "✓ "] == [line for line in lines if "GBP" in line]
    engine = f"SQLite {sqlite3.sqlite_version}"
    if postgres.get_engine() != postgres.SQLITE:
        engine = "PostgreSQL "
    assert f"✓ service is not running\n✓ store opens: {engine}" in done.out
    assert "✓ ledger balances\n" in done.out
    assert "✓ eip155:31337 was not compared with the ledger\n" in done.out


def test_doctor_repairs_secrets_readable_by_other_users(stopped, forks):
    (stopped / "secrets.json").chmod(0o644)
    done = forks("doctor", home=stopped)
    assert done.status == 1
    assert "✗" in done.out
    assert "other users could read secrets.json; fixed" in done.out


# keys


def listed(forks, home: Path) -> dict[str, list[str]]:
    """Return the table's rows by key id."""
    done = forks("keys", "list", home=home)
    assert (done.status, done.err) == (0, "")
    _, *rows = [re.split(r" {2,}", line) for line in done.out.splitlines()]
    return {row[0]: row[1:] for row in rows}


async def test_keys_are_created_and_revoked_while_florin_runs(up, forks, session):
    created = forks("keys", "create", "wallet", home=up.home.path)
    assert created.status == 0
    assert KEY.fullmatch(created.out.strip())
    key_id = created.out.split("_")[3]
    assert f"Key id {key_id}." in created.err
    assert listed(forks, up.home.path)[key_id][-3:] == ["-", "never", "-"]

    api = RestApi(session, up.env["FLORIN_BASE_URL"], up.env)
    payment_id = (await api.create(ORDER))["paymentId"]
    headers, path = {"Api-Key": created.out.strip()}, f"/v1/gateway/payment/{payment_id}/status"
    assert (await api.call("GET", path, headers))["status"] == "requires_action"

    assert forks("keys", "revoke", key_id, home=up.home.path).status == 0
    revoked = time.monotonic()
    error = await refusal(api.call, "GET", path, headers)
    assert time.monotonic() - revoked < 5
    assert (error.http, error.code) == (401, "invalid_api_key")
    kind, mode, *_, when, _, _ = listed(forks, up.home.path)[key_id]
    assert (kind, mode) == ("wallet", "test")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\dZ", when)


async def refusal(call, *arguments) -> ApiCallError:
    """Return the refusal of a call, as soon as it is refused."""

    async def refused() -> ApiCallError | None:
        try:
            await call(*arguments)
        except ApiCallError as error:
            return error
        return None

    return await wait_until(refused)


def test_keys_are_created_and_revoked_while_florin_is_stopped(stopped, forks):
    (partner,) = {row[2] for row in listed(forks, stopped).values()} - {"-"}
    created = forks("keys", "create", "partner", f"--partner={partner}", home=stopped)
    assert created.out.startswith("fl_test_pk_")
    key_id = created.out.split("_")[3]
    done = forks("keys", "revoke", key_id, home=stopped)
    assert (done.status, done.out) == (0, f"{key_id} is revoked.\n")
    revoked = {name: row[-3] != "-" for name, row in listed(forks, stopped).items()}
    assert len(revoked) == 3
    assert [name for name, gone in revoked.items() if gone] == [key_id]


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["create", "partner"], 2, "a partner key needs --partner ID"),
        (["create", "wallet", "--partner=prtn_1"], 2, "a wallet key does not take it"),
        (["create", "master"], 2, "unknown kind 'master': use partner or wallet"),
        (["create", "partner", "--partner=prtn_1"], 3, "Partner not found"),
        (["revoke", "12345678"], 3, "Api key not found"),
    ],
)
def test_invalid_key_arguments_are_reported(up, forks, arguments, status, why):
    done = forks("keys", *arguments, home=up.home.path)
    assert done.status == status
    assert why in get_refusal(done)


# the gateway alone


@pytest.fixture
async def gateway(tmp_path, forks):
    """Start `florin gateway` in front of a service that a test can end."""
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(run_service(tmp_path / "home"))
        upstream = f"--upstream={service.grpc.target}"
        # the service runs on this loop, which must not block
        command = await asyncio.to_thread(
            forks.start_lasting, "gateway", upstream, home=tmp_path / "gateway"
        )
        yield service, command, stack.aclose
        command.send_signal(signal.SIGINT)
        done = await asyncio.to_thread(command.wait_ended)
        assert (done.status, done.out) == (0, "Stopping …\n")
        # another state folder, so another secret; it is connected while it reports that
        (result,) = [line for line in done.err.splitlines() if " INFO " not in line][:1]
        assert result.startswith("FLORIN_GATEWAY_TOKEN is not set: ")
        connected, silent = [line for line in done.err.splitlines() if line != result]
        assert "connected to" in connected
        assert "does not answer: the gateway refuses every call with 503 until it does" in silent
        assert not (tmp_path / "gateway" / "secrets.json").exists()


async def test_the_gateway_serves_the_same_payment(gateway, session, wallet):
    service, command, end_service = gateway
    base = re.search(r"REST +(\S+)", command.out)[1]
    assert base != service.http_url
    assert (await get(session, f"{base}/readyz"))[0] == 200
    api = RestApi(session, base, service.home.read_demo_env())
    (last,) = await follow_payment(api, await pay(api, wallet))
    assert last["status"] == "succeeded"

    await end_service()

    async def unready() -> tuple[int, str] | None:
        answer = await get(session, f"{base}/readyz")
        return answer if answer[0] != 200 else None

    answer = await wait_until(unready)
    assert answer[0] == 503
    gone = {"upstream": f"{service.grpc.target} does not answer"}
    assert json.loads(answer[1]) == {"status": "unready", "checks": gone}
    assert (await get(session, f"{base}/healthz"))[0] == 200


# help


def test_help_is_quick(tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run_florin("--help", home=tmp_path / "home")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.status == 0
    for command in ("up", "demo", "doctor", "gateway", "keys", "partners", "customers"):
        assert re.search(rf"^\W+{command} ", done.out, re.MULTILINE)
    assert (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime) < 1
    assert not (tmp_path / "home").exists()
