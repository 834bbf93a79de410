"""Promises in the comments of the protos, which clients in all languages read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROTOS = Path(__file__).parents[3] / "protos" / "florin" / "v1"
STREAM = re.compile(r"((?: *//[^\n]*\n)+) *rpc (\w+)\(\w+\) returns \(stream ")
STREAMS = [
    (f"{path.stem}.{name}", comment)
    for path in sorted(PROTOS.glob("*.proto"))
    for comment, name in STREAM.findall(path.read_text())
]


def test_every_stream_is_listed():
    assert {name for name, _ in STREAMS} == {
        "gateway.WatchPayment",
        "merchant.WatchPayment",
        "merchant.WatchRefund",
        "operator.WatchPayout",
    }


@pytest.mark.parametrize(("name", "comment"), STREAMS)
def test_a_stream_promises_the_newest_state_and_not_every_change(name, comment):
    words = " ".join(comment.replace("//", "").split())
    assert "every" not in words, name
    assert re.search(r"now and (each newer status|after each change),? until it is final", words)
    assert re.search(r"Short-lived (statuses|states) can be skipped", words)
