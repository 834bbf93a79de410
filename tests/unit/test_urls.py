"""URLs that merchants give."""

from __future__ import annotations

import pytest
from florin_server.domain.urls import with_parameter


@pytest.mark.parametrize(
    ("url", "longer"),
    [
        ("https://shop.example", "https://shop.example?payment_id=pay_1"),
        ("https://shop.example/", "https://shop.example/?payment_id=pay_1"),
        ("https://shop.example/?", "https://shop.example/?payment_id=pay_1"),
        ("https://shop.example/?a=1", "https://shop.example/?a=1&payment_id=pay_1"),
        ("https://shop.example/?a=1&", "https://shop.example/?a=1&payment_id=pay_1"),
        ("https://shop.example/#b", "https://shop.example/?payment_id=pay_1#b"),
        ("https://shop.example/?a=%20+1#b?c", "https://shop.example/?a=%20+1&payment_id=pay_1#b?c"),
        ("https://shop.example/#", "https://shop.example/?payment_id=pay_1#"),
    ],
)
def test_a_parameter_is_added_and_all_else_stays(url, longer):
    assert with_parameter(url, "payment_id", "pay_1") == longer
