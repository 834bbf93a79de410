"""State folders, ports and secrets of `florin`: no check creates them, messages name them."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import uvloop
from eth_account import Account
from florin_server.accounts.store import destinations, merchants
from florin_server.app.home import StateFolder
from florin_server.cli.exits import ExitStatus
from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.payment import Destination, Merchant
from florin_server.money.open_store import open_store

from tests.support.command import FLORIN, RunningCommand, get_refusal, make_environment

pytestmark = pytest.mark.long

LOOKING = (
    ["doctor"],
    ["chain", "list"],
    ["keys", "list"],
    ["partners", "list"],
    ["wallets", "list"],
    ["versions", "list"],
    ["payouts", "list"],
    ["executors", "list"],
    ["sanctions", "list"],
    ["sanctions", "check", "0x" + "aa" * 20],
    ["ledger", "check"],
    ["ledger", "balances"],
    ["ledger", "entries", "pay_1"],
    ["customers", "export", "eip155:1:0x" + "aa" * 20],
    ["faults", "list"],
    ["demo"],
    # commands that need no state
    ["keys", "revoke", "12345678"],
    ["payouts", "refuse", "pout_1"],
    ["partners", "suspend", "prtn_1"],
)


def holder() -> str:
    """Return this process's name in messages, where the system has it; the name changes often."""
    name = Path("/proc/self/comm")
    return f" by process {os.getpid()} ({name.read_text().strip()})" if name.exists() else ""


# missing folders


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
@pytest.mark.parametrize("has_home", [False, True])
def test_a_command_that_only_looks_makes_no_home(tmp_path, forks, command, has_home):
    home = tmp_path / "home"
    if has_home:
        home.mkdir()
    done = forks(*command, home=home)
    # commands that need a running Florin report that none runs
    assert done.status == (
        ExitStatus.UNREACHABLE if command[0] == "executors" else ExitStatus.REFUSED
    )
    assert "florin up" in done.out + done.err
    assert str(home) in done.out + done.err
    assert home.exists() is has_home
    assert not has_home or list(home.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["partners", "create", "Tea"], ["wallets", "register", "Purse"]], ids=" ".join
)
def test_setup_command_creates_its_home(tmp_path, forks, command):
    home = tmp_path / "home"
    assert forks(*command, home=home).status == 0
    assert StateFolder(home).list_exposed() == []
    assert forks("doctor", home=home).status == 0


# restored folders


def test_a_restored_home_is_mended_by_the_doctor_and_by_up(tmp_path, stopped, forks):
    home = tmp_path / "restored"
    shutil.copytree(stopped, home)

    def restore() -> None:
        for item in (home, *home.rglob("*")):
            item.chmod(0o755 if item.is_dir() else 0o644)

    restore()
    doctor = forks("doctor", home=home)
    assert doctor.status == 1
    (names,) = re.findall(rf"✗ state in {home}: other users could read (.*); fixed", doctor.out)
    exposed = {"restored", "secrets.json", "demo.env", "florin.db", "evm.db"}
    assert exposed <= set(names.split(", "))
    assert StateFolder(home).list_exposed() == []
    assert f"✓ state in {home}\n" in forks("doctor", home=home).out
    restore()
    with forks.start_lasting("up", home=home) as command:
        assert StateFolder(home).list_exposed() == []
        command.send_signal(signal.SIGTERM)
        done = command.wait_ended()
    assert "other users could read files that only the owner should read" in done.err
    assert forks("doctor", home=home).status == 0


def test_all_that_a_new_home_holds_is_private(up):
    names = {item.name for item in up.home.path.iterdir()}
    assert {"secrets.json", "demo.env", "running.json", "florin.db", "evm.db"} <= names
    assert [item for item in up.home.path.iterdir() if item.stat().st_mode & 0o077] == []


# settings


def test_doctor_shows_which_settings_apply(tmp_path, forks):
    home, here = tmp_path / "home", tmp_path / "florin.toml"
    assert forks("partners", "create", "Tea", home=home).status == 0
    assert "✓ settings without a florin.toml\n" in forks("doctor", home=home).out
    here.write_text("")
    assert f"✓ settings from {here}\n" in forks("doctor", home=home).out
    own = home / "florin.toml"
    own.write_text("[embedded]\nenabled = false\n[embedded_solana]\nenabled = false\n")
    own.chmod(0o600)
    output = f"settings from {own}; {here} is ignored"
    assert f"✓ {output}\n" in forks("doctor", home=home).out
    with forks.start_lasting("up", home=home) as running:
        assert f"\nSettings  {own}\n" in running.out
        assert running.home.find_addresses()["evm_rpc"] == ""
        assert f"✓ {output}\n" in forks("doctor", home=home).out
        own.unlink()
        doctor = forks("doctor", home=home)
    assert doctor.status == 1
    assert f"✗ settings from {here}: but the running Florin uses {own}\n" in doctor.out


# ports


