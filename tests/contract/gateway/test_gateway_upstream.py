"""Test a gateway for a remote service: eavesdroppers, trusted callers and outages."""

from __future__ import annotations

import ipaddress
import logging
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import grpc
import pytest
from florin_server.app.home import SetupError
from florin_server.app.servers import gateway
from florin_server.app.servers.peers import CallerResolver
from florin_server.app.servers.upstream import UpstreamConnection
from grpc_rest_gateway.forwarded import TrustedProxies

from tests.support.authority import CertificateAuthority
from tests.support.gateway_harness import KEY, StubPaymentService, register_service
from tests.support.until import wait_until

pytestmark = pytest.mark.long

TOKEN = "t" * 32


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("pem"), "ours")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("pem"), "theirs")


@asynccontextmanager
async def serving(
    credentials: grpc.ServerCredentials | None = None, port: int = 0, service: Any = None
):
    """Start a remote service; yield its port."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    register_service(service or StubPaymentService(), server)
    address = f"127.0.0.1:{port}"
    bound = (
        server.add_insecure_port(address)
        if credentials is None
        else server.add_secure_port(address, credentials)
    )
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(0)


@asynccontextmanager
async def front(target: str, **chosen: Any):
    """Start a gateway for the service; yield a function that calls it."""
    async with AsyncExitStack() as stack:
        listener = gateway.bind_socket("127.0.0.1", 0)
        stack.callback(listener.close)
        url = await gateway.start_remote_gateway(
            target, listener, stack, connection=UpstreamConnection(**chosen)
        )
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def ask(path: str) -> tuple[int, Any, Any]:
            async with session.get(url + path, headers=KEY) as answer:
                return answer.status, await answer.json(), answer.headers

        yield ask


STATUS = "/v1/gateway/payment/pay_1/status"


async def works(ask: Any) -> bool:
    status, _, _ = await ask(STATUS)
    assert status in {200, 503}
    return bool(status == 200)


def certified(
    by: CertificateAuthority, name: str, clients: CertificateAuthority | None = None
) -> Any:
    certificate, key = by.issue(name)
    pair = [(key.read_bytes(), certificate.read_bytes())]
    roots = clients.ca.read_bytes() if clients else None
    return grpc.ssl_server_credentials(pair, roots, require_client_auth=clients is not None)


async def test_a_service_is_reached_over_tls_if_its_certificate_is_good(ours, theirs):
    async with serving(certified(ours, "127.0.0.1")) as port:
        target = f"127.0.0.1:{port}"
        async with front(target, ca=ours.ca) as ask:
            assert await works(ask)
            assert (await ask("/readyz"))[0] == 200
        for wrong in ({"ca": theirs.ca}, {"tls": True}, {}):
            async with front(target, **wrong) as ask:
                assert not await works(ask)
                assert (await ask("/readyz"))[0] == 503


async def test_the_name_in_the_certificate_may_be_another_than_the_address(ours):
    async with serving(certified(ours, "florin.example")) as port:
        target = f"127.0.0.1:{port}"
        async with front(target, ca=ours.ca) as ask:
            assert not await works(ask)
        async with front(target, ca=ours.ca, server_name="florin.example") as ask:
            assert await works(ask)


async def test_a_service_may_ask_for_a_client_certificate(ours, theirs):
    async with serving(certified(ours, "127.0.0.1", clients=theirs)) as port:
        target = f"127.0.0.1:{port}"
        for by, good in ((theirs, True), (ours, False), (None, False)):
            pair = dict(zip(("certificate", "key"), by.issue("gateway"), strict=True)) if by else {}
            async with front(target, ca=ours.ca, **pair) as ask:
                assert await works(ask) is good


@pytest.mark.parametrize(
    "target",
    [
        "10.0.0.9:50051",
        "florin.example:50051",
        "localhost.example:50051",
        "[2001:db8::1]:50051",
        "dns:///florin.example:50051",
        "dns://127.0.0.1/florin.example:50051",
        "ipv4:127.0.0.1:50051,10.0.0.9:50051",
        "passthrough:///10.0.0.9:50051",
        "0.0.0.0:50051",
        "",
    ],
)
async def test_plaintext_to_a_remote_host_requires_the_insecure_setting(target):
    with pytest.raises(SetupError, match="plain text would expose API keys"):
        async with front(target):
            pass
    UpstreamConnection(insecure=True).require_usable(target)
    UpstreamConnection(tls=True).require_usable(target)


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:50051",
        "127.8.8.8:50051",
        "localhost:50051",
        "[::1]:50051",
        "ipv6:[::1]:50051",
        "ipv4:127.0.0.1:1,127.0.0.2:2",
        "dns:///localhost:50051",
        "unix:/run/florin.sock",
    ],
)
def test_plaintext_is_accepted_on_the_local_machine(target):
    UpstreamConnection().require_usable(target)


def test_options_that_make_no_sense_are_refused(ours, theirs, tmp_path):
    certificate, key = ours.issue("gateway")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nno\n")
    for wrong, why in (
        ({"ca": ours.ca, "insecure": True}, "--insecure means plain text"),
        ({"certificate": certificate}, "needs its key"),
        ({"key": key}, "needs its key"),
        ({"ca": tmp_path / "missing.pem"}, "missing.pem cannot be used"),
        ({"ca": broken}, "broken.pem cannot be used"),
        ({"certificate": certificate, "key": theirs.issue("x")[1]}, "cannot be used"),
    ):
        with pytest.raises(SetupError, match=why):
            UpstreamConnection(**wrong).require_usable("127.0.0.1:1")


async def test_unavailable_upstream_is_reported_and_recovers(caplog):
    caplog.set_level(logging.INFO, "florin_server")
    async with serving() as port:
        pass
    target = f"127.0.0.1:{port}"
    async with front(target) as ask:
        status, body, headers = await ask(STATUS)
        assert (status, body["code"]) == (503, "internal_error")
        assert body["message"] == "The service behind this gateway does not answer"
        assert headers["Retry-After"] == "1"
        status, body, _ = await ask("/readyz")
        assert (status, body["checks"]) == (503, {"upstream": f"{target} does not answer"})
        assert (await ask("/healthz"))[0] == 200
        await logged(caplog, f"{target} does not answer")
        async with serving(port=port):
            await wait_until(lambda: works(ask))
            assert (await ask("/readyz"))[0] == 200
            await logged(caplog, f"connected to {target}")


async def logged(caplog: Any, text: str) -> None:
    """Wait for a log line; nothing else reveals a connection."""
    await wait_until(lambda: text in caplog.text)


async def test_upstream_that_accepts_connections_silently_is_not_ready():
    # the kernel accepts connections for a process that listens
    with gateway.bind_socket("127.0.0.1", 0) as silent:
        port = silent.getsockname()[1]
        async with front(f"127.0.0.1:{port}") as ask:
            assert (await ask("/readyz"))[0] == 503


async def test_caller_address_is_forwarded_only_by_a_gateway_with_a_token():
    service = StubPaymentService()
    async with serving(service=service) as port:
        for token in ("", TOKEN):
            async with front(f"127.0.0.1:{port}", token=token) as ask:
                assert await works(ask)
            _, _, metadata = service.seen[-1]
            result = {key: value for key, value in metadata.items() if key in TRUSTED_METADATA}
            assert result.keys() == (TRUSTED_METADATA if token else set())
            assert result.get("gateway-token", "") == token
            assert result.get("client-address", "ipv4:127.0.0.1:").startswith("ipv4:127.0.0.1:")


TRUSTED_METADATA = {"client-address", "gateway-token"}
PEER, NAMED = "ipv4:198.51.100.1:1", "ipv4:192.0.2.1:1"


@pytest.mark.parametrize(
    ("token", "sent_tokens", "expected_peer"),
    [
        (TOKEN, [TOKEN], NAMED),
        (TOKEN, ["guess"], PEER),
        (TOKEN, [""], PEER),
        (TOKEN, [], PEER),
        (TOKEN, [TOKEN, TOKEN], PEER),
        (TOKEN, ["guess", TOKEN], PEER),
        (TOKEN, ["é"], PEER),
        # without a token no gateway is trusted
        ("", [""], PEER),
    ],
)
def test_a_callers_word_about_its_address_counts_for_nothing(token, sent_tokens, expected_peer):
    entries = [
        ("client-address", NAMED),
        *(("gateway-token", sent_token) for sent_token in sent_tokens),
    ]
    peers = CallerResolver(token, TrustedProxies((ipaddress.ip_network("10.0.0.0/8"),)))
    assert peers(entries, PEER) == expected_peer
    assert peers([*entries, ("x-forwarded-for", "203.0.113.1")], PEER) == expected_peer
    # a trusted proxy reports its own callers
    forwarded = [("x-forwarded-for", "203.0.113.1, 10.1.1.1")]
    assert peers(forwarded, "ipv4:10.0.0.1:80") == "ipv4:203.0.113.1:0"
