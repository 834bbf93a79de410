"""State folders, ports and secrets as `florin` keeps them: not made by looking, told by name."""

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
from florin_server.boot.home import Home
from florin_server.cli.exits import Exit
from florin_server.domain.accounts.account import Partner
from florin_server.domain.payments.payment import Destination, Merchant
from florin_server.store.accounts import destinations, merchants
from florin_server.store.engine.opening import open_store

from tests.support.command import FLORIN, Lasting, environment, told

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
    # what can be done to nothing only
    ["keys", "revoke", "12345678"],
    ["payouts", "refuse", "pout_1"],
    ["partners", "suspend", "prtn_1"],
)


def holder() -> str:
    """How a message names this process, where the system tells; its name changes all the time."""
    name = Path("/proc/self/comm")
    return f" by process {os.getpid()} ({name.read_text().strip()})" if name.exists() else ""


# folders that are not there


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
@pytest.mark.parametrize("made", [False, True])
def test_a_command_that_only_looks_makes_no_home(tmp_path, forks, command, made):
    home = tmp_path / "home"
    if made:
        home.mkdir()
    done = forks(*command, home=home)
    # what needs one that runs says that none does
    assert done.status == (Exit.UNREACHABLE if command[0] == "executors" else Exit.REFUSED)
    assert "florin up" in done.out + done.err
    assert str(home) in done.out + done.err
    assert home.exists() is made
    assert not made or list(home.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["partners", "create", "Tea"], ["wallets", "register", "Purse"]], ids=" ".join
)
def test_what_begins_an_installation_may_make_its_home(tmp_path, forks, command):
    home = tmp_path / "home"
    assert forks(*command, home=home).status == 0
    assert Home(home).exposed() == []
    assert forks("doctor", home=home).status == 0


# restored folders


def test_a_restored_home_is_mended_by_the_doctor_and_by_up(tmp_path, stopped, forks):
    home = tmp_path / "restored"
    shutil.copytree(stopped, home)

    def restore() -> None:
        for one in (home, *home.rglob("*")):
            one.chmod(0o755 if one.is_dir() else 0o644)

    restore()
    doctor = forks("doctor", home=home)
    assert doctor.status == 1
    (names,) = re.findall(rf"✗ state in {home}: (.*) could be read by others", doctor.out)
    exposed = {"restored", "secrets.json", "demo.env", "florin.db", "evm.db"}
    assert exposed <= set(names.split(", "))
    assert Home(home).exposed() == []
    assert f"✓ state in {home}\n" in forks("doctor", home=home).out
    restore()
    with forks.lasting("up", home=home) as command:
        assert Home(home).exposed() == []
        command.tell(signal.SIGTERM)
        done = command.ended()
    assert "others could read what only its owner may" in done.err
    assert forks("doctor", home=home).status == 0


def test_all_that_a_new_home_holds_is_private(up):
    names = {one.name for one in up.home.path.iterdir()}
    assert {"secrets.json", "demo.env", "running.json", "florin.db", "evm.db"} <= names
    assert [one for one in up.home.path.iterdir() if one.stat().st_mode & 0o077] == []


# settings


def test_the_doctor_tells_which_settings_count(tmp_path, forks):
    home, here = tmp_path / "home", tmp_path / "florin.toml"
    assert forks("partners", "create", "Tea", home=home).status == 0
    assert "✓ settings without a florin.toml\n" in forks("doctor", home=home).out
    here.write_text("")
    assert f"✓ settings from {here}\n" in forks("doctor", home=home).out
    own = home / "florin.toml"
    own.write_text("[embedded]\nenabled = false\n[embedded_solana]\nenabled = false\n")
    own.chmod(0o600)
    told = f"settings from {own}; {here} does not count"
    assert f"✓ {told}\n" in forks("doctor", home=home).out
    with forks.lasting("up", home=home) as running:
        assert f"\nSettings  {own}\n" in running.out
        assert running.home.addresses()["evm_rpc"] == ""
        assert f"✓ {told}\n" in forks("doctor", home=home).out
        own.unlink()
        doctor = forks("doctor", home=home)
    assert doctor.status == 1
    assert f"✗ settings from {here}: but Florin runs with those of {own}\n" in doctor.out


