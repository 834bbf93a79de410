"""Signs of pages, drawn for Florin: line icons, tokens and networks, as inline SVG.

Icons take the color of their text and are hidden from screen readers: the words beside them say
the same. Tokens are discs and networks squares with a plain sign, no brand's logo.
"""

from __future__ import annotations

import functools
from typing import Final

from markupsafe import Markup

# on a grid of 20 x 20
_ICONS: Final = {
    "again": '<path d="M16 10a6 6 0 1 1-1.8-4.3L16.5 8M16.5 3.8V8h-4.2"/>',
    "alert": '<path d="M10 3.2 17.6 16.4H2.4z"/><path d="M10 8v3.6m0 2.3v.1"/>',
    "ban": '<circle cx="10" cy="10" r="7"/><path d="m5.2 5.2 9.6 9.6"/>',
    "bell": '<path d="M5.5 13.5V9a4.5 4.5 0 0 1 9 0v4.5l1.3 1.5H4.2z"/><path d="M8.5 17.2h3"/>',
    "bolt": '<path d="M11 2.5 4.5 11.5h4.8L8.5 17.5l7-9.2h-5z"/>',
    "book": (
        '<path d="M10 5.5C8.5 4 6 3.7 3.5 3.9v11.3c2.5-.2 5 .1 6.5 1.6 1.5-1.5 4-1.8 '
        '6.5-1.6V3.9C14 3.7 11.5 4 10 5.5zm0 0v11"/>'
    ),
    "chain": (
        '<rect x="2.5" y="7" width="6" height="6" rx="1.6"/><rect x="11.5" y="7" width="6" '
        'height="6" rx="1.6"/><path d="M8.5 10h3"/>'
    ),
    "check": '<path d="m4.5 10.5 3.6 3.6 7.4-8"/>',
    "clock": '<circle cx="10" cy="10" r="7"/><path d="M10 6v4.2l2.8 1.7"/>',
    "code": (
        '<rect x="3.5" y="3.5" width="5" height="5" rx="1"/><rect x="11.5" y="3.5" width="5" '
        'height="5" rx="1"/><rect x="3.5" y="11.5" width="5" height="5" rx="1"/><path '
        'd="M11.5 11.5h2v2m3-2v5m-5 0h2"/>'
    ),
    "copy": (
        '<rect x="7" y="7" width="9.5" height="9.5" rx="2"/><path d="M13 4.6a1.6 1.6 0 0 '
        '0-1.5-1.1H5.1a1.6 1.6 0 0 0-1.6 1.6v6.4A1.6 1.6 0 0 0 4.6 13"/>'
    ),
    "cross": '<path d="m5.5 5.5 9 9m0-9-9 9"/>',
    "down": '<path d="m5.5 8 4.5 4.5L14.5 8"/>',
    "download": '<path d="M10 3.5v9m-3.8-3.6L10 12.7l3.8-3.8M4 16.5h12"/>',
    "eye": (
        '<path d="M2.5 10C4.3 6.6 6.8 5 10 5s5.7 1.6 7.5 5c-1.8 3.4-4.3 5-7.5 '
        '5s-5.7-1.6-7.5-5z"/><circle cx="10" cy="10" r="2.3"/>'
    ),
    "flask": (
        '<path d="M8 3v5L3.9 15a1.1 1.1 0 0 0 1 1.6h10.2a1.1 1.1 0 0 0 1-1.6L12 8V3M6.8 '
        '3h6.4M6 12.5h8"/>'
    ),
    "florin": (
        '<circle cx="10" cy="10" r="7.3"/><path d="M10 5c1.5 1.5 1.5 3.3 0 5-1.5-1.7-1.5-3.5 '
        "0-5zm0 5v5M6 8.3c-.3 2 .8 3.2 2.6 3.2H10c-.2-2-1.6-3.4-4-3.2zm8 0c.3 2-.8 3.2-2.6 "
        '3.2H10c.2-2 1.6-3.4 4-3.2z"/>'
    ),
    "gear": (
        '<circle cx="10" cy="10" r="2.5"/><path d="M10 2.8v2.3m0 9.8v2.3M17.2 10h-2.3m-9.8 '
        '0H2.8m12.3-5.1-1.6 1.6M6.5 13.5l-1.6 1.6m10.2 0-1.6-1.6M6.5 6.5 4.9 4.9"/>'
    ),
    "globe": (
        '<circle cx="10" cy="10" r="7"/><path d="M3 10h14M10 3c2.3 2 3.3 4.3 3.3 7S12.3 15 10 '
        '17c-2.3-2-3.3-4.3-3.3-7S7.7 5 10 3z"/>'
    ),
    "hold": (
        '<path d="M10 2.8 16 5v4.6c0 3.6-2.5 6.2-6 7.6-3.5-1.4-6-4-6-7.6V5z"/><path d="M8.4 '
        '8v4m3.2-4v4"/>'
    ),
    "home": (
        '<path d="M3.5 9.2 10 3.7l6.5 5.5V16a.6.6 0 0 1-.6.6H12v-4.8H8v4.8H4.1a.6.6 0 0 1-.6-.6z"/>'
    ),
    "hook": (
        '<path d="M7.2 8.6A3.4 3.4 0 1 1 12.7 6L10 11.2"/><path d="M6.5 10.5A3.3 3.3 0 1 0 9 '
        '14.6h4"/><circle cx="14.5" cy="13.2" r="2.3"/>'
    ),
    "info": '<circle cx="10" cy="10" r="7"/><path d="M10 9.4v4m0-6.9v.1"/>',
    "key": '<circle cx="6.7" cy="13.3" r="3.2"/><path d="m9 11 7-7m-3 3 2 2"/>',
    "leave": '<path d="M8 16.5H4.5v-13H8M9 10h7.5m-3.3-3.5L16.7 10l-3.5 3.5"/>',
    "left": '<path d="M16 10H4.4m4.8-5-5 5 5 5"/>',
    "link": (
        '<path d="M8.4 11.6a3 3 0 0 0 4.3 0l2.9-2.9a3 3 0 0 0-4.3-4.3L10 5.7"/><path d="M11.6 '
        '8.4a3 3 0 0 0-4.3 0l-2.9 2.9a3 3 0 0 0 4.3 4.3l1.3-1.3"/>'
    ),
    "list": '<path d="M7.5 5.5h9m-9 4.5h9m-9 4.5h9M3.8 5.5h.1m-.1 4.5h.1m-.1 4.5h.1"/>',
    "lock": (
        '<rect x="4.5" y="9" width="11" height="7.5" rx="2"/><path d="M7 9V6.5a3 3 0 0 1 6 0V9"/>'
    ),
    "log": '<path d="M5 3.5h7l3.5 3.5v9.5H5z"/><path d="M8 9.5h4.5M8 12.5h4.5"/>',
    "menu": '<path d="M3.5 6h13m-13 4h13m-13 4h13"/>',
    "more": '<path d="M5 10h.01M10 10h.01M15 10h.01"/>',
    "next": '<path d="m8 5.5 4.5 4.5L8 14.5"/>',
    "offline": (
        '<path d="M3 3.5l14 13M2.5 8A11 11 0 0 1 6 5.8m3.6-.8A11 11 0 0 1 17.5 8M5.3 11a7 7 0 '
        '0 1 3.2-1.9M12 9.5c1 .3 1.9.8 2.7 1.5M10 15h.1"/>'
    ),
    "out": '<path d="M8 4.5H4.5v11h11V12M11.5 4h4.6v4.6M15.6 4.4 9.5 10.5"/>',
    "pause": '<path d="M7 5v10m6-10v10"/>',
    "payout": '<path d="M10 12.5V3.5m-3.8 3.6L10 3.3l3.8 3.8M3.5 11.5v5h13v-5"/>',
    "phone": '<rect x="5.5" y="2.5" width="9" height="15" rx="2"/><path d="M9 15h2"/>',
    "play": '<path d="M6.5 4.5v11l9-5.5z"/>',
    "plus": '<path d="M10 4.5v11M4.5 10h11"/>',
    "prev": '<path d="M12 5.5 7.5 10l4.5 4.5"/>',
    "print": (
        '<path d="M6 7V3.5h8V7M6 14H3.5V7h13v7H14"/><rect x="6" y="11.5" width="8" height="5"/>'
    ),
    "pulse": '<path d="M2.5 10.5h3.3l2.2-6 4 11 2.2-5h3.3"/>',
    "receipt": (
        '<path d="M5 2.8v14.4l2-1.3 1.5 1.3 1.5-1.3 1.5 1.3 1.5-1.3 2 1.3V2.8z"/><path d="M8 '
        '7h4m-4 3.5h4"/>'
    ),
    "right": '<path d="M4 10h11.6m-4.8-5 5 5-5 5"/>',
    "search": '<circle cx="8.8" cy="8.8" r="5.3"/><path d="m12.8 12.8 4 4"/>',
    "send": '<path d="M3 9.5 17 3.5l-5 13.5-3-5.8z"/><path d="m9 11.2 3.5-3.5"/>',
    "shop": (
        '<path d="M3.5 7.5 5 3.5h10l1.5 4a2.2 2.2 0 0 1-4.3 0 2.2 2.2 0 0 1-4.4 0 2.2 2.2 0 0 '
        '1-4.3 0z"/><path d="M4.7 10v6.5h10.6V10M8.5 16.5V13h3v3.5"/>'
    ),
    "sort": '<path d="M6.5 4v12m-3-3 3 3 3-3M13.5 16V4m-3 3 3-3 3 3"/>',
    "undo": '<path d="M4 8h8a4.3 4.3 0 0 1 0 8.6H7M7.5 4.5 4 8l3.5 3.5"/>',
    "user": (
        '<circle cx="10" cy="7" r="3.3"/><path d="M3.8 16.7c.8-3 3.2-4.4 6.2-4.4s5.4 1.4 6.2 4.4"/>'
    ),
    "wallet": (
        '<path d="M15.5 6.5v-2h-10a2 2 0 0 0 0 4h11v8h-11a2 2 0 0 1-2-2v-8"/><path d="M13.4 '
        '12.5h.1"/>'
    ),
}
# on a grid of 36 x 36: color and sign of tokens
_TOKENS: Final = {
    "usd": (
        "#2463c9",
        (
            '<path d="M21.5 14.2c-.6-1.3-1.9-2-3.5-2-2 0-3.4 1-3.4 2.7 0 3.9 7 1.9 7 5.8 0 '
            '1.8-1.5 2.9-3.6 2.9-1.8 0-3.2-.8-3.7-2.3M18 9.8v2.4m0 11.4V26"/>'
        ),
    ),
    "usdt": (
        "#12876a",
        '<path d="M12 12h12M18 12v13M11.5 16.6c0 1.2 2.9 2.1 6.5 2.1s6.5-.9 6.5-2.1"/>',
    ),
    "eur": (
        "#3a3fb0",
        '<path d="M22.8 13a6 6 0 1 0 0 10M11.5 16.5h8m-8 3h8"/>',
    ),
    "eth": (
        "#565b6e",
        '<path d="m18 8.5 6 9.5-6 3.5-6-3.5zM12.5 21l5.5 6.5 5.5-6.5"/>',
    ),
    "sol": (
        "#6a3fc0",
        '<path d="M13.5 12.5h11l-2.5 3h-11zM11 20.5h11l2.5 3h-11z"/>',
    ),
}
# on a grid of 20 x 20: color and sign of networks
_NETWORKS: Final = {
    "base": ("#2347d9", '<path d="M6 10h8"/>'),
    "eth": ("#565b6e", '<path d="m10 4.5 3.5 5.5-3.5 2-3.5-2zM7 13l3 3 3-3"/>'),
    "sol": ("#6a3fc0", '<path d="M7 7h7m-8 6h7"/>'),
    "arb": ("#1f6e9e", '<path d="M6 14.5 10 5l4 9.5"/>'),
    "pol": ("#7a3bd1", '<path d="m10 5 4 2.5v5L10 15l-4-2.5v-5z"/>'),
    "dev": ("#855000", '<path d="m6.5 7.5 3 2.5-3 2.5M11 13h3"/>'),
}
# CAIP-2 ids of networks, and the sign of each, test networks included
_CHAINS: Final = {
    **dict.fromkeys(("eip155:1", "eip155:11155111"), "eth"),
    **dict.fromkeys(("eip155:8453", "eip155:84532"), "base"),
    **dict.fromkeys(("eip155:42161", "eip155:421614"), "arb"),
    **dict.fromkeys(("eip155:137", "eip155:80002"), "pol"),
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": "sol",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "sol",
}
# beginnings of symbols, the longer ones first
_SYMBOLS: Final = (
    *(("USDT", "usdt"), ("USD", "usd"), ("EUR", "eur"), ("ETH", "eth"), ("WETH", "eth")),
    ("SOL", "sol"),
)


