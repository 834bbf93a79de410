"""The description of a page in one state, which is pictured in every width and color scheme."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from tests.screenshots.picture import Reach, Stage

_WIDTHS, _PHONE_WIDTHS = (390, 1280), (390, 320)
_SCHEMES = ("light", "dark")
Look = tuple[int, str]


@dataclass(frozen=True, slots=True)
class PageState:
    """A page in one state: its name, its stage, and the steps that lead to it.

    As with pictures, a reach function leaves nothing on the stage that other states show. A phone
    has a touch screen, and other widths. States whose steps add scripts to the page, or go offline,
    have a page of their own; others share one.
    """

    name: str
    stage: Stage
    reach: Reach
    language: str = "en"
    has_scripts: bool = True
    is_phone: bool = False
    has_own_page: bool = False

    @property
    def looks(self) -> tuple[Look, ...]:
        """Return the widths, each with both color schemes; the page is loaded in the first look."""
        return tuple(product(_PHONE_WIDTHS if self.is_phone else _WIDTHS, _SCHEMES))