# ports


@pytest.fixture
def busy():
    """A port that somebody listens on."""
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
def test_a_busy_port_is_told(tmp_path, forks, busy, setting, option, who):
    done = forks("up", home=tmp_path / "home", **{setting: busy})
    assert done.status == 1
    assert told(done) == (
        f"Florin does not start: {who} cannot listen on 127.0.0.1:{busy}: Address already in use"
        f"{holder()}; choose another port with {option}{setting} (0: any)"
    )


def test_a_busy_port_is_told_by_the_gateway(tmp_path, forks, busy):
    home = tmp_path / "home"
    done = forks("gateway", "--upstream=127.0.0.1:1", f"--http-port={busy}", home=home)
    assert done.status == 1
    assert told(done) == (
        f"The gateway does not start: REST cannot listen on 127.0.0.1:{busy}: "
        f"Address already in use{holder()}; choose another port with --http-port or "
        "FLORIN_HTTP_PORT (0: any)"
    )


def test_an_address_that_is_not_ours_has_no_other_port(tmp_path, forks):
    done = forks("up", home=tmp_path / "home", FLORIN_HOST="192.0.2.1", FLORIN_INSECURE_BIND="1")
    assert done.status == 1
    assert told(done).endswith("REST cannot listen on 192.0.2.1:0: Cannot assign requested address")


# secrets


def on_terminal(*command: str, home: Path, until: str, **changes: str) -> str:
    """What a command tells a terminal, up to a sentence; it is ended then."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [FLORIN, *command],
        cwd=home.parent,
        env=environment(home, changes),
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
        process.communicate(timeout=60)
        os.close(ours)
    return out.decode().replace("\r\n", "\n")


# a colour that is forced makes no terminal
@pytest.mark.parametrize("command", [["up"], ["demo", "--up"]], ids=" ".join)
def test_what_is_no_terminal_is_told_no_secret(tmp_path, command):
    with Lasting(*command, home=tmp_path / "home", FORCE_COLOR="1") as running:
        env = running.env
        running.tell(signal.SIGTERM)
        done = running.ended()
    kept = json.loads((running.home.path / "secrets.json").read_text())
    secrets = [value for name, value in env.items() if name.endswith("_KEY")]
    secrets += [kept[name] for name in ("pepper", "operator_token", "relayer_key")]
    assert len(secrets) == 5
    told_all = running.out + done.out + done.err
    assert [one for one in secrets if one in told_all] == []
    assert "FLORIN_" not in told_all
    assert str(running.home.demo_env) in told_all


def test_a_terminal_is_told_the_test_accounts_once(tmp_path):
    home = tmp_path / "home"
    out = on_terminal("up", home=home, until="Ctrl-C ends it.")
    for name, value in Home(home).read_demo_env().items():
        assert f"  {name}={value}\n" in out
    again = on_terminal("up", home=home, until="Ctrl-C ends it.")
    assert "FLORIN_" not in again
    assert f"Test accounts are in {home / 'demo.env'}.\n" in again


# accounts of ours


def test_a_demo_merchant_that_would_be_one_of_us_is_refused(tmp_path, stopped, forks):
    home = tmp_path / "other"
    Home(home).open()
    kept = json.loads((stopped / "secrets.json").read_text())
    kept["demo_destination_key"] = kept["relayer_key"]
    (home / "secrets.json").write_text(json.dumps(kept))
    done = forks("up", home=home)
    assert done.status == 1
    sentence = "demo_destination_key in secrets.json is the key of a relayer of this service"
    assert done.err.splitlines()[-1].endswith(sentence)


def test_the_doctor_of_a_stopped_florin_tells_of_places_that_are_ours_now(stopped, forks):
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
