"""The description of a picture."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page

# opens a service with its data from a folder, and yields the objects that reach functions need
Stage = Callable[[Path], AbstractAsyncContextManager[Any]]
Reach = Callable[[Any, Page], Awaitable[None]]
PHONE, DESKTOP = 390, 1000


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture: its name, stage, the steps to its page, and browser settings.

    A reach function leaves nothing on the stage that other pictures show, so each picture can be
    taken alone.
    """

    name: str
    stage: Stage
    reach: Reach
    language: str = "en"
    scheme: Literal["light", "dark"] = "light"
    width: int = PHONE
