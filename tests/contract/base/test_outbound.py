"""Test requests to addresses that others choose: reachable targets and response limits."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time

import pytest
from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.outbound import (
    AddressBusy,
    RequestFailed,
    RequestFault,
    SafeHttpClient,
)
from florin_server.base.outbound.resolver import DnsResolver, get_network

from tests.support.authority import CertificateAuthority
from tests.support.http_stub import hang, make_stub_response, send_endless_body, serve_stub

LOOPBACK = AddressPolicy.from_cidrs(["127.0.0.0/8"])


class Names:
    """A resolver that returns the addresses a test sets, and counts its calls."""

    def __init__(self, **hosts: list[list[str]]) -> None:
        self.hosts = {name.replace("_", "."): host for name, host in hosts.items()}
        self.call_count = 0

    async def resolve(self, host):
        self.call_count += 1
        result = self.hosts.get(host, [[]])
        return result.pop(0) if len(result) > 1 else result[0]

    async def close(self):
        pass


async def ask(outbound, url, timeout_s=5.0, answer_bytes=100, body=b"{}"):
    try:
        return await outbound.send(
            "POST",
            url,
            headers={"x-one": "1"},
            body=body,
            timeout_s=timeout_s,
            response_bytes_max=answer_bytes,
        )
    finally:
        await outbound.close()


async def fault_of(outbound, url, **options):
    with pytest.raises(RequestFailed) as refused:
        await ask(outbound, url, **options)
    return refused.value


async def test_response_is_returned_as_received():
    async with serve_stub(make_stub_response(418, b"short", content_type="text/plain")) as server:
        answer = await ask(SafeHttpClient(LOOPBACK), f"http://127.0.0.1:{server.port}/in?a=1")
    assert (answer.status, answer.body, answer.is_truncated) == (418, b"short", False)
    assert answer.content_type == "text/plain"
    (came,) = server.requests
    assert (came.line, came.body) == ("POST /in?a=1 HTTP/1.1", b"{}")
    assert (came.headers["x-one"], came.headers["accept-encoding"]) == ("1", "identity")


async def test_only_the_checked_address_is_connected_to():
    """The name resolves elsewhere after the check, so it must not be resolved a second time."""
    async with serve_stub(make_stub_response()) as server:
        names = Names(shop_test=[["127.0.0.1"], ["127.0.0.2"]])
        answer = await ask(
            SafeHttpClient(LOOPBACK, resolver=names), f"http://shop.test:{server.port}/"
        )
    assert (answer.status, names.call_count) == (200, 1)
    assert server.requests[0].headers["host"] == f"shop.test:{server.port}"


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"], []]
)
async def test_a_name_with_any_address_that_is_not_public_is_refused(addresses):
    """Names that do not resolve get the same error, so that the error reveals no names."""
    refused = await fault_of(
        SafeHttpClient(AddressPolicy(), resolver=Names(in_test=[addresses])), "https://in.test/"
    )
    assert refused.fault is RequestFault.NOT_ALLOWED
    assert str(refused) == "the host has no public address, or the port is not allowed"


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "[::1]", "[::ffff:7f00:1]", "localhost", "0x7f000001", "2130706433", "127.1",
     "0177.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "localhost.", "169.254.169.254"],
)  # fmt: skip
async def test_no_way_to_write_this_machine_reaches_it(host):
    async with serve_stub(make_stub_response()) as server:
        for scheme in ("http", "https"):
            refused = await fault_of(
                SafeHttpClient(AddressPolicy()), f"{scheme}://{host}:{server.port}/"
            )
            assert refused.fault is RequestFault.NOT_ALLOWED
    assert server.connections == 0


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://1.1.1.1/", "https://u:p@1.1.1.1/", "https://", "//[", ""]
)
async def test_invalid_web_address_is_refused(url):
    assert (await fault_of(SafeHttpClient(LOOPBACK), url)).fault is RequestFault.NOT_ALLOWED


async def test_hostnames_with_the_same_address_share_its_request_limit():
    """Wildcard names, and a name that adds its own address to a victim's."""
    open_, came = asyncio.Event(), asyncio.Event()

    async def hold(request, out):
        came.set()
        await open_.wait()
        await make_stub_response(204)(request, out)

    names = Names(
        a_test=[["127.0.0.1"]],
        b_test=[["127.0.0.1", "127.0.0.9"]],
        c_test=[["::ffff:127.0.0.1"]],
        d_test=[["127.0.0.2"]],
    )
    reach = AddressPolicy.from_cidrs(["127.0.0.0/8", "::ffff:127.0.0.0/104"])
    outbound = SafeHttpClient(reach, resolver=names, requests_per_address=1)
    async with serve_stub(hold) as server:

        def send(host):
            return ask(outbound, f"http://{host}:{server.port}/")

        first = asyncio.create_task(send("a.test"))
        await came.wait()
        for host in ("a.test", "b.test", "c.test", "127.0.0.1"):
            with pytest.raises(AddressBusy):
                await send(host)
        # no other request waits for it: this one finds no server
        with pytest.raises(RequestFailed):
            await send("d.test")
        open_.set()
        assert (await first).status == 204
        assert (await send("b.test")).status == 204
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_address_is_grouped_into_its_receiver_network(address, network):
    assert get_network(address) == network


