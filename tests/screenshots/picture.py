"""What a picture is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page

# what a service and its story are: from a folder for it to whatever the way to a page needs
Stage = Callable[[Path], AbstractAsyncContextManager[Any]]
Reach = Callable[[Any, Page], Awaitable[None]]
PHONE, DESKTOP = 390, 1000


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: its file's name, on which stage, the way to what it shows, and the browser.

    A way leaves nothing on the stage that other pictures show: each of them can be taken alone.
    """

    name: str
    stage: Stage
    reach: Reach
    language: str = "en"
    scheme: Literal["light", "dark"] = "light"
    width: int = PHONE