@functools.cache
def draw_icon(name: str, css_class: str = "") -> Markup:
    """Return a line icon; KeyError for an unknown name."""
    classes = f"i {css_class}".rstrip()
    return _to_markup(
        f'<svg class="{classes}" viewBox="0 0 20 20" aria-hidden="true">{_ICONS[name]}</svg>'
    )


@functools.lru_cache(256)
def draw_coin(symbol: str, chain_id: str = "") -> Markup:
    """Return the disc of a token, with its network (CAIP-2) at the corner."""
    return _to_markup(
        f'<span class="coin" aria-hidden="true">{_draw_token(symbol)}'
        f"{draw_network(chain_id) if chain_id else ''}</span>"
    )


@functools.lru_cache(64)
def draw_network(chain_id: str) -> Markup:
    """Return the square of a network (CAIP-2); unknown networks have the sign of a test chain."""
    color, sign = _NETWORKS[_CHAINS.get(chain_id, "dev")]
    return _to_markup(
        '<svg class="network" viewBox="0 0 20 20" width="16" height="16" aria-hidden="true">'
        f'<rect width="20" height="20" rx="5" fill="{color}"/><g>{sign}</g></svg>'
    )


def _draw_token(symbol: str) -> str:
    # tokens of test chains have a small t before the symbol of what they stand for
    plain = symbol.removeprefix("t").upper()
    token = next((sign for start, sign in _SYMBOLS if plain.startswith(start)), None)
    # a token without a sign of its own shows its first letter
    color, sign = ("#4b4d5b", "") if token is None else _TOKENS[token]
    letter = (
        Markup(
            '<text x="18" y="24" fill="#fff" font-size="17" font-weight="600" '
            'text-anchor="middle">{}</text>'
        ).format(symbol[:1])
        if token is None
        else ""
    )
    return (
        '<svg class="token" viewBox="0 0 36 36">'
        f'<circle cx="18" cy="18" r="18" fill="{color}"/><g>{sign}</g>{letter}</svg>'
    )


def _to_markup(svg: str) -> Markup:
    # the parts are those of this module; a symbol is escaped above
    return Markup(svg)  # noqa: S704