async def test_a_redirect_is_an_answer():
    async with serve_stub(make_stub_response()) as inner:
        target = f"http://127.0.0.1:{inner.port}/"
        async with serve_stub(make_stub_response(302, location=target)) as server:
            answer = await ask(SafeHttpClient(LOOPBACK), f"http://127.0.0.1:{server.port}/")
    assert (answer.status, inner.connections) == (302, 0)


async def test_a_body_without_end_is_read_to_its_bound():
    async with serve_stub(send_endless_body) as server:
        answer = await ask(SafeHttpClient(LOOPBACK), f"http://127.0.0.1:{server.port}/")
    assert (answer.status, answer.body, answer.is_truncated) == (200, b"x" * 100, True)


async def test_a_body_that_stops_counts_as_far_as_it_came():
    async def half(_, out):
        out.write(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf")
        await out.drain()
        await asyncio.Event().wait()

    async with serve_stub(half) as server:
        address = f"http://127.0.0.1:{server.port}/"
        answer = await ask(SafeHttpClient(LOOPBACK), address, timeout_s=1.0)
    assert (answer.status, answer.body, answer.is_truncated) == (200, b"half", True)


async def test_a_compressed_body_is_not_unpacked():
    bomb = b"\x1f\x8b" + b"\0" * 40
    async with serve_stub(make_stub_response(200, bomb, content_encoding="gzip")) as server:
        answer = await ask(SafeHttpClient(LOOPBACK), f"http://127.0.0.1:{server.port}/")
    assert answer.body == bomb


@pytest.mark.parametrize("headers", [b"", b"x-a: b\r\n" * 100_000, b"x-a: " + b"b" * 100_000])
async def test_headers_have_an_end_too(headers):
    async def say(_, out):
        out.write(b"HTTP/1.1 200 OK\r\n" + headers)
        await out.drain()
        await asyncio.Event().wait()

    async with serve_stub(say) as server:
        started_s = time.monotonic()
        address = f"http://127.0.0.1:{server.port}/"
        refused = await fault_of(SafeHttpClient(LOOPBACK), address, timeout_s=1.0)
        assert refused.fault in {RequestFault.TIMEOUT, RequestFault.NO_HTTP}
        assert time.monotonic() - started_s < 5


async def test_unresponsive_server_times_out():
    async with serve_stub(hang) as server:
        address = f"http://127.0.0.1:{server.port}/"
        refused = await fault_of(SafeHttpClient(LOOPBACK), address, timeout_s=0.1)
    assert (refused.fault, str(refused)) == (RequestFault.TIMEOUT, "no answer within 0.1 s")


async def test_a_name_server_that_never_answers_is_left():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        names = DnsResolver([f"127.0.0.1:{silent.getsockname()[1]}"])
        refused = await fault_of(
            SafeHttpClient(LOOPBACK, resolver=names), "https://shop.example/", timeout_s=0.1
        )
    assert refused.fault is RequestFault.TIMEOUT


async def test_unreachable_host_and_invalid_http_are_distinguished():
    async def garbage(_, out):
        out.write(b"\x00\x01 garbage\r\n\r\n")

    async with serve_stub(garbage) as server:
        address = f"http://127.0.0.1:{server.port}/"
        assert (await fault_of(SafeHttpClient(LOOPBACK), address)).fault is RequestFault.NO_HTTP
    assert (await fault_of(SafeHttpClient(LOOPBACK), address)).fault is RequestFault.UNREACHABLE


async def test_a_certificate_must_be_of_the_host_and_of_whom_is_trusted(tmp_path):
    certificate_authority, strange = (
        CertificateAuthority(tmp_path, "known"),
        CertificateAuthority(tmp_path, "strange"),
    )
    trust = ssl.create_default_context(cafile=str(certificate_authority.ca))
    names = {"shop_test": [["127.0.0.1"]]}

    async def send_request(certificate):
        async with serve_stub(make_stub_response(204), certificate) as server:
            outbound = SafeHttpClient(LOOPBACK, resolver=Names(**names), ssl_context=trust)
            return await ask(outbound, f"https://shop.test:{server.port}/")

    assert (await send_request(certificate_authority.issue("shop.test"))).status == 204
    for certificate, why in (
        (certificate_authority.issue("other.test"), "mismatch"),
        (strange.issue("shop.test"), "unable to get local issuer"),
    ):
        with pytest.raises(RequestFailed, match=why) as refused:
            await send_request(certificate)
        assert refused.value.fault is RequestFault.TLS
