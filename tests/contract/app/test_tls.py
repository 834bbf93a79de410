"""TLS without a proxy: one certificate for REST and gRPC, and renewal without interruption."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from cryptography import x509
from florin.v1 import gateway_pb2_grpc, payment_pb2
from florin_server.app.home import SetupError
from florin_server.app.servers import gateway
from florin_server.app.servers.certificates import CertificateStore
from florin_server.app.servers.public_address import check_reachable
from florin_server.app.service import FlorinService
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.support.api import grpc_metadata
from tests.support.authority import CertificateAuthority
from tests.support.raw_http import read_response
from tests.support.service import make_settings, run_service
from tests.support.service_harness import ORDER
from tests.support.until import wait_until

HOST = "127.0.0.1"

pytestmark = pytest.mark.long


class Guarded:
    """A service with TLS, and its clients."""

    def __init__(self, service: FlorinService, authority: CertificateAuthority) -> None:
        self.service, self.authority = service, authority
        self.env = service.home.read_demo_env()
        self.wallet = {name: self.env[f"FLORIN_{name}".upper().replace("-", "_")]
                       for name in ("App-Id", "Client-Id")}  # fmt: skip
        self.trust = ssl.create_default_context(cafile=authority.ca)

    @property
    def base(self) -> str:
        return self.env["FLORIN_BASE_URL"]

    def credentials(self, client: tuple[Path, Path] | None = None) -> grpc.ChannelCredentials:
        pair = (None, None) if client is None else (client[1].read_bytes(), client[0].read_bytes())
        return grpc.ssl_channel_credentials(self.authority.ca.read_bytes(), *pair)

    def channel(self, client: tuple[Path, Path] | None = None) -> grpc.aio.Channel:
        # a connection of its own, shared with no other call
        own = (("grpc.use_local_subchannel_pool", 1),)
        return grpc.aio.secure_channel(
            self.env["FLORIN_GRPC_TARGET"], self.credentials(client), options=own
        )

    async def shown(self, target: str) -> int:
        """Return the number of the certificate that a new connection gets."""
        host, _, port = target.removeprefix("https://").rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port), ssl=self.trust)
        raw = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return x509.load_der_x509_certificate(raw).serial_number

    async def created(self, session: aiohttp.ClientSession) -> str:
        headers = {"Api-Key": self.env["FLORIN_PARTNER_KEY"],
                   "Merchant-Id": self.env["FLORIN_MERCHANT_ID"]}  # fmt: skip
        async with session.post(f"{self.base}/v1/payments", json=ORDER, headers=headers) as answer:
            assert answer.status == 201
            return str((await answer.json())["paymentId"])


@asynccontextmanager
async def guarded(home: Path, **more: Any):
    authority = CertificateAuthority(home.parent, "ours")
    certificate, key = authority.issue(HOST)
    async with run_service(home, tls_certificate=certificate, tls_key=key, **more) as service:
        yield Guarded(service, authority)


def number(certificate: Path) -> int:
    return x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number


async def healthy(channel: grpc.aio.Channel) -> bool:
    answer = await health_pb2_grpc.HealthStub(channel).Check(
        health_pb2.HealthCheckRequest(), timeout=10
    )
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def test_both_protocols_speak_tls_and_nothing_else(tmp_path):
    async with guarded(tmp_path / "home") as shop:
        connector = aiohttp.TCPConnector(ssl=shop.trust)
        async with aiohttp.ClientSession(connector=connector) as session:
            assert shop.base.startswith("https://127.0.0.1:")
            payment_id = await shop.created(session)
            link = await shop.service.app.store.payments.find(payment_id)
            assert link is not None
            async with session.get(f"{shop.base}/{payment_id}") as page:
                assert page.status == 200
            # its own document knows that it came over TLS
            async with session.get(f"{shop.base}/spec/2026-02-18/openapi.json") as answer:
                assert (await answer.json())["servers"] == [{"url": shop.base}]
        # clients that do not trust the authority do not connect
        assert "certificate" in await check_reachable(shop.base)
        async with shop.channel() as channel:
            assert await healthy(channel)
        async with grpc.aio.insecure_channel(shop.env["FLORIN_GRPC_TARGET"]) as plain:
            with pytest.raises(grpc.aio.AioRpcError):
                await healthy(plain)
        host, _, port = shop.base.removeprefix("https://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200" not in await reader.read()
        writer.close()
        # the operator's listener is local to this machine
        async with grpc.aio.insecure_channel(shop.service.grpc.operator_target) as operator:
            assert await healthy(operator)


async def test_a_connection_that_does_not_shake_hands_is_ended(tmp_path):
    async with guarded(tmp_path / "home", request_head_s=0.2) as shop:
        for target in (shop.base.removeprefix("https://"), shop.env["FLORIN_GRPC_TARGET"]):
            host, _, port = target.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"\x16\x03\x01")
            async with asyncio.timeout(10):
                assert await reader.read() == b""
            writer.close()


async def test_refusal_reaches_a_client_that_is_still_sending(tmp_path):
    async with guarded(tmp_path / "home") as shop:
        host, _, port = shop.base.removeprefix("https://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=shop.trust)
        writer.write(b"POST /v1/payments HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n")
        writer.write(b" " * 200_000)
        async with asyncio.timeout(10):
            assert (await read_response(reader, b"POST")).status == 413
        writer.close()


async def test_a_new_certificate_is_shown_to_new_connections_and_ends_no_other(tmp_path):
    async with guarded(tmp_path / "home") as shop:
        before = number(shop.service.settings.tls_certificate)
        places = shop.base, shop.env["FLORIN_GRPC_TARGET"]
        assert [await shop.shown(place) for place in places] == [before] * 2
        connector = aiohttp.TCPConnector(ssl=shop.trust)
        async with aiohttp.ClientSession(connector=connector) as session, shop.channel() as channel:
            payment_id = await shop.created(session)
            events = f"{shop.base}/v1/gateway/payment/{payment_id}/events"
            async with session.get(events, headers=shop.wallet) as stream:
                assert stream.status == 200
                stub = gateway_pb2_grpc.GatewayServiceStub(channel)
                wallet = grpc_metadata(shop.wallet)
                watch = stub.WatchPayment(
                    payment_pb2.WatchPaymentRequest(payment_id=payment_id), metadata=wallet
                )
                assert (await watch.read()).version == 0
                shop.authority.issue(HOST)
                assert shop.service.certificates.reload_if_changed()
                after = number(shop.service.settings.tls_certificate)
                assert after != before
                assert [await shop.shown(place) for place in places] == [after] * 2
                # existing clients get later events over their open connection
                cancel = f"{shop.base}/v1/gateway/payment/{payment_id}/cancel"
                async with session.post(cancel, json={}, headers=shop.wallet) as answer:
                    assert answer.status == 200
                assert (await watch.read()).version == 1
                result = [line async for line in stream.content if line.startswith(b"data:")]
                assert json.loads(result[-1][5:])["status"] == "cancelled"


async def test_certificate_renewal_under_load_refuses_no_request(tmp_path):
    """Even while only one of two files is written, or half of one."""
    async with guarded(tmp_path / "home") as shop:
        certificates = shop.service.certificates
        paths = shop.service.settings.tls_certificate, shop.service.settings.tls_key
        renewing, answers = True, []

        async def asks() -> None:
            """Call in a loop, over a new connection each time."""
            connector = aiohttp.TCPConnector(ssl=shop.trust, force_close=True)
            async with aiohttp.ClientSession(connector=connector) as session:
                while renewing:
                    async with session.get(f"{shop.base}/healthz") as answer:
                        answers.append(answer.status)

        async def calls() -> None:
            while renewing:
                async with shop.channel() as channel:
                    answers.append(200 if await healthy(channel) else 503)

        tasks = [asyncio.create_task(item()) for item in (asks, asks, calls)]
        stored_new = [each_path.read_bytes() for each_path in paths]
        for _ in range(10):
            shop.authority.issue(HOST)
            new = [each_path.read_bytes() for each_path in paths]
            steps = (
                (stored_new[0][:100], stored_new[1]),
                (new[0], stored_new[1]),
                (new[0], new[1][:50]),
                new,
            )
            for certificate, key in steps:
                for path, text in zip(paths, (certificate, key), strict=True):
                    path.write_bytes(text)
                taken, seen = certificates.reload_if_changed(), len(answers)
                assert taken is ((certificate, key) == tuple(new))
                await wait_until(lambda: len(answers) >= seen + 3)  # noqa: B023  (it is awaited here)
            stored_new = new
        renewing = False
        await asyncio.gather(*tasks)
        assert set(answers) == {200}
        assert await shop.shown(shop.base) == number(paths[0])


async def test_clients_of_grpc_may_have_to_show_a_certificate(tmp_path):
    theirs = CertificateAuthority(tmp_path, "theirs")
    async with guarded(tmp_path / "home", grpc_client_ca=theirs.ca) as shop:
        async with shop.channel(theirs.issue("client")) as existing:
            assert await healthy(existing)
        for other in (None, shop.authority.issue("stranger")):
            async with shop.channel(other) as unknown:
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await healthy(unknown)
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        # buyers have none
        connector = aiohttp.TCPConnector(ssl=shop.trust)
        async with aiohttp.ClientSession(connector=connector) as session:
            await shop.created(session)


async def test_the_gateway_elsewhere_speaks_tls_too(tmp_path):
    authority = CertificateAuthority(tmp_path, "ours")
    certificate, key = authority.issue(HOST)
    async with run_service(tmp_path / "home") as service, AsyncExitStack() as stack:
        target = service.grpc.target
        own = make_settings(tmp_path / "other", tls_certificate=certificate, tls_key=key)
        certificates = CertificateStore.from_settings(own)
        url = await gateway.start_remote_gateway(
            target,
            gateway.bind_socket(HOST, 0),
            stack,
            gateway.build_server_settings(own, certificates),
        )
        assert url.startswith("https://")
        trust = ssl.create_default_context(cafile=authority.ca)
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{url}/readyz", ssl=trust) as answer,
        ):
            assert answer.status == 200
        # links are checked as buyers would open them
        assert await check_reachable(service.http_url) == ""
        output = await check_reachable(f"{service.http_url}/v1")
        assert "/v1/healthz answers 404, which is not Florin's answer" in output


async def test_files_that_cannot_be_used_keep_it_from_starting(tmp_path):
    certificate, key = CertificateAuthority(tmp_path, "ours").issue(HOST)
    key.chmod(0o644)
    home = tmp_path / "home"
    with pytest.raises(SetupError, match="other users can read"):
        await FlorinService.start(make_settings(home, tls_certificate=certificate, tls_key=key))
    assert not home.exists()


def shown(port: int, trust: ssl.SSLContext) -> int:
    with (
        socket.create_connection((HOST, port)) as plain,
        trust.wrap_socket(plain, server_hostname=HOST) as secure,
    ):
        raw = secure.getpeercert(binary_form=True)
        assert raw is not None
        return x509.load_der_x509_certificate(raw).serial_number


async def test_signal_reloads_the_certificate_and_doctor_reports_days_left(tmp_path, forks):
    authority, home = CertificateAuthority(tmp_path, "ours"), tmp_path / "home"
    certificate, key = authority.issue(HOST, until=datetime.now(UTC) + timedelta(days=60.5))
    tls = {"FLORIN_TLS_CERTIFICATE": str(certificate), "FLORIN_TLS_KEY": str(key)}
    trust = ssl.create_default_context(cafile=authority.ca)
    with forks.start_lasting("up", home=home, **tls) as up:
        port = int(up.env["FLORIN_BASE_URL"].rpartition(":")[2])
        assert shown(port, trust) == number(certificate)
        doctor = forks("doctor", home=home, **tls)
        assert (doctor.status, doctor.err) == (0, "")
        assert "certificate of 127.0.0.1: 60 days left, until" in doctor.out
        authority.issue(HOST, until=datetime.now(UTC) + timedelta(days=9.5))
        up.send_signal(signal.SIGHUP)
        await wait_until(lambda: shown(port, trust) == number(certificate))
        doctor = forks("doctor", home=home, **tls)
        assert doctor.status == 1
        assert "certificate of 127.0.0.1: 9 days left, until" in doctor.out
        assert "installation: certificate_expiring since" in doctor.out
    doctor = forks("doctor", home=home, **tls | {"FLORIN_TLS_KEY": str(certificate)})
    assert doctor.status == 1
    assert f"certificate: other users can read {certificate}: chmod o= {certificate}" in doctor.out
