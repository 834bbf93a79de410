"""The published versions, their documents, and the page that shows them."""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from florin_server.app.servers import gateway
from florin_server.domain.versions import PUBLISHED_VERSIONS
from yarl import URL

pytestmark = pytest.mark.asyncio(loop_scope="module")

UI = ("swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-standalone-preset.js", "start.js")


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["gateway inside", "gateway elsewhere"]
)
async def address(request, desk):
    async with AsyncExitStack() as stack:
        if request.param == "gateway inside":
            yield desk.rest.base
        else:
            listener = gateway.bind_socket("127.0.0.1", 0)
            yield await gateway.start_remote_gateway(
                desk.env["FLORIN_GRPC_TARGET"], listener, stack
            )


async def send_request(desk, url, method="GET", **headers):
    sent = URL(url, encoded=True)
    async with desk.session.request(method, sent, headers=headers) as answer:
        return answer.status, answer.headers, await answer.read()


async def test_versions_are_public(desk, address):
    status, headers, body = await send_request(desk, f"{address}/versions")
    assert (status, json.loads(body)) == (
        200,
        {"stable": ["2026-02-18"], "preview": ["2026-02-19.preview"]},
    )
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("version", PUBLISHED_VERSIONS)
async def test_each_version_has_its_document(desk, address, version):
    status, headers, body = await send_request(desk, f"{address}/spec/{version}/openapi.json")
    document = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert (document["openapi"], document["info"]["version"]) == ("3.1.0", version)
    assert document["servers"] == [{"url": address}]
    assert "/v1/payments" in document["paths"]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("2026-02-20", "unknown_api_version"),
        ("2026-02-18.preview", "unknown_api_version"),
        ("2026-02-30", "invalid_api_version"),
        ("latest", "invalid_api_version"),
        ("2026-02-18%0A", "invalid_api_version"),
    ],
)
async def test_other_versions_have_none(desk, address, version, code):
    status, headers, body = await send_request(desk, f"{address}/spec/{version}/openapi.json")
    assert (status, json.loads(body)["code"]) == (400, code)
    assert headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("path", ["/versions", "/spec/2026-02-18/openapi.json", "/spec/x"])
async def test_browsers_may_ask_first(desk, address, path):
    status, headers, body = await send_request(
        desk, address + path, "OPTIONS", Origin="https://shop.example"
    )
    assert (status, body) == (204, b"")
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "GET" in headers["Access-Control-Allow-Methods"]


async def test_document_server_url_follows_the_request_host(desk, address):
    url = f"{address}/spec/2026-02-18/openapi.json"
    for sent, output in (
        ({"Host": "pay.example"}, "http://pay.example"),
        ({"Host": "pay.example:8443", "X-Forwarded-Proto": "https"}, "http://pay.example:8443"),
        ({"Host": "[::1]:80"}, "http://[::1]:80"),
    ):
        status, _, body = await send_request(desk, url, **sent)
        assert (status, json.loads(body)["servers"]) == (200, [{"url": output}])


async def test_the_page_loads_nothing_from_elsewhere_and_runs_no_inline_script(desk, address):
    status, headers, body = await send_request(desk, f"{address}/docs")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = dict(
        part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";")
    )
    assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
    assert not [value for value in policy.values() if "unsafe" in value or "http" in value]
    page = body.decode()
    assert re.findall(r"<script>|<style|\son\w+=|https?:", page) == []
    linked = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert {f"/docs/{name}" for name in UI} <= {path.partition("?")[0] for path in linked}
    for path in linked:
        status, headers, body = await send_request(desk, address + path)
        assert status == 200, path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert len(body) > 100
        # of another release, or no version
        for other in (path.partition("?")[0], path[:-1] + "_"):
            _, headers, same = await send_request(desk, address + other)
            assert (headers["Cache-Control"], same) == ("no-cache", body)
    assert (await send_request(desk, f"{address}/docs/"))[0] == 200


async def test_documentation_files_are_compressed_for_clients_that_accept_gzip(desk, address):
    sizes = {}
    for coding in ("gzip", "identity"):
        url = URL(f"{address}/docs/swagger-ui-bundle.js")
        async with desk.session.get(
            url, headers={"Accept-Encoding": coding}, auto_decompress=False
        ) as answer:
            assert answer.headers.get("Content-Encoding", "identity") == coding
            assert answer.headers["Vary"].lower() == "accept-encoding"
            sizes[coding] = len(await answer.read())
    assert sizes["gzip"] < sizes["identity"] / 3


async def test_documentation_page_supports_openapi_3_1(desk, address):
    _, _, bundle = await send_request(desk, f"{address}/docs/swagger-ui-bundle.js")
    # 3.1 documents need the fifth Swagger UI
    assert re.search(rb'PACKAGE_VERSION:"5\.', bundle)
    _, _, start = await send_request(desk, f"{address}/docs/start.js")
    assert b"stable[stable.length - 1]" in start


@pytest.mark.parametrize(
    "name", ["index.html", "missing.html", "swagger-ui.js.map", "%2e%2e", "..%2fserve.py"]
)
async def test_nothing_else_is_served_below_the_page(desk, address, name):
    status, _, body = await send_request(desk, f"{address}/docs/{name}")
    assert (status, json.loads(body)["code"]) == (404, "invalid_params")


async def test_without_swagger_ui_the_page_says_how_to_get_it(desk, address, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    status, _, body = await send_request(desk, f"{address}/docs")
    assert status == 404
    assert b"pip install 'florin-pay[docs]'" in body
