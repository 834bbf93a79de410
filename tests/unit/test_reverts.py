"""What contracts revert with is told in a few plain characters, whatever they chose."""

from __future__ import annotations

import pytest
from eth_abi import encode
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.reading.reverts import SAID_MAX, said, shown

ERROR = "0x08c379a0"


def with_text(text: bytes) -> str:
    return ERROR + encode(["bytes"], [text]).hex()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (with_text(b"Pausable: paused"), "Pausable: paused"),
        (
            with_text(b"Blacklistable: account is blacklisted"),
            "Blacklistable: account is blacklisted",
        ),
        (with_text(b""), ""),
        ("0x4e487b71" + "11".rjust(64, "0"), "panic 0x11"),
        ("0x90b8ec18", "TransferFailed"),
        ("0xdeadbeef" + "00" * 64, "error 0xdeadbeef"),
        ("0x", ""),
        ("0x08c3", ""),
        (ERROR, ""),
        (ERROR + "ff" * 64, ""),
        (ERROR + "20".rjust(64, "0") + "ff" * 32, ""),
        (None, ""),
        ({"data": "0x"}, ""),
        ("Reverted", ""),
    ],
)
def test_a_reason_is_read_if_there_is_one(data, words):
    assert said(RpcError(3, "execution reverted", data)) == words


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mall is well\x1b[0m\r\n2026-01-01 ERROR florin: give up",
        "\u202egnol oot",
        "\x00" * 20,
        "\ud800".encode("utf-16", "surrogatepass").decode("latin-1"),
        "a" * 100_000,
        '"} , {"code": "payment_not_found"',
    ],
)
def test_what_strangers_say_is_cut_and_plain(text):
    told = said(RpcError(3, "", with_text(text.encode("utf-8"))))
    assert len(told) <= SAID_MAX
    assert told.isascii()
    assert told.isprintable()
    assert shown(text).isprintable()


def test_words_that_fit_are_whole():
    assert shown("x" * SAID_MAX) == "x" * SAID_MAX
    assert shown("x" * (SAID_MAX + 1)) == "x" * (SAID_MAX - 3) + "..."
