"""A merchant's colour can be read on every ground of a page, whatever it is."""

from __future__ import annotations

import random

import pytest
from florin_server.config import CheckoutSettings
from florin_server.web.colours import contrast
from florin_server.web.payments.accent import readable, style
from pydantic import ValidationError

LIGHT, DARK = ("#f6f7f9", "#ffffff"), ("#111418", "#1b2027")


def colours() -> list[str]:
    chosen = random.Random(7)
    made = ["#" + chosen.randbytes(3).hex() for _ in range(300)]
    return ["#000000", "#ffffff", "#ffff00", "#808080", "#0000ff", *made]


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#010203", "#010203") == 1
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_colour_becomes_one_that_can_be_read():
    for colour in colours():
        light, dark = readable(colour)
        assert min(contrast(light, ground) for ground in LIGHT) >= 4.5, colour
        assert min(contrast(dark, ground) for ground in DARK) >= 4.5, colour
        # so can what stands on it
        for ground in (light, dark):
            assert max(contrast(ground, one) for one in ("#000000", "#ffffff")) >= 4.5


def test_a_colour_that_can_be_read_stays_as_it_is():
    assert readable("#0b6e4f")[0] == "#0b6e4f"
    assert readable("#ffcc00")[1] == "#ffcc00"
    assert "light-dark(#0b6e4f," in style("#0b6e4f")


@pytest.mark.parametrize(
    "wrong",
    [
        {"accent": "red"},
        {"accent": "#fff"},
        {"accent": "#ffffff;}"},
        {"accents": {"mrch_1": "url(x)"}},
        {"wallets": [{"name": "X", "url": "https://wallet.example/"}]},
        {"wallets": [{"name": "X", "url": "javascript:alert('{url}')"}]},
        {"wallets": [{"name": "", "url": "https://wallet.example/{url}"}]},
        {"explorers": {"eip155:1": "https://explorer.example/"}},
        {"nodes": {"eip155:1": "http://node.example/"}},
        {"nodes": {"eip155:1": "https://name:key@node.example/"}},
    ],
)
def test_settings_that_would_break_a_page_are_refused(wrong):
    with pytest.raises(ValidationError):
        CheckoutSettings.model_validate(wrong)