@pytest.fixture
def busy():
    """Return a port that is in use."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield str(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("setting", "option", "who"),
    [
        ("FLORIN_HTTP_PORT", "--http-port or ", "REST"),
        ("FLORIN_GRPC_PORT", "--grpc-port or ", "gRPC"),
        ("FLORIN_OPERATOR_PORT", "", "The operator's gRPC"),
        ("FLORIN_EMBEDDED__RPC_PORT", "", "The test chain"),
        ("FLORIN_EMBEDDED_SOLANA__RPC_PORT", "", "The Solana test chain"),
    ],
)
def test_busy_port_is_reported(tmp_path, forks, busy, setting, option, who):
    done = forks("up", home=tmp_path / "home", **{setting: busy})
    assert done.status == 1
    assert get_refusal(done) == (
        f"Florin does not start: {who} cannot listen on 127.0.0.1:{busy}: Address already in use"
        f"{holder()}; choose another port with {option}{setting} (0: any)"
    )


def test_busy_port_is_reported_by_the_gateway(tmp_path, forks, busy):
    home = tmp_path / "home"
    done = forks("gateway", "--upstream=127.0.0.1:1", f"--http-port={busy}", home=home)
    assert done.status == 1
    assert get_refusal(done) == (
        f"The gateway does not start: REST cannot listen on 127.0.0.1:{busy}: "
        f"Address already in use{holder()}; choose another port with --http-port or "
        "FLORIN_HTTP_PORT (0: any)"
    )


def test_an_address_that_is_not_ours_has_no_other_port(tmp_path, forks):
    done = forks("up", home=tmp_path / "home", FLORIN_HOST="192.0.2.1", FLORIN_INSECURE_BIND="1")
    assert done.status == 1
    assert get_refusal(done).endswith(
        "REST cannot listen on 192.0.2.1:0: Cannot assign requested address"
    )


# secrets


def on_terminal(*command: str, home: Path, until: str, **changes: str) -> str:
    """Return a command's output on a terminal, up to a sentence; then end it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [FLORIN, *command],
        cwd=home.parent,
        env=make_environment(home, changes),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    out = b""
    try:
        while until.encode() not in out:
            out += os.read(ours, 65_536)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=240)
        os.close(ours)
    return out.decode().replace("\r\n", "\n")


# a forced color makes no terminal
@pytest.mark.slow
@pytest.mark.parametrize("command", [["up"], ["demo", "--up"]], ids=" ".join)
def test_secrets_are_not_printed_without_a_terminal(tmp_path, command):
    with RunningCommand(*command, home=tmp_path / "home", FORCE_COLOR="1") as running:
        env = running.env
        running.send_signal(signal.SIGTERM)
        done = running.wait_ended()
    stored = json.loads((running.home.path / "secrets.json").read_text())
    secrets = [value for name, value in env.items() if name.endswith("_KEY")]
    secrets += [stored[name] for name in ("pepper", "operator_token", "relayer_key")]
    assert len(secrets) == 5
    all_output = running.out + done.out + done.err
    assert [secret for secret in secrets if secret in all_output] == []
    assert "FLORIN_" not in all_output
    assert str(running.home.demo_env_path) in all_output


@pytest.mark.slow
def test_test_accounts_are_printed_once_on_a_terminal(tmp_path):
    home = tmp_path / "home"
    out = on_terminal("up", home=home, until="Ctrl-C ends it.")
    for name, value in StateFolder(home).read_demo_env().items():
        assert f"  {name}={value}\n" in out
    again = on_terminal("up", home=home, until="Ctrl-C ends it.")
    assert "FLORIN_" not in again
    assert f"Test accounts are in {home / 'demo.env'}.\n" in again


# Florin's own accounts


def test_demo_destination_that_equals_a_relayer_is_refused(tmp_path, stopped, forks):
    home = tmp_path / "other"
    StateFolder(home).open()
    stored = json.loads((stopped / "secrets.json").read_text())
    stored["demo_destination_key"] = stored["relayer_key"]
    (home / "secrets.json").write_text(json.dumps(stored))
    done = forks("up", home=home)
    assert done.status == 1
    sentence = "demo_destination_key in secrets.json is the key of a relayer of this service"
    assert done.err.splitlines()[-1].endswith(sentence)


def test_doctor_reports_destinations_that_are_now_reserved(stopped, forks):
    treasury = Account.create().address
    chain = {"name": "Far", "chain_id": 424242, "rpc_url": "http://127.0.0.1:9"}
    chain |= {"settler": "0x" + "5e" * 20, "treasury": treasury}
    lines = [f"{name} = {json.dumps(value)}" for name, value in chain.items()]
    (stopped.parent / "florin.toml").write_text("\n".join(["[[chains]]", *lines]))
    tea = Merchant("mrch_tea", "prtn_1", "Tea", "t@tea.example", None, "active", False, 0)
    asset = "eip155:424242/slip44:60"
    place = Destination("crypto_1", tea.id, asset, f"eip155:424242:{treasury}")
    partner = Partner("prtn_1", "Tenant", "2026-02-18", "active", 0)

    async def registered() -> None:
        store = await open_store(stopped / "florin.db")
        await store.write(merchants.put_partner(partner))
        await store.write(merchants.put_merchant(tea))
        await store.write(destinations.put_destination(place))
        await store.close()

    uvloop.run(registered())
    done = forks("doctor", home=stopped)
    assert done.status == 1
    assert (
        f"✗ eip155:424242: destination_reserved: merchant mrch_tea wants {asset} at "
        f"{place.account}, but that is the treasury of this service" in done.out
    )
