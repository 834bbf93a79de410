"""A home with a live chain: features for a first try are off, unless they are enabled."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.app.service import FlorinService
from florin_server.domain.conditions import ConditionName
from florin_server.features.monitoring.service import health
from florin_server.rails.networks import chain_files, chain_writer
from florin_server.settings import EmbeddedSolanaSettings

from tests.support.api import ApiCallError, RestApi
from tests.support.service import make_settings, run_service
from tests.support.solana import INSTANT_SOLANA

pytestmark = pytest.mark.long

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
PLACES = {"settler": "0x" + "ab" * 20, "treasury": "0x" + "fe" * 20}
NODE = {"rpc_url": "http://127.0.0.1:9"}
BASE = chain_writer.format_file("evm", {"chain_id": 8453, **NODE, **PLACES})
SEPOLIA = chain_writer.format_file("evm", {"chain_id": 84532, **NODE, **PLACES})
CHAINS = {"eip155:31337", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"}


def put(home, text: str) -> None:
    path = chain_files.get_folder(home) / "one.toml"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


@pytest.fixture
async def tried(tmp_path):
    """Make a home in which Florin was tried, with the test accounts known since."""
    home = tmp_path / "home"
    async with run_service(home, solana=INSTANT_SOLANA) as service:
        assert (home / "demo.env").exists()
        env = service.home.read_demo_env()
    return home, env


async def start(home, **more) -> FlorinService:
    return await FlorinService.start(make_settings(home, solana=INSTANT_SOLANA, **more))


async def refused(api: RestApi, env: dict[str, str]) -> list[tuple[int, str]]:
    """Return the refusals of the partner's key, the wallet's and the app id; empty if they work."""
    results = []
    key = {"Api-Key": env["FLORIN_WALLET_KEY"]}
    for call in (
        api.create(ORDER),
        api.call("GET", "/v1/gateway/payment/pay_1", key),
        api.call("GET", "/v1/gateway/payment/pay_1", api.wallet),
    ):
        try:
            await call
        except ApiCallError as error:
            if error.code != "payment_not_found":
                results.append((error.http, error.code))
    return results


async def test_live_chain_disables_embedded_chains_and_test_accounts(tried, session, forks):
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
async def test_demo_stays_enabled_on_request_or_without_a_live_chain(tried, session, forks, chain):
    home, env = tried
    put(home, chain)
    service = await start(home, demo=True if chain is BASE else None)
    try:
        assert len(service.app.rails) == 3
        assert await refused(RestApi(session, service.http_url, env), env) == []
    finally:
        await service.stop()
    out = forks("doctor", home=home, FLORIN_DEMO="true").out
    assert "✓ embedded chains and test accounts are on\n" in out
    # of the sandbox; pounds are enabled, and nothing there has a price in them
    text = "test payments can be requested in USD, EUR"
    assert f"✓ {text}\n" in out
    assert f"! {text}; no asset can pay amounts in GBP: " in " ".join(out.split())
    # a chain without tokens and rates
    assert ("live payments can be requested in no currency\n" in out) is (chain is BASE)


@pytest.mark.parametrize(
    ("pay_url", "warning"),
    [
        ("", "which buyers elsewhere cannot reach"),
        ("http://pay.example", "anyone on the network path can change"),
        ("https://pay.example", ""),
    ],
)
async def test_links_of_live_payments_have_to_lead_somewhere(tmp_path, caplog, pay_url, warning):
    home = tmp_path / "home"
    home.mkdir(0o700)
    put(home, BASE)
    async with run_service(home, solana=EmbeddedSolanaSettings(), pay_url=pay_url) as service:
        conditions = {
            condition.name: condition
            for condition in await health.list_installation_conditions(service.app)
        }
    reason = conditions[ConditionName.PAY_URL_LOCAL].reason
    assert (warning in reason, bool(reason)) == (True, bool(warning))
    assert ("set FLORIN_PAY_URL" in caplog.text) is bool(warning)


async def test_doctor_reports_where_live_payment_links_lead(tmp_path, forks):
    home = tmp_path / "home"
    home.mkdir(0o700)
    put(home, BASE)
    async with run_service(home, solana=EmbeddedSolanaSettings()):
        pass
    doctor = forks("doctor", home=home)
    assert "installation: pay_url_local: payment links begin with http://127.0.0.1" in doctor.out
    alone = "! trusted_proxies is not set: all callers behind a proxy count as one address"
    assert alone in doctor.out
    doctor = forks(
        "doctor",
        home=home,
        FLORIN_PAY_URL="https://pay.invalid/",
        FLORIN_TRUSTED_PROXIES='["127.0.0.1/32"]',
    )
    assert alone not in doctor.out
    # the name does not resolve, whether Florin runs here or not
    stopped = "✗ payment links begin with https://pay.invalid: the name pay.invalid is not found"
    assert stopped in doctor.out
    assert doctor.status == 1
    async with run_service(
        home, solana=EmbeddedSolanaSettings(), pay_url="https://pay.invalid"
    ) as service:
        addresses = {"http": service.http_url, "operator": service.grpc.operator_target}
        with service.home.announce(addresses):
            doctor = await asyncio.to_thread(
                forks, "doctor", home=home, FLORIN_PAY_URL="https://pay.invalid"
            )
    assert "the name pay.invalid is not found" in doctor.out


async def test_they_come_back_as_they_were(tried, session):
    home, env = tried
    for demo, works in ((False, False), (None, True)):
        service = await start(home, demo=demo)
        try:
            result = await refused(RestApi(session, service.http_url, env), env)
            assert (result == []) is works
        finally:
            await service.stop()


async def test_a_new_home_with_a_live_chain_never_has_them(tmp_path, forks):
    home = tmp_path / "home"
    home.mkdir(0o700)
    put(home, BASE)
    async with run_service(home, solana=EmbeddedSolanaSettings()) as service:
        assert set(service.app.rails) == {"eip155:8453"}
    assert not (home / "demo.env").exists()
    assert "because of a live chain or FLORIN_DEMO" in forks("demo", home=home).err
    assert forks("partners", "list", home=home).out.count("\n") == 1
