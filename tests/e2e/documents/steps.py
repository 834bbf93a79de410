"""What is done with each block of the documents, by its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.support.documents import Block
from tests.support.newcomer import Walk

Step = Callable[[Walk, Block], Awaitable[None]]
STEPS: dict[tuple[str, str, int], Step] = {}


def step(document: str, section: str, number: int) -> Callable[[Step], Step]:
    """Follows a block of a section."""

    def noted(follow: Step) -> Step:
        STEPS[document, section, number] = follow
        return follow

    return noted
