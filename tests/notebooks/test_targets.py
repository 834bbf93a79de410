"""Notebooks on a Florin of another process, and their refusals of an unusable one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import lab
import pytest
from data import load
from florin_client import Client
from lab import LabError
from nbclient.exceptions import CellExecutionError

from tests.support.command import RunningCommand, run_florin
from tests.support.notebooks import FOLDER, get_printed, run_notebook

pytestmark = pytest.mark.slow

WALKS = (
    "00_start_here",
    "01_wallet_flow_rest",
    "02_grpc_stream_and_resume",
    "03_approve_permit2_native_and_code",
    "04_solana",
    "06_merchants_and_lists",
    "17_service_levels",
    "18_live",
    "20_pay_without_a_wallet_protocol",
    "21_money_at_addresses",
)
# they need settings that exist only at the start of a Florin
OWN = (
    "05_information_capture",
    "07_refunds_payouts_books",
    "08_failure_gallery",
    "09_going_live",
)
# a merchant's data is enough for it
MERCHANTS = "16_cohorts_and_refunds"
ANALYSES = ("10_funnel", "12_option_mix", "13_failures", "14_prices", "19_revenue")
# these read the chains too
AT_REST = ("11_finality", "15_reconciliation")
# it reads no Florin at all
MODEL = "22_capacity"
CREDENTIALS = ("FLORIN_PARTNER_KEY", "FLORIN_MERCHANT_ID")


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[RunningCommand]:
    """Run `florin up` in a process of its own, after two days of payments."""
    home = tmp_path_factory.mktemp("server") / "home"
    days = ("--seed", "7", "--payments", "80", "--days", "2", "--begin", "2026-10-05")
    done = run_florin("simulate", *days, home=home)
    assert done.status == 0, done.err
    with RunningCommand("up", home=home) as up:
        yield up


@pytest.fixture
def target(desk, server, monkeypatch) -> dict[str, str]:
    """Set the environment of an analyst who has read demo.env and named the target."""
    env = {**server.env, "FLORIN_TARGET": server.env["FLORIN_GRPC_TARGET"]}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


async def refused(name: str) -> str:
    """Return the sentence of a notebook that refuses."""
    with pytest.raises(CellExecutionError) as failed:
        await run_notebook(FOLDER / f"{name}.ipynb")
    return str(failed.value.evalue)


def in_all() -> set[str]:
    return {path.stem for path in FOLDER.glob("*.ipynb")}


@pytest.mark.parametrize("name", WALKS)
async def test_walk_throughs_are_true_on_a_florin_elsewhere(name, target):
    # a server elsewhere has a rate limit for each address
    fewer = {"LEVELS": (1, 3), "PAYMENTS": 6} if name == "17_service_levels" else {}
    assert get_printed(await run_notebook(FOLDER / f"{name}.ipynb", **fewer))


@pytest.mark.parametrize("name", OWN)
async def test_notebook_with_its_own_florin_refuses_a_target(name, target):
    assert await refused(name) == (
        "this notebook starts a Florin with its own settings, and cannot use "
        f"{target['FLORIN_TARGET']}: unset FLORIN_TARGET"
    )


def partner(env: dict[str, str]) -> Client:
    where: dict[str, Any] = {"plaintext": True, "api_key": env["FLORIN_PARTNER_KEY"]}
    return Client(env["FLORIN_TARGET"], **where, merchant_id=env["FLORIN_MERCHANT_ID"])


async def test_a_merchants_analysis_is_of_its_payments_there(target, monkeypatch):
    with partner(target) as client:
        rows = Counter(row.merchant_id for row in client.merchant.list_payments())
    # one of the simulated ones
    del rows[target["FLORIN_MERCHANT_ID"]]
    ((merchant, payments),) = rows.most_common(1)
    monkeypatch.setenv("FLORIN_MERCHANT_ID", merchant)
    text = get_printed(await run_notebook(FOLDER / f"{MERCHANTS}.ipynb"))
    assert f"merchant {merchant} at {target['FLORIN_TARGET']}: {payments} payments" in text


async def test_cohort_notebook_reports_missing_payments(target, monkeypatch):
    with partner(target) as client:
        response = client.admin.create_merchant(
            merchant_name="New", merchant_email="new@shop.example", idempotency_key="new"
        )
    monkeypatch.setenv("FLORIN_MERCHANT_ID", response.merchant.id)
    assert await refused(MERCHANTS) == (
        "cohorts need succeeded payments in two days; this data has 0"
    )


@pytest.mark.parametrize("name", [*ANALYSES, *AT_REST])
async def test_operator_analysis_names_the_data_a_merchant_target_lacks(name, target):
    output = await refused(name)
    assert output.startswith("merchants cannot read ")
    assert output.endswith(": this analysis needs the operator's state folder as FLORIN_TARGET")


@pytest.mark.parametrize("name", [*ANALYSES, MERCHANTS])
async def test_the_operators_analyses_read_the_state_folder_while_florin_runs(
    name, desk, server, monkeypatch
):
    monkeypatch.setenv("FLORIN_TARGET", str(server.home.path))
    assert f"state in {server.home.path}" in get_printed(
        await run_notebook(FOLDER / f"{name}.ipynb")
    )


@pytest.mark.parametrize("name", AT_REST)
async def test_chains_are_read_at_rest_only(name, desk, server, monkeypatch):
    monkeypatch.setenv("FLORIN_TARGET", str(server.home.path))
    assert await refused(name) == (
        f"Florin runs with its state in {server.home.path}: stop it, or use a copy"
    )


def test_every_notebook_was_tried():
    assert {*WALKS, *OWN, *ANALYSES, *AT_REST, MERCHANTS, MODEL} == in_all()


# ---- faults of a target, reported at once


async def read_start_error(monkeypatch: pytest.MonkeyPatch, **env: str) -> str:
    """Return the text of a walk-through's start."""
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LabError) as failed:
        await lab.start()
    return str(failed.value)


