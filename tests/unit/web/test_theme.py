"""Colors that wallets and merchants choose: only readable ones are used."""

from __future__ import annotations

import base64
import json
import random
import re

import pytest
from florin_server.web import assets
from florin_server.web.colours import compute_contrast
from florin_server.web.theme import VARIABLES_CHARS_MAX, build_style

RULE = re.compile(
    r":root:root\{(?:color-scheme:(?:light|dark);)?(?:--[a-z-]+:(?:#[0-9a-f]{3,6}|[0-9]{1,2}px);)+\}"
)


COLOURS = ("background", "text", "accent", "accentText", "border")
# the colors of texts, and the backgrounds that a chosen one replaces
READ = {"text", "quiet", "faint", "link", "good", "bad", "warn", "info", "plain"}
GROUNDS = ("ground", "sunken", "surface", "raised", "good-soft", "bad-soft", "accent-soft")
CSS = (assets.FOLDER / "site/site.css").read_text()


def grounds_of(mode: str) -> set[str]:
    """Return the default backgrounds of texts, from the style of all pages."""
    pairs = re.findall(r"--(?:ground|sunken|surface|raised): light-dark\((#\w+), (#\w+)\)", CSS)
    light, dark = zip(*pairs, strict=True)
    return {"light": {*light}, "dark": {*dark}}.get(mode) or {*light, *dark}


def encoded(value) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def variables(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+):([^;]+);", css))


def chosen(mode: str = "", **values) -> dict[str, str]:
    css = build_style(encoded(values), mode)
    assert not css or RULE.fullmatch(css)
    return variables(css)


def test_contrast_matches_wcag():
    assert compute_contrast("#000", "#ffffff") == compute_contrast("#fff", "#000000") == 21
    assert compute_contrast("#777777", "#fff") == pytest.approx(4.478, abs=0.001)
    assert compute_contrast("#abc", "#aabbcc") == 1


def test_a_pair_that_can_be_read_is_taken():
    result = chosen(background="#FFEEDD", text="#111", accent="#06c", accentText="#fff")
    assert (result["ground"], result["surface"], result["text"]) == ("#ffeedd", "#ffeedd", "#111")
    assert (result["accent"], result["on-accent"], result["link"]) == ("#06c", "#fff", "#06c")


def test_a_pair_that_cannot_be_read_is_not():
    assert chosen(background="#ffeedd", text="#ffddcc") == {}
    assert chosen(accent="#ff0", accentText="#fff") == {}
    # the other pair is judged separately
    assert "ground" not in chosen(background="#eee", text="#ddd", accent="#036", accentText="#fff")


def test_missing_color_of_a_pair_is_black_or_white():
    assert chosen(background="#123")["text"] == "#ffffff"
    assert chosen(background="#fed")["text"] == "#000000"
    assert chosen(accent="#ff0")["on-accent"] == "#000000"
    # a text color alone must be readable on the default background
    assert chosen("light", text="#333")["text"] == "#333"
    assert chosen("dark", text="#333") == chosen(text="#333") == {}


def test_a_link_is_read_on_the_ground_or_is_written_like_a_text():
    assert chosen("light", accent="#ff0") == {"accent": "#ff0", "on-accent": "#000000"}
    assert chosen(background="#fff", text="#000", accent="#ff0")["link"] == "#000"
    assert chosen("dark", accent="#ff0")["link"] == "#ff0"


def test_a_border_is_seen_where_it_has_to_be():
    assert chosen("light", border="#ddd") == {"line": "#ddd"}
    assert chosen("light", border="#555") == {"line": "#555", "edge": "#555"}


@pytest.mark.parametrize(
    "values",
    [
        {"accent": "red"},
        {"accent": "#12345"},
        {"accent": "#1234567"},
        {"accent": "#fff;}"},
        {"accent": "#fff\n"},
        {"accent": "url(https://evil.example)"},
        {"accent": ["#fff"]},
        {"accent": {"a": 1}},
        {"accent": 0},
        {"accent": None},
        {"--accent": "#000"},
        {"radius": "65px"},
        {"radius": "-1px"},
        {"radius": "1em"},
        {"radius": "٣px"},
        {"radius": "calc(1px)"},
        {"font": "Comic Sans"},
        {"</style>": "#000"},
    ],
)
def test_invalid_color_or_length_is_ignored(values):
    assert chosen(**values) == {}


@pytest.mark.parametrize(
    "text",
    ["", "%", "e30", encoded([]), encoded("x"), encoded(None), "x" * 100_000, "[" * 1000, "\x00"],
)
def test_unreadable_theme_is_ignored(text):
    assert build_style(text) == ""


def test_it_comes_in_every_encoding_and_is_bounded():
    existing = {"accent": "#036", "radius": "8px", "x": "~~~???>>>"}
    raw = json.dumps(existing).encode()
    plain = base64.b64encode(raw).decode()
    forms = {plain, plain.replace("+", " "), plain.rstrip("="), encoded(existing)}
    assert len({build_style(form) for form in forms}) == 1
    assert build_style(plain)
    long = encoded({**existing, "x": "x" * VARIABLES_CHARS_MAX})
    assert build_style(long) == ""


def test_any_chosen_theme_is_readable():
    chance = random.Random(7)
    for _ in range(3000):
        names = [name for name in COLOURS if chance.random() < 0.6]
        values = {each_name: f"#{chance.randrange(1 << 24):06x}" for each_name in names}
        mode = chance.choice(["", "light", "dark"])
        result = chosen(mode, **values)
        grounds = [result["ground"]] if "ground" in result else list(grounds_of(mode))
        for name in READ & result.keys():
            assert min(compute_contrast(result[name], ground) for ground in grounds) >= 4.5, values
        for name in {"edge"} & result.keys():
            assert min(compute_contrast(result[name], ground) for ground in grounds) >= 3, values
        if "accent" in result:
            assert compute_contrast(result["accent"], result["on-accent"]) >= 4.5, values
        # a chosen background comes with all colors on it
        if "ground" in result:
            assert READ | {"edge", "accent"} <= result.keys()
            assert {result[name] for name in GROUNDS} == {result["ground"]}
