"""The steps for the blocks of the documents, by the block's place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.support.documents import DocumentBlock
from tests.support.newcomer import NewcomerWalk

Step = Callable[[NewcomerWalk, DocumentBlock], Awaitable[None]]
STEPS: dict[tuple[str, str, int], Step] = {}


def step(document: str, section: str, number: int) -> Callable[[Step], Step]:
    """Register a function that follows a block of a section."""

    def noted(follow: Step) -> Step:
        STEPS[document, section, number] = follow
        return follow

    return noted
