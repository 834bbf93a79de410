"""The list of all pictures."""

from __future__ import annotations

from tests.screenshots import consoles, forms, public_pages
from tests.screenshots.picture import Picture

PICTURES: tuple[Picture, ...] = (*public_pages.PICTURES, *forms.PICTURES, *consoles.PICTURES)
