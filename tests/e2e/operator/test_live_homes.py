"""A home with a live chain: what was there for a first try is off, unless it is asked for."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.boot.service import Service
from florin_server.config import EmbeddedSolana
from florin_server.domain.conditions import ConditionName
from florin_server.flows.operator import health
from florin_server.rails.networks import chain_files, chain_writer

from tests.support.api import Refused, RestApi
from tests.support.service import running, settings
from tests.support.solana import AT_ONCE

pytestmark = pytest.mark.long

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
PLACES = {"settler": "0x" + "ab" * 20, "treasury": "0x" + "fe" * 20}
NODE = {"rpc_url": "http://127.0.0.1:9"}
BASE = chain_writer.text("evm", {"chain_id": 8453, **NODE, **PLACES})
SEPOLIA = chain_writer.text("evm", {"chain_id": 84532, **NODE, **PLACES})
CHAINS = {"eip155:31337", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"}


def put(home, text: str) -> None:
    path = chain_files.folder(home) / "one.toml"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture
async def tried(tmp_path):
    """A home in which somebody tried Florin, and the test accounts that are known since."""
    home = tmp_path / "home"
    async with running(home, solana=AT_ONCE) as service:
        assert (home / "demo.env").exists()
        env = service.home.read_demo_env()
    return home, env


async def start(home, **more) -> Service:
    return await Service.start(settings(home, solana=AT_ONCE, **more))


async def refused(api: RestApi, env: dict[str, str]) -> list[tuple[int, str]]:
    """How the partner's key, the wallet's and the app id are answered; empty where they work."""
    found = []
    key = {"Api-Key": env["FLORIN_WALLET_KEY"]}
    for call in (
        api.create(ORDER),
        api.call("GET", "/v1/gateway/payment/pay_1", key),
        api.call("GET", "/v1/gateway/payment/pay_1", api.wallet),
    ):
        try:
            await call
        except Refused as error:
            if error.code != "payment_not_found":
                found.append((error.http, error.code))
    return found


async def test_a_live_chain_ends_what_was_there_for_a_try(tried, session, forks):
    home, env = tried
    put(home, BASE)
    service = await start(home)
    try:
        assert set(service.app.rails) == {"eip155:8453"}
        assert (service.evm_rpc_url, service.solana_rpc_url) == ("", "")
        api = RestApi(session, service.http_url, env)
        off = [(401, "invalid_api_key"), (401, "invalid_api_key"), (401, "invalid_app_id")]
        assert await refused(api, env) == off
    finally:
        await service.stop()
    doctor = forks("doctor", home=home)
    assert "✓ embedded chains and test accounts are off\n" in doctor.out


@pytest.mark.parametrize("chain", [BASE, SEPOLIA])
async def test_they_are_on_where_they_are_asked_for_or_nothing_is_live(
    tried, session, forks, chain
):
    home, env = tried
    put(home, chain)
    service = await start(home, demo=True if chain is BASE else None)
    try:
        assert len(service.app.rails) == 3
        assert await refused(RestApi(session, service.http_url, env), env) == []
    finally:
        await service.stop()
    told = forks("doctor", home=home, FLORIN_DEMO="true").out
    assert "✓ embedded chains and test accounts are on\n" in told
    # of the sandbox; pounds are enabled, and nothing there has a price in them
    said = "test payments can be asked for in USD, EUR"
    assert f"✓ {said}\n" in told
    assert f"! {said}; nothing can be paid in GBP: " in " ".join(told.split())
    # a chain without tokens and rates
    assert ("live payments can be asked for in no currency\n" in told) is (chain is BASE)


@pytest.mark.parametrize(
    ("pay_url", "told"),
    [
        ("", "which buyers elsewhere cannot reach"),
        ("http://pay.example", "others on the way can change"),
        ("https://pay.example", ""),
    ],
)
async def test_links_of_live_payments_have_to_lead_somewhere(tmp_path, caplog, pay_url, told):
    home = tmp_path / "home"
    home.mkdir(0o700)
    put(home, BASE)
    async with running(home, solana=EmbeddedSolana(), pay_url=pay_url) as service:
        conditions = {one.name: one for one in await health.of_installation(service.app)}
    reason = conditions[ConditionName.PAY_URL_LOCAL].reason
    assert (told in reason, bool(reason)) == (True, bool(told))
    assert ("set FLORIN_PAY_URL" in caplog.text) is bool(told)


async def test_the_doctor_tells_where_links_of_live_payments_lead(tmp_path, forks):
    home = tmp_path / "home"
    home.mkdir(0o700)
    put(home, BASE)
    async with running(home, solana=EmbeddedSolana()):
        pass
    doctor = forks("doctor", home=home)
    assert "installation: pay_url_local: payment links begin with http://127.0.0.1" in doctor.out
    alone = "! no trusted_proxies: whoever calls through a proxy in front counts as one address"
    assert alone in doctor.out
    doctor = forks(
        "doctor",
        home=home,
        FLORIN_PAY_URL="https://pay.invalid/",
        FLORIN_TRUSTED_PROXIES='["127.0.0.1/32"]',
    )
    assert alone not in doctor.out
    # nobody answers there, whether Florin runs here or not
    stopped = "✗ payment links begin with https://pay.invalid: the name pay.invalid is not found"
    assert stopped in doctor.out
    assert doctor.status == 1
    async with running(home, solana=EmbeddedSolana(), pay_url="https://pay.invalid") as service:
        addresses = {"http": service.http_url, "operator": service.grpc.operator_target}
        with service.home.announced(addresses):
            doctor = await asyncio.to_thread(
                forks, "doctor", home=home, FLORIN_PAY_URL="https://pay.invalid"
            )
    assert "the name pay.invalid is not found" in doctor.out


async def test_they_come_back_as_they_were(tried, session):
    home, env = tried
    for demo, works in ((False, False), (None, True)):
        service = await start(home, demo=demo)
        try:
            told = await refused(RestApi(session, service.http_url, env), env)
            assert (told == []) is works
        finally:
            await service.stop()


async def test_a_new_home_with_a_live_chain_never_has_them(tmp_path, forks):
    home = tmp_path / "home"
    home.mkdir(0o700)
    put(home, BASE)
    async with running(home, solana=EmbeddedSolana()) as service:
        assert set(service.app.rails) == {"eip155:8453"}
    assert not (home / "demo.env").exists()
    assert "there is a live chain or FLORIN_DEMO says so" in forks("demo", home=home).err
    assert forks("partners", "list", home=home).out.count("\n") == 1
