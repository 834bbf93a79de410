"""`florin faults`: what was armed on the embedded chains is found again, and ended."""

from __future__ import annotations

import re

from tests.support.chain import Chain
from tests.support.command import told


async def test_armed_faults_are_listed_told_by_the_doctor_and_cleared(up, forks, session):
    url = {name: up.env[f"FLORIN_{name}_RPC_URL"] for name in ("EVM", "SOLANA")}
    evm = Chain(session, url["EVM"], "")
    lost = {"kind": "answer", "method": "eth_getLogs_", "effect": "null", "times": 3}
    await evm.ask("florin_fault", lost)
    await evm.ask("florin_fault", {"kind": "revert", "times": 2})
    late = {"kind": "answer", "method": "getSlot_", "effect": "delay"}
    await Chain(session, url["SOLANA"], "").ask("florin_fault", late)
    done = forks("faults", "list", home=up.home.path)
    assert (done.status, done.err) == (0, "")
    _, *rows = [re.split(r" {2,}", line) for line in done.out.splitlines()]
    assert rows == [
        ["EVM", "answer", "method=eth_getLogs_ effect=null times=3"],
        ["EVM", "revert", "times=2"],
        ["Solana", "answer", "method=getSlot_ effect=delay times=1"],
    ]
    doctor = forks("doctor", home=up.home.path)
    assert doctor.status == 1
    assert "✗ test chain EVM: armed to go wrong: revert times=2; see florin faults" in doctor.out
    done = forks("faults", "clear", "revert", home=up.home.path)
    assert (done.status, done.out) == (0, "1 ended, 2 left.\n")
    assert forks("faults", "clear", "thunder", home=up.home.path).status == 2
    done = forks("faults", "clear", home=up.home.path)
    assert (done.status, done.out) == (0, "2 ended, 0 left.\n")
    assert len(forks("faults", "list", home=up.home.path).out.splitlines()) == 1
    assert forks("doctor", home=up.home.path).status == 0


def test_without_embedded_chains_there_are_no_faults_to_list(stopped, forks):
    for command in ("list", "clear"):
        done = forks("faults", command, home=stopped)
        assert done.status == 1
        assert "no embedded chain runs" in told(done)
