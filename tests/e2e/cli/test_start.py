"""Modules that a command loads at its start, its completion, and its version text."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest
from florin_server import __version__

from tests.support.command import run_florin

# modules of a command that calls a server: the command line, the client, and the JSON encoder
SLOW = (
    *(
        "florin_sandbox.devnet",
        "florin_server.accounts",
        "florin_server.api",
        "florin_server.compliance",
        "florin_server.db",
        "florin_server.features",
        "florin_server.idempotency",
        "florin_server.limits",
        "florin_server.money",
        "florin_server.operations",
        "florin_server.rails",
        "florin_server.settings",
        "florin_server.web",
    ),
    *("sqlalchemy", "sqlmodel", "alembic", "pydantic_settings", "aiohttp", "uvicorn", "uvloop"),
    *("solders", "eth", "eth_account", "eth_abi", "coincurve", "cryptography", "pyarrow"),
    *("btclib_libsecp256k1", "opentelemetry", "prometheus_client", "tomlkit", "segno"),
)
LOOK = """
import json, runpy, sys
sys.argv = ["florin", *sys.argv[1:]]
from florin_server.cli import main
status = None
try:
    main()
except SystemExit as ended:
    status = ended.code
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""


SERVER = "--server=127.0.0.1:1"
OF_A_MERCHANT = (SERVER, "--api-key=a", "--merchant=b")
ASKING = [
    ("payments", "create", "12.50 USD"),
    ("payments", "list"),
    ("payments", "show", "pay_1"),
    ("payments", "tail", "pay_1"),
    ("payments", "cancel", "pay_1", "--yes"),
    ("payments", "refund", "pay_1", "--yes"),
    ("merchants", "list"),
    ("merchants", "destinations", "mrch_1"),
    ("trigger", "succeeded"),
]


def look(*words: str, **changes: str) -> subprocess.Popen[str]:
    """Start a command that reports its loaded modules at its end."""
    return subprocess.Popen(
        [sys.executable, "-c", LOOK, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **changes},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, set[str]]:
    """Return a command's exit status, and the slow modules that it had loaded by then."""
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    status, modules = json.loads(err.splitlines()[-1])
    results = {
        text for name in modules for text in SLOW if name == text or name.startswith(f"{text}.")
    }
    return status, results


def loaded(*words: str, **changes: str) -> tuple[int, set[str]]:
    return ended(look(*words, **changes))


@pytest.fixture(scope="module")
def asking(tmp_path_factory) -> Iterator[dict[tuple[str, ...], subprocess.Popen[str]]]:
    """Start all commands that call a server which never answers; each gives up after seconds."""
    out = tmp_path_factory.mktemp("exported") / "out"
    key = {"FLORIN_PARTNER_KEY": "a", "FLORIN_MERCHANT_ID": "b"}
    processes = {words[:2]: look(*words, *OF_A_MERCHANT) for words in ASKING}
    processes["export",] = look("export", "--to", str(out), SERVER, **key)
    yield processes
    for popen in processes.values():
        popen.kill()
        popen.communicate()


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_client_command_loads_no_server_module(asking, words):
    assert ended(asking[words[:2]]) == (5, set())


def test_an_export_from_a_server_loads_no_store(asking):
    # of the features only exports, whose service needs no store
    assert ended(asking["export",]) == (1, {"florin_server.features"})


def test_help_loads_nothing_either():
    assert loaded("payments", "--help") == (0, set())
    assert loaded("--version") == (0, set())


def test_loaded_server_modules_are_detected(tmp_path):
    """Otherwise the tests above would find nothing."""
    _, results = loaded("doctor", "--home", str(tmp_path / "home"))
    assert {"florin_server.db", "florin_server.rails", "sqlalchemy", "aiohttp"} <= results


def test_server_loads_no_wallet_library():
    """It would be a sixth of the start; only keystores and test payments need it."""
    code = "import florin_server.app.service, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=240
    )
    modules = done.stdout.split()
    assert "florin_server.money.payments.service.panel_wallet" in modules
    assert "eth_account" not in modules


def test_version_is_printed(tmp_path):
    assert run_florin("--version", home=tmp_path / "home").out == f"florin {__version__}\n"


def completed(shell: str, typed: str) -> str:
    changes = {"_FLORIN_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        changes |= {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    else:
        changes |= {"_TYPER_COMPLETE_ARGS": typed, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [shutil.which("florin", path=sys.prefix + "/bin") or "florin"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", **changes},
        timeout=240,
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options_are_completed(shell, tmp_path):
    script = run_florin("completion", shell, home=tmp_path / "home")
    assert script.status == 0
    assert f"_FLORIN_COMPLETE=complete_{shell}" in script.out
    assert "payments" in completed(shell, "florin pay")
    of_payments = completed(shell, "florin payments re")
    assert "refund" in of_payments
    assert "create" not in of_payments
    assert "--expires-in" in completed(shell, "florin payments create --ex")


def test_unknown_shell_is_refused(tmp_path):
    done = run_florin("completion", "csh", home=tmp_path / "home")
    assert (done.status, done.out) == (2, "")
    assert "bash, zsh, fish" in done.err
