"""`florin simulate` on a state folder, and `florin up` that continues with it."""

from __future__ import annotations

import json
import re
import sqlite3
import urllib.request
from contextlib import closing

import pytest

from tests.support.command import get_refusal

pytestmark = pytest.mark.slow

FEW = ("--payments", "20", "--days", "1")


def payments(env):
    """Return the partner's list of payments."""
    headers = {"Api-Key": env["FLORIN_PARTNER_KEY"]}
    url = f"{env['FLORIN_BASE_URL']}/v1/payments?limit=100"
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return json.load(answer)


def wrong(doctor):
    # no asset of the sandbox pays in GBP, which is a note
    lines = [
        line for line in doctor.out.splitlines() if "no asset can pay amounts in GBP" not in line
    ]
    return [line for line in lines if not line.startswith("✓")]


def ahead_us(home):
    with closing(sqlite3.connect(home / "florin.db")) as database:
        query = "SELECT value FROM installation WHERE name = 'test_clock_ahead_us'"
        results = database.execute(query).fetchall()
    return int(results[0][0]) if results else 0


def test_simulated_home_ends_now_and_florin_continues_with_it(tmp_path, forks):
    home = tmp_path / "home"
    done = forks("simulate", *FEW, home=home)
    assert done.status == 0, done.err
    first, *_, last = done.out.splitlines()
    assert first.startswith("20 payments in 1 day, simulated in ")
    assert last.startswith("Checked: every payment ended as its buyer expects")
    assert ahead_us(home) == 0
    assert wrong(forks("doctor", home=home)) == []

    with forks.start_lasting("up", home=home) as up:
        listed = payments(up.env)
        # and the demo's first payment, which was not paid
        assert len(listed["data"]) == 21
        assert {item["status"] for item in listed["data"]} >= {"succeeded", "expired"}
        demo = forks("demo", home=home)
        assert (demo.status, demo.err) == (0, "")
        assert re.search(r"^succeeded  transaction 0x", demo.out, re.MULTILINE)
        assert wrong(forks("doctor", home=home)) == []
        checked = forks("ledger", "check", home=home)
        assert (checked.status, checked.out.splitlines()[-1]) == (0, "✓ the ledger balances")

        refused = forks("simulate", *FEW, home=home)
        assert refused.status == 1
        assert get_refusal(refused) == (
            f"Not simulated: Florin runs with its state in {home}: stop it, or use another state "
            "folder (--home)"
        )

    # in a used home, simulated days come after the existing ones, and its time is advanced
    again = forks("simulate", *FEW, "--seed", "2", home=home)
    assert again.status == 0, again.err
    assert ahead_us(home) > 23 * 3_600_000_000
    with forks.start_lasting("up", home=home) as up:
        assert len(payments(up.env)["data"]) == 42
        assert forks("demo", home=home).status == 0
        assert wrong(forks("doctor", home=home)) == []


CHAIN = """
[[chains]]
chain_id = 8453
name = "Base"
rpc_url = "http://127.0.0.1:1"
settler = "0x7296bceede3d2a3abfeaac694c53850da72d39c5"
treasury = "0x7296bceede3d2a3abfeaac694c53850da72d39c6"
"""


@pytest.mark.parametrize(
    ("command", "changes", "why"),
    [
        (["--payments", "0"], {}, "payments is 0: it must be from 1 to 100000"),
        (["--slow-chain", "base"], {}, "slow_chain is 'base': it must be evm, solana or empty"),
        (
            ["--begin", "2999-01-01"],
            {},
            "7 days from 2999-01-01 on are not over yet: use an earlier --begin",
        ),
        (
            [],
            {"FLORIN_DEMO": "false"},
            "a simulation needs both embedded chains: enable both in the settings",
        ),
        (
            [],
            {"FLORIN_EMBEDDED_SOLANA__ENABLED": "false"},
            "a simulation needs both embedded chains: enable both in the settings",
        ),
    ],
)
def test_impossible_simulation_is_refused_in_a_sentence(tmp_path, forks, command, changes, why):
    home = tmp_path / "home"
    done = forks("simulate", *command, home=home, **changes)
    assert done.status in {1, 2}
    assert get_refusal(done) == f"Not simulated: {why}"
    assert not home.exists()


def test_a_home_with_other_chains_is_refused(tmp_path, forks):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "florin.toml").write_text(CHAIN)
    done = forks("simulate", home=home)
    assert done.status == 1
    assert get_refusal(done) == (
        "Not simulated: the settings name real chains, whose clock cannot move: use another state "
        "folder (--home)"
    )


def test_a_first_day_is_for_a_new_home(tmp_path, forks):
    home = tmp_path / "home"
    few = ("--payments", "1", "--days", "1", "--begin", "2026-06-01")
    assert forks("simulate", *few, home=home).status == 0
    again = forks("simulate", *few, home=home)
    assert again.status == 1
    assert get_refusal(again) == (
        f"Not simulated: {home} was used before: leave out --begin, or use another state folder "
        "(--home)"
    )
