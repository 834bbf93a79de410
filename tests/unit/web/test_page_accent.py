"""Every merchant's color is readable on every background of a page."""

from __future__ import annotations

import random
import re

import pytest
from florin_server.settings import CheckoutSettings
from florin_server.web import assets
from florin_server.web.colours import BACKGROUNDS, ON_ACCENT, compute_contrast, mix_colors
from florin_server.web.payments.accent import adjust_accent, build_accent_style
from pydantic import ValidationError

CSS = (assets.FOLDER / "site/site.css").read_text()
LIGHT, DARK = BACKGROUNDS["light"], BACKGROUNDS["dark"]


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
        # also on the background of chosen things, which contains some of it
        assert compute_contrast(light, mix_colors(light, 0.09, "#ffffff")) >= 4.5, colour
        assert compute_contrast(dark, mix_colors(dark, 0.09, "#16171d")) >= 4.5, colour
        # the text on it is also readable, and stays so while a pointer is over the button
        hovered = mix_colors(light, 0.84, "#000000"), mix_colors(dark, 0.84, "#ffffff")
        for ground in (light, hovered[0]):
            assert compute_contrast(ground, ON_ACCENT["light"]) >= 4.5, colour
        for ground in (dark, hovered[1]):
            assert compute_contrast(ground, ON_ACCENT["dark"]) >= 4.5, colour


def test_backgrounds_and_shares_are_those_of_the_style():
    pairs = re.findall(r"--(?:ground|sunken|surface|raised): light-dark\((#\w+), (#\w+)\)", CSS)
    assert {light for light, _ in pairs} == {*LIGHT}
    assert {dark for _, dark in pairs} == {*DARK}
    assert "--on-accent: light-dark({light}, {dark});".format(**ON_ACCENT) in CSS
    assert "--accent-soft: color-mix(in oklab, var(--accent) 9%, var(--surface));" in CSS
    assert "--accent-strong: color-mix(in oklab, var(--accent) 84%," in CSS


@pytest.mark.parametrize(
    ("color", "share", "other", "mixed"),
    # as Chromium computes them
    [
        ("#3c4bd3", 0.09, "#ffffff", "#ebeffd"),
        ("#000000", 0.5, "#ffffff", "#636363"),
        ("#ff0000", 0.5, "#0000ff", "#8c53a2"),
    ],
)
def test_colors_are_mixed_like_in_the_browser(color, share, other, mixed):
    channels = zip(
        bytes.fromhex(mix_colors(color, share, other)[1:]), bytes.fromhex(mixed[1:]), strict=True
    )
    assert all(abs(computed - shown) <= 1 for computed, shown in channels)


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
