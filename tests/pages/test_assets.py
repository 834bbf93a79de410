"""Styles and scripts of pages, as browsers get them."""

from __future__ import annotations

import gzip
import re

import pytest
import pytest_asyncio
from florin_server.web import assets

from tests.support.service_harness import open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAME = "site/site.css"
STYLE = assets.compact_style((assets.FOLDER / NAME).read_bytes())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("assets")) as desk:
        yield desk


async def fetched(desk, path: str, accept: str = "identity"):
    url = desk.rest.base + path
    session = desk.session
    async with session.get(
        url, headers={"Accept-Encoding": accept}, auto_decompress=False
    ) as result:
        return result.status, result.headers, await result.read()


async def test_asset_file_is_cached_permanently(desk):
    status, headers, body = await fetched(desk, assets.get_asset_url(NAME))
    assert (status, headers["Content-Type"]) == (200, "text/css; charset=utf-8")
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert body == STYLE


async def test_scripts_lose_indentation_and_lines_of_comments_and_nothing_else():
    script = (
        b"/** Adds. */\nlet a = 1; // one\n  // two\n  /**\n   * Three.\n   */\n"
        b"  f(/** @type {x} */ (a));\n"
    )
    assert assets.strip_script(script) == b"let a = 1; // one\nf(/** @type {x} */ (a));\n"
    for file in assets.FOLDER.rglob("*.js"):
        assert not any(line.count(b"`") % 2 for line in file.read_bytes().splitlines()), file
        lines = iter([line.lstrip(b" ") for line in file.read_bytes().splitlines()])
        served = assets.strip_script(file.read_bytes()).splitlines()
        # in their order, and what is left out looks like a comment
        for line in served:
            left_out = list(iter(lines.__next__, line)) if line else []
            assert all(re.match(rb"\s*(//|/\*|\*)|\s*$", text) for text in left_out), file


async def test_styles_lose_comments_and_spaces_and_nothing_else():
    style = b"""/* x */
    @media (min-width: 30rem) { a :is(b, c)::before , d > e:hover { --x: 1px ;
        content: ":"; margin: -1px auto; } }
    """
    assert assets.compact_style(style) == (
        b"@media (min-width: 30rem){a :is(b,c)::before,d > e:hover{--x:1px;"
        b'content:":";margin:-1px auto}}'
    )
    for file in assets.FOLDER.glob("*/*.css"):
        compacted = assets.compact_style(file.read_bytes())
        assert b"/*" not in compacted
        without_comments = re.sub(rb"/\*.*?\*/", b"", file.read_bytes(), flags=re.DOTALL)
        marks = [re.sub(rb"\s|;(?=\s*})", b"", text) for text in (without_comments, compacted)]
        assert marks[0] == marks[1]


@pytest.mark.parametrize(
    ("accept", "packed"),
    [("gzip, br", True), ("*", True), ("GZIP;q=0.5", True), ("gzip; q=0", False), ("br", False)],
)
async def test_asset_is_compressed_for_clients_that_accept_gzip(desk, accept, packed):
    _, headers, body = await fetched(desk, assets.get_asset_url(NAME), accept)
    assert headers["Vary"].lower() == "accept-encoding"
    assert (headers.get("Content-Encoding") == "gzip") is packed
    assert (gzip.decompress(body) if packed else body) == STYLE


async def test_font_is_served_from_this_host_with_its_license_in_the_package(desk):
    url = assets.get_asset_url("site/inter.woff2")
    status, headers, body = await fetched(desk, url, "gzip")
    assert (status, headers["Content-Type"]) == (200, "font/woff2")
    # the format is compressed already
    assert "Content-Encoding" not in headers
    assert body == (assets.FOLDER / "site/inter.woff2").read_bytes()
    _, _, style = await fetched(desk, assets.get_asset_url(NAME))
    assert b'url("inter.woff2")' in style
    license_text = (assets.FOLDER / "site/inter.LICENSE.txt").read_text()
    assert "SIL OPEN FONT LICENSE Version 1.1" in license_text


async def test_asset_url_of_another_release_serves_the_current_file(desk):
    status, headers, _ = await fetched(desk, f"/assets/0123456789abcdef/{NAME}")
    assert (status, headers["Cache-Control"]) == (200, "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        *("x/site/none.css", "x/site/..%2Fsite.css", "x/%2e%2e/assets.py", "x/..%2f../render.py"),
        *("x/site/site.css%00", "x/site", "site/site.css"),
    ],
)
async def test_nothing_else_is_a_file(desk, path):
    assert (await fetched(desk, f"/assets/{path}"))[0] in {400, 404}


async def test_unknown_asset_raises_key_error():
    with pytest.raises(KeyError):
        assets.get_asset_url("site/none.css")
