"""The form for data about a buyer, in the web view of a wallet or a browser.

Plain HTML that works without its script. The script tells the wallet how it ended, and takes the
address, in which a wallet may have put data, out of sight; no data ever goes to a wallet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from florin_gateway.plain import PlainAnswer

from florin_server.web.render import guarded, hashed, html

_POLICY = (
    f"default-src 'none'; style-src {hashed('capture/page.css')}; "
    f"script-src {hashed('capture/page.js')}; base-uri 'none'; form-action 'self'; "
    "frame-ancestors "
)


@dataclass(frozen=True, slots=True)
class Input:
    """One value of the form; `kind` is that of the input element."""

    id: str
    name: str
    kind: str
    required: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that belong together, under a sentence that says how; alone if it is empty."""

    legend: str
    inputs: Sequence[Input]


@dataclass(frozen=True, slots=True)
class Look:
    """How a page is shown: `theme` is light, dark or empty, `frames` are the sites around it."""

    theme: str = ""
    frames: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """What the form holds: `values` and `errors` by the ids of its inputs."""

    merchant: str
    token: str
    live: bool
    groups: Sequence[Group]
    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def form(told: Form, look: Look, status: int = 200) -> PlainAnswer:
    """The form, with what is wrong with it."""
    names = {one.id: one.name for group in told.groups for one in group.inputs}
    return _html("form", look, status, told=told, names=names)


def done(look: Look) -> PlainAnswer:
    """The page after the form was handed in; it tells the wallet to go on."""
    return _html("done", look, 200, {"type": "IC_COMPLETE", "success": True})


def failed(why: str, look: Look, status: int) -> PlainAnswer:
    """The page of a form that is of no use; it tells the wallet so."""
    message = {"type": "IC_ERROR", "success": False, "error": why}
    return _html("failed", look, status, message, why=why)


def _html(
    name: str,
    look: Look,
    status: int,
    message: Mapping[str, object] | None = None,
    **values: Any,
) -> PlainAnswer:
    theme = look.theme if look.theme in {"light", "dark"} else ""
    told = "" if message is None else orjson.dumps(message).decode()
    headers = guarded(_POLICY + (" ".join(look.frames) or "'none'"))
    return html(f"capture/{name}.html", status, headers, theme=theme, message=told, **values)
