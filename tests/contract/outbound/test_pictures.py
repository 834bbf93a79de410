"""Pictures that strangers name: what is made of them, and what they cannot do."""

from __future__ import annotations

import io
import os
import ssl
import sys

import pytest
from florin_server.outbound import decoder, pictures
from florin_server.outbound.decoder import BYTES_MAX, SIDE_PX
from florin_server.outbound.outbound import Outbound
from florin_server.outbound.pictures import PICTURE_BYTES_MAX, NoPicture, fetched, small
from florin_server.outbound.reach import Reach
from PIL import Image

from tests.support.answering import answering, answers, endless, never
from tests.support.authority import Authority
from tests.support.pictures import RED, bomb, chatty, noise, picture, told_more

LOOPBACK = Reach.of(["127.0.0.0/8"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"), "pictures")


@pytest.fixture(scope="module")
def certificate(authority):
    return authority.issue("127.0.0.1")


def opened(png: bytes) -> Image.Image:
    shown = Image.open(io.BytesIO(png))
    assert shown.format == "PNG"
    shown.load()
    return shown


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
async def test_a_picture_is_made_small(kind):
    shown = opened(await small(picture(kind, (1600, 1200))))
    assert shown.size == (SIDE_PX, SIDE_PX * 3 // 4)
    found = shown.convert("RGBA").getpixel((5, 5))
    assert max(abs(one - other) for one, other in zip(found, RED, strict=True)) < 8


async def test_small_ones_keep_their_size_and_what_is_clear():
    clear = Image.new("RGBA", (20, 20), (0, 0, 0, 0))
    out = io.BytesIO()
    clear.save(out, "PNG")
    shown = opened(await small(out.getvalue()))
    assert (shown.size, shown.convert("RGBA").getpixel((1, 1))[3]) == ((20, 20), 0)


async def test_nothing_that_is_not_seen_is_handed_on():
    png = await small(told_more())
    assert png == await small(picture())
    assert b"alert" not in png
    assert b"PK" not in png
    assert not opened(png).info


async def test_where_a_picture_was_taken_is_not_handed_on():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned
    exif[0x8825] = {1: "N", 2: (50.0, 0.0, 0.0)}
    png = await small(picture("JPEG", (64, 48), exif=exif))
    assert opened(png).size == (48, 64)
    assert not opened(png).getexif()


async def test_one_that_cannot_be_compressed_is_still_small():
    assert len(await small(noise())) <= BYTES_MAX


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"x",
        b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
        b"<html><script>alert(1)</script>",
        picture("GIF"),
        picture("BMP"),
        picture("TIFF"),
        picture("ICO", (32, 32)),
        picture()[:60],
        picture("JPEG")[:200],
        b"\x89PNG\r\n\x1a\n" + b"\x00" * 100,
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        b"RIFF\xff\xff\xff\x7fWEBPVP8 ",
    ],
    ids=range(13),
)
async def test_what_is_no_picture_that_is_taken_is_refused(told):
    with pytest.raises(NoPicture, match="no PNG, JPEG or WebP"):
        await small(told)


@pytest.mark.parametrize("made", [bomb, chatty])
async def test_what_would_fill_the_memory_is_refused(made):
    told = made()
    assert len(told) < 4_000_000
    with pytest.raises(NoPicture):
        await small(told)


@pytest.mark.parametrize("made", [bomb, chatty])
def test_it_is_refused_where_the_decoder_may_take_no_limits_too(made):
    with pytest.raises((ValueError, Image.DecompressionBombError)):
        decoder.shrunk(made())


async def test_a_decoder_that_hangs_is_ended(monkeypatch, tmp_path):
    slow = tmp_path / "decoder"
    slow.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 100\n")
    slow.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(pictures, "_DECODE_S", 1.5)
    with pytest.raises(NoPicture):
        await small(picture())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_the_decoder_knows_no_secret_of_ours(monkeypatch, tmp_path):
    monkeypatch.setenv("FLORIN_STORE", "postgresql://secret")
    told = tmp_path / "told"
    told.write_text(f"#!/bin/sh\n/usr/bin/env > {tmp_path}/env\n")
    told.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(told))
    with pytest.raises(NoPicture):
        await small(picture())
    assert "FLORIN" not in (tmp_path / "env").read_text()


async def ask(say, authority, certificate, reach=LOOPBACK, path="/icon.png") -> bytes:
    outbound = Outbound(reach, trust=ssl.create_default_context(cafile=str(authority.ca)))
    async with answering(say, certificate) as server:
        try:
            return await fetched(outbound, f"https://127.0.0.1:{server.port}{path}")
        finally:
            await outbound.close()


async def test_what_a_picture_is_its_bytes_say(authority, certificate):
    lying = answers(200, picture("JPEG"), content_type="text/html")
    assert opened(await ask(lying, authority, certificate)).size == (64, 48)


@pytest.mark.parametrize(
    ("say", "why"),
    [
        (answers(302, location="https://169.254.169.254/latest/meta-data/"), "status 302"),
        (answers(404, picture()), "status 404"),
        (answers(200, b"x" * (PICTURE_BYTES_MAX + 1)), "larger than"),
        (endless, "larger than"),
        (never, "no answer within"),
    ],
    ids=["redirect", "error", "large", "endless", "silent"],
)
async def test_an_answer_that_is_no_picture_is_none(authority, certificate, monkeypatch, say, why):
    monkeypatch.setattr(pictures, "_TIMEOUT_S", 0.5 if say is never else 5.0)
    with pytest.raises(NoPicture, match=why):
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
        # read as addresses by some, and as names by others
        *("https://127.1/", "https://0x7f.1/", "https://2130706433/", "https://[::1%25lo]/"),
        *("https://[v1.x]/", "https://xn--a/", "https://a..b/", "https://%zz/", "https://-/"),
        *(f"https://{'a' * 300}.test/", f"https://{'a.' * 900}test/", "https://127.0.0.1:0/"),
    ],
)
async def test_nothing_but_public_hosts_is_asked(url):
    outbound = Outbound(Reach())
    try:
        with pytest.raises(NoPicture):
            await fetched(outbound, url)
    finally:
        await outbound.close()
