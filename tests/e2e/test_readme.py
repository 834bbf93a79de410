"""The README's first payment, typed as it stands there."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.service import running

README = (Path(__file__).parents[2] / "README.md").read_text()


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


SECTION = section("Your first payment, by hand")


@pytest.fixture
async def folder(tmp_path):
    """A checkout as `make up` leaves it: a Florin that runs, its state and its Python."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    home = tmp_path / ".florin"
    async with running(home, block_interval_s=0.2, confirmations=2) as service:
        # commands find it as they find what `florin up` runs
        with service.home.announced({"operator": service.grpc.operator_target}):
            yield tmp_path


async def typed(script: str, folder: Path) -> asyncio.subprocess.Process:
    shell = ("bash", "-euo", "pipefail", "-c", script)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*shell, cwd=folder, stdout=pipe, stderr=pipe)


def shell_of(text: str, word: str) -> str:
    """The indented block with this word in it."""
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", text + "\n", re.MULTILINE)
    (block,) = [block for block in blocks if word in block]
    return textwrap.dedent(block)


def opening(script: str) -> str:
    """The first lines: the credentials, and how a member of an answer is read."""
    return script.partition("\n\n")[0] + "\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README types curl")
async def test_the_first_payment_by_hand_succeeds(folder):
    process = await typed(shell_of(SECTION, "demo.env"), folder)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, err) == (0, b""), (out, err)
    created, confirmed, *stream = out.decode().splitlines()
    assert json.loads(created)["status"] == "requires_action"
    assert json.loads(confirmed)["status"] in {"processing", "succeeded"}
    states = [json.loads(line[5:]) for line in stream if line.startswith("data:")]
    assert states[-1]["status"] == "succeeded"
    assert states[-1]["isFinal"] is True


async def test_the_merchants_side_in_python_follows_a_payment(folder, session):
    (code,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    (folder / "merchant.py").write_text(code)
    script = "set -a; . .florin/demo.env; set +a; exec .venv/bin/python -u merchant.py"
    process = await typed(script, folder)
    link = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
    assert link.startswith("to be paid at http")
    assert await process.stdout.readline() == b"0 PAYMENT_STATUS_REQUIRES_ACTION\n"
    base, payment_id = link.split()[-1].rsplit("/", 1)
    lines = (folder / ".florin" / "demo.env").read_text().splitlines()
    env = dict(line.split("=", 1) for line in lines)
    headers = {"App-Id": env["FLORIN_APP_ID"], "Client-Id": env["FLORIN_CLIENT_ID"]}
    url = f"{base}/v1/gateway/payment/{payment_id}/cancel"
    async with session.post(url, headers=headers) as answer:
        assert answer.status == 200
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, out, err) == (0, b"1 PAYMENT_STATUS_CANCELLED\n", b"")


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README types curl")
async def test_a_partner_of_ones_own_takes_a_payment(folder):
    same_shell = opening(shell_of(SECTION, "demo.env"))
    script = same_shell + shell_of(section("A partner of your own"), "partners create")
    process = await typed(f"{script}\necho $MERCHANT $APP_ID $WALLET_KEY", folder)
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, (out, err)
    places, bank, info, ids = out.decode().splitlines()
    (place,) = json.loads(places)["settlements"]
    assert place["id"].startswith("crypto_")
    assert bank.startswith("fiat_")
    assert json.loads(info)["merchant"]["name"] == "Tea House"
    assert json.loads(info)["status"] == "requires_action"
    assert re.fullmatch(r"tea-house app_\w{17} fl_test_wk_\w+", ids)


@pytest.mark.skipif(shutil.which("curl") is None, reason="the README types curl")
async def test_every_outcome_is_seen_as_it_is_told(folder):
    same_shell = opening(shell_of(SECTION, "demo.env"))
    script = same_shell + shell_of(section("Every outcome, on purpose"), "status_of")
    process = await typed(script, folder)
    out, err = await asyncio.wait_for(process.communicate(), 120)
    assert (process.returncode, err) == (0, b""), (out, err)
    told = [json.loads(line) for line in out.splitlines()]
    succeeded, failed, moved, expired, reverts, fault = told
    assert [one["status"] for one in (succeeded, failed, expired)] == [
        "succeeded",
        "failed",
        "expired",
    ]
    assert moved["movable"] is True
    assert reverts["result"] is fault["result"] is True
