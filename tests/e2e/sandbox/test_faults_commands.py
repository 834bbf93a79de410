"""`florin faults`: it lists faults that were armed on the embedded chains, and ends them."""

from __future__ import annotations

import re

from tests.support.chain import ChainClient
from tests.support.command import get_refusal


async def test_armed_faults_are_listed_reported_by_doctor_and_cleared(up, forks, session):
    url = {name: up.env[f"FLORIN_{name}_RPC_URL"] for name in ("EVM", "SOLANA")}
    evm = ChainClient(session, url["EVM"], "")
    lost = {"kind": "answer", "method": "eth_getLogs_", "effect": "null", "times": 3}
    await evm.ask("florin_fault", lost)
    await evm.ask("florin_fault", {"kind": "revert", "times": 2})
    late = {"kind": "answer", "method": "getSlot_", "effect": "delay"}
    await ChainClient(session, url["SOLANA"], "").ask("florin_fault", late)
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
    assert (
        "✗ test chain EVM: a fault is armed: revert times=2; see `florin faults list`" in doctor.out
    )
    done = forks("faults", "clear", "revert", home=up.home.path)
    assert (done.status, done.out) == (0, "Faults cleared: 1, left: 2.\n")
    assert forks("faults", "clear", "thunder", home=up.home.path).status == 2
    done = forks("faults", "clear", home=up.home.path)
    assert (done.status, done.out) == (0, "Faults cleared: 2, left: 0.\n")
    assert len(forks("faults", "list", home=up.home.path).out.splitlines()) == 1
    assert forks("doctor", home=up.home.path).status == 0


def test_without_embedded_chains_there_are_no_faults_to_list(stopped, forks):
    for command in ("list", "clear"):
        done = forks("faults", command, home=stopped)
        assert done.status == 1
        assert "no embedded chain runs" in get_refusal(done)
