"""Test that revert texts are reported in a few plain characters, whatever the contract chose."""

from __future__ import annotations

import pytest
from eth_abi import encode
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.reading.reverts import REASON_MAX, format_revert, sanitize_text

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
def test_revert_reason_is_decoded_when_present(data, words):
    assert format_revert(RpcError(3, "execution reverted", data)) == words


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
def test_revert_text_is_shortened_and_printable(text):
    revert = format_revert(RpcError(3, "", with_text(text.encode("utf-8"))))
    assert len(revert) <= REASON_MAX
    assert revert.isascii()
    assert revert.isprintable()
    assert sanitize_text(text).isprintable()


def test_words_that_fit_are_whole():
    assert sanitize_text("x" * REASON_MAX) == "x" * REASON_MAX
    assert sanitize_text("x" * (REASON_MAX + 1)) == "x" * (REASON_MAX - 3) + "..."
