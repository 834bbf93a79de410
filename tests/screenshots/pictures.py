"""The list of all pictures."""

from __future__ import annotations

from tests.screenshots import consoles, forms, shop
from tests.screenshots.picture import Picture

PICTURES: tuple[Picture, ...] = (*shop.PICTURES, *forms.PICTURES, *consoles.PICTURES)
