"""Test a production installation, which lacks the sandbox and py-evm."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from florin_server.app import sandbox
from florin_server.app.home import SetupError
from florin_server.app.sandbox import NOT_INSTALLED
from florin_server.settings import Settings

from tests.support.command import PATIENCE_S, ROOT, Process, make_environment

MODULE = "tests.support.without_sandbox"
CHAIN = """
[[chains]]
chain_id = 84532
name = "Base Sepolia"
live = false
rpc_url = "http://127.0.0.1:9"
settler = "0x8fbc2175DC71b3B0B267aa812949653F283A61c3"
treasury = "0x1111111111111111111111111111111111111111"
confirmations = 3
[[chains.assets]]
address = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
name = "USDC"
symbol = "USDC"
decimals = 6
peg = "USD"
domain_version = "2"
"""
NEEDS_CHAINS = {
    ("up",): "Florin does not start",
    ("serve",): "Florin does not start",
    ("demo",): "The demo failed",
    ("demo", "--up"): "The demo failed",
    ("lab", "--yes"): "The lab failed",
    ("simulate",): "Not simulated",
    ("faults", "list"): "Not done",
    ("faults", "clear"): "Not done",
}


def start_fresh(*words: str, home: Path, **changes: str) -> subprocess.Popen[str]:
    """Start a command in a process that has loaded nothing of Florin."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=make_environment(home, changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(begin: Callable[..., Process], home: Path, **changes: str) -> Iterator[str]:
    """Yield the output of a service that answers; it ends well."""
    process = begin(MODULE, "serve", home=home, **changes)
    watchdog = threading.Timer(PATIENCE_S, process.kill)
    watchdog.start()
    try:
        text = ""
        assert process.stdout is not None
        for line in process.stdout:
            text += line
            if "Ctrl-C ends it." in line:
                break
        else:
            raise AssertionError(process.communicate()[1])
        yield text
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def ask(text: str, path: str) -> int:
    (url,) = re.findall(r"^REST +(http://127\.0\.0\.1:\d+)$", text, re.MULTILINE)
    with urllib.request.urlopen(url + path, timeout=10) as answer:
        return answer.status


def test_service_without_chains_starts(tmp_path):
    with serving(start_fresh, tmp_path, FLORIN_DEMO="false") as text:
        assert ask(text, "/readyz") == 200
        assert "Test chain" not in text


def test_service_on_a_test_network_starts_without_embedded_chains(tmp_path, forks):
    (tmp_path / "florin.toml").write_text(CHAIN)
    with serving(forks.module, tmp_path) as text:
        assert ask(text, "/healthz") == 200
        assert "Test chain" not in text


@pytest.mark.parametrize("words", NEEDS_CHAINS, ids=" ".join)
def test_command_that_needs_embedded_chains_says_what_to_install(tmp_path, forks, words):
    process = forks.module(MODULE, *words, home=tmp_path)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert " ".join(errors.split()) == f"{NEEDS_CHAINS[words]}: {NOT_INSTALLED}"
    assert "install florin-sandbox, or add a chain with `florin chain add`" in NOT_INSTALLED


def test_explicitly_enabled_embedded_chains_are_not_left_out(tmp_path, forks):
    (tmp_path / "florin.toml").write_text(CHAIN)
    process = forks.module(MODULE, "serve", home=tmp_path, FLORIN_DEMO="true")
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, NOT_INSTALLED in " ".join(errors.split())) == (1, True)


def test_commands_of_the_sandbox_are_listed_without_it(tmp_path):
    text, _ = start_fresh(MODULE, "--help", home=tmp_path).communicate(timeout=PATIENCE_S)
    listed = set(re.findall(r"^  ([\w-]+)  ", text, re.MULTILINE))
    assert {"demo", "faults", "lab", "simulate"} <= listed


def test_settings_of_embedded_chains_are_readable_without_the_sandbox(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "florin_sandbox", None)
    settings = Settings(home=tmp_path, embedded={"confirmations": 3})
    assert (settings.embedded.confirmations, settings.has_embedded) == (3, True)
    assert sandbox.find_sandbox() is None
    assert sandbox.without_missing_sandbox(settings) is settings
    with pytest.raises(SetupError, match="install florin-sandbox"):
        sandbox.require_sandbox()
