"""Every merchant's color is readable on every background of a page."""

from __future__ import annotations

import random

import pytest
from florin_server.settings import CheckoutSettings
from florin_server.web.colours import compute_contrast
from florin_server.web.payments.accent import adjust_accent, build_accent_style
from pydantic import ValidationError

LIGHT, DARK = ("#f6f7f9", "#ffffff"), ("#111418", "#1b2027")


def colours() -> list[str]:
    chosen = random.Random(7)
    created = ["#" + chosen.randbytes(3).hex() for _ in range(300)]
    return ["#000000", "#ffffff", "#ffff00", "#808080", "#0000ff", *created]


def test_contrast_is_that_of_the_guidelines():
    assert compute_contrast("#000000", "#ffffff") == pytest.approx(21)
    assert compute_contrast("#010203", "#010203") == 1
    assert compute_contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_accent_color_is_adjusted_to_readable_contrast():
    for colour in colours():
        light, dark = adjust_accent(colour)
        assert min(compute_contrast(light, ground) for ground in LIGHT) >= 4.5, colour
        assert min(compute_contrast(dark, ground) for ground in DARK) >= 4.5, colour
        # the text on it is also readable
        for ground in (light, dark):
            assert max(compute_contrast(ground, item) for item in ("#000000", "#ffffff")) >= 4.5


def test_a_colour_that_can_be_read_stays_as_it_is():
    assert adjust_accent("#0b6e4f")[0] == "#0b6e4f"
    assert adjust_accent("#ffcc00")[1] == "#ffcc00"
    assert "light-dark(#0b6e4f," in build_accent_style("#0b6e4f")


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
