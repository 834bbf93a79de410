"""Test images from untrusted addresses: how they are converted, and what they cannot do."""

from __future__ import annotations

import io
import os
import ssl
import sys

import pytest
from florin_server.base.outbound import decoder, pictures
from florin_server.base.outbound.address_policy import AddressPolicy
from florin_server.base.outbound.decoder import BYTES_MAX, SIDE_PX
from florin_server.base.outbound.outbound import SafeHttpClient
from florin_server.base.outbound.pictures import (
    PICTURE_BYTES_MAX,
    PictureUnavailable,
    fetch_picture,
    shrink_picture,
)
from PIL import Image

from tests.support.authority import CertificateAuthority
from tests.support.http_stub import hang, make_stub_response, send_endless_body, serve_stub
from tests.support.pictures import (
    RED,
    make_noise,
    make_picture,
    make_picture_with_text,
    make_pixel_bomb,
    make_text_bomb,
)

LOOPBACK = AddressPolicy.from_cidrs(["127.0.0.0/8"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return CertificateAuthority(tmp_path_factory.mktemp("authority"), "pictures")


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("127.0.0.1")


def opened(png: bytes) -> Image.Image:
    shown = Image.open(io.BytesIO(png))
    assert shown.format == "PNG"
    shown.load()
    return shown


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_picture_is_scaled_down(kind):
    shown = opened(await shrink_picture(make_picture(kind, (1600, 1200))))
    assert shown.size == (SIDE_PX, SIDE_PX * 3 // 4)
    result = shown.convert("RGBA").getpixel((5, 5))
    assert max(abs(number - other) for number, other in zip(result, RED, strict=True)) < 8


async def test_small_picture_keeps_its_size_and_transparency():
    clear = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    out = io.BytesIO()
    clear.save(out, "PNG")
    shown = opened(await shrink_picture(out.getvalue()))
    assert (shown.size, shown.convert("RGBA").getpixel((1, 1))[3]) == ((20, 20), 0)


async def test_nothing_that_is_not_seen_is_handed_on():
    png = await shrink_picture(make_picture_with_text())
    assert png == await shrink_picture(make_picture())
    assert b"alert" not in png
    assert b"PK" not in png
    assert not opened(png).info


async def test_where_a_picture_was_taken_is_not_handed_on():
    exif = Image.Exif()
    exif[0x0112] = 6  # an orientation that requires rotation
    exif[0x8825] = {1: "N", 2: (50.0, 0.0, 0.0)}
    png = await shrink_picture(make_picture("JPEG", (64, 48), exif=exif))
    assert opened(png).size == (48, 64)
    assert not opened(png).getexif()


async def test_incompressible_picture_stays_below_the_size_limit():
    assert len(await shrink_picture(make_noise())) <= BYTES_MAX


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<html><script>alert(1)</script>",
        make_picture("GIF"),
        make_picture("BMP"),
        make_picture("TIFF"),
        make_picture("ICO", (32, 32)),
        make_picture()[:60],
        make_picture("JPEG")[:200],
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 100,
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"RIFF\xff\xff\xff\x7fWEBPVP8 ",
    ],
    ids=range(13),
)
async def test_unsupported_picture_format_is_refused(content):
    with pytest.raises(PictureUnavailable, match="not a PNG, JPEG or WebP"):
        await shrink_picture(content)


@pytest.mark.parametrize("make_bomb", [make_pixel_bomb, make_text_bomb])
async def test_decompression_bomb_is_refused(make_bomb):
    content = make_bomb()
    assert len(content) < 4_000_000
    with pytest.raises(PictureUnavailable):
        await shrink_picture(content)


@pytest.mark.parametrize("make_bomb", [make_pixel_bomb, make_text_bomb])
def test_it_is_refused_where_the_decoder_may_take_no_limits_too(make_bomb):
    with pytest.raises((ValueError, Image.DecompressionBombError)):
        decoder.shrink(make_bomb())


async def test_a_decoder_that_hangs_is_ended(monkeypatch, tmp_path):
    slow = tmp_path / "decoder"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 100\n")
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(pictures, "_DECODE_S", 1.5)
    with pytest.raises(PictureUnavailable):
        await shrink_picture(make_picture())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_the_decoder_knows_no_secret_of_ours(monkeypatch, tmp_path):
    monkeypatch.setenv("FLORIN_STORE", "postgresql://secret")
    result = tmp_path / "result"
    result.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/env\n")
    result.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(result))
    with pytest.raises(PictureUnavailable):
        await shrink_picture(make_picture())
    assert "FLORIN" not in (tmp_path / "env").read_text()


async def ask(say, authority, certificate, reach=LOOPBACK, path="/icon.png") -> bytes:
    outbound = SafeHttpClient(
        reach, ssl_context=ssl.create_default_context(cafile=str(authority.ca))
    )
    async with serve_stub(say, certificate) as server:
        try:
            return await fetch_picture(outbound, f"https://127.0.0.1:{server.port}{path}")
        finally:
            await outbound.close()


async def test_picture_format_is_detected_from_its_bytes(authority, certificate):
    lying = make_stub_response(200, make_picture("JPEG"), content_type="text/html")
    assert opened(await ask(lying, authority, certificate)).size == (64, 48)


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (
            make_stub_response(302, location="https://169.254.169.254/latest/meta-data/"),
            "status 302",
        ),
        (make_stub_response(404, make_picture()), "status 404"),
        (make_stub_response(200, b"x" * (PICTURE_BYTES_MAX + 1)), "larger than"),
        (send_endless_body, "larger than"),
        (hang, "no answer within"),
    ],
    ids=["redirect", "error", "large", "endless", "silent"],
)
async def test_an_answer_that_is_no_picture_is_none(authority, certificate, monkeypatch, say, why):
    monkeypatch.setattr(pictures, "_TIMEOUT_S", 0.5 if say is hang else 5.0)
    with pytest.raises(PictureUnavailable, match=why):
        await ask(say, authority, certificate)


@pytest.mark.parametrize(
    "url",
    [
        "http://93.184.216.34/icon.png",
        "https://127.0.0.1/icon.png",
        "https://169.254.169.254/latest/meta-data/",
        "https://[::1]/icon.png",
        "https://10.0.0.1/icon.png",
        "https://user:password@93.184.216.34/icon.png",
        "file:///etc/passwd",
        "data:image/png;base64,AAAA",
        "https://",
        # some parsers read these as addresses, others as names
        *("https://127.1/", "https://0x7f.1/", "https://2130706433/", "https://[::1%25lo]/"),
        *("https://[v1.x]/", "https://xn--a/", "https://a..b/", "https://%zz/", "https://-/"),
        *(f"https://{'a' * 300}.test/", f"https://{'a.' * 900}test/", "https://127.0.0.1:0/"),
    ],
)
async def test_picture_from_a_private_host_is_refused(url):
    outbound = SafeHttpClient(AddressPolicy())
    try:
        with pytest.raises(PictureUnavailable):
            await fetch_picture(outbound, url)
    finally:
        await outbound.close()