@pytest.mark.parametrize(
    ("named", "what"),
    [
        ("florin", "not a host:port"),
        ("http://127.0.0.1:8420", "not a host:port"),
        ("/", "a folder"),
    ],
)
async def test_a_target_that_is_no_address_is_refused(named, what, desk, monkeypatch):
    sentence = await read_start_error(monkeypatch, FLORIN_TARGET=named)
    assert sentence.startswith(f"FLORIN_TARGET is {named}, {what}")
    assert sentence.endswith(
        "set it to the gRPC address of a Florin, as in FLORIN_GRPC_TARGET of demo.env"
    )


async def test_unreachable_target_and_rest_address_are_reported(target, monkeypatch):
    rest = target["FLORIN_BASE_URL"].removeprefix("http://")
    for wrong in ("127.0.0.1:1", rest):
        sentence = await read_start_error(monkeypatch, FLORIN_TARGET=wrong)
        assert sentence.startswith(
            f"{wrong} does not respond over gRPC: check that Florin runs, and "
        )


async def test_a_server_without_the_call_is_too_old(target, monkeypatch):
    older = grpc.aio.server()
    port = older.add_insecure_port("127.0.0.1:0")
    await older.start()
    try:
        where = f"127.0.0.1:{port}"
        sentence = await read_start_error(monkeypatch, FLORIN_TARGET=where)
        with pytest.raises(
            LabError, match=f"^{where} lists no payments: it is not Florin, or too old"
        ):
            await asyncio.to_thread(load, "payments")
    finally:
        await older.stop(None)
    assert sentence.startswith(f"{where} is not a Florin, or is older than this notebook: ")


async def test_wrong_credentials_are_reported(target, monkeypatch):
    where = target["FLORIN_TARGET"]
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    assert await read_start_error(monkeypatch) == (
        f"set {' and '.join(CREDENTIALS)}, the credentials of a merchant at {where}"
    )
    good = {name: target[name] for name in CREDENTIALS}
    sentence = await read_start_error(monkeypatch, **{**good, "FLORIN_PARTNER_KEY": "fl_test_none"})
    assert sentence.startswith(f"{where} refuses the credentials: FLORIN_PARTNER_KEY must")
    sentence = await read_start_error(monkeypatch, **{**good, "FLORIN_MERCHANT_ID": "mrch_none"})
    assert sentence.startswith(f"{where} has no such merchant: FLORIN_MERCHANT_ID must belong to")
    sentence = await read_start_error(monkeypatch, **{**good, "FLORIN_PARTNER_KEY": "clé"})
    assert sentence.startswith("the credentials in the environment are invalid: api-key")


async def test_a_live_key_is_for_reading_only(target, monkeypatch):
    assert await read_start_error(monkeypatch, FLORIN_PARTNER_KEY="fl_live_" + "1" * 43) == (
        "this notebook creates payments, and FLORIN_PARTNER_KEY is a live key: set a test key"
    )


async def test_missing_target_settings_are_named(target, monkeypatch):
    """With a merchant's credentials alone a walk-through runs as far as its wallet."""
    for name in target:
        if name not in {*CREDENTIALS, "FLORIN_TARGET"}:
            monkeypatch.delenv(name)
    assert await refused("00_start_here") == (
        f"set FLORIN_EVM_CHAIN too: this notebook needs it for the Florin at "
        f"{target['FLORIN_TARGET']}: a sandbox writes it to demo.env"
    )


async def test_a_line_to_another_machine_is_not_cut(target):
    here = await lab.start()
    try:
        here.env["FLORIN_GRPC_TARGET"] = "florin.example:443"
        with pytest.raises(LabError, match=r"^the connection to florin\.example is encrypted: use"):
            here.line()
    finally:
        await here.close()


@pytest.mark.parametrize(
    ("library", "module"), [("matplotlib", "charts"), ("pandas", "data"), ("pyarrow", "data")]
)
def test_missing_notebook_extra_is_reported_with_its_install_command(library, module):
    without = f"import sys; sys.modules[{library!r}] = None; import {module}"
    done = subprocess.run(
        [sys.executable, "-c", without], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: {library} is missing: pip install 'florin-pay[notebooks]'"
    )
