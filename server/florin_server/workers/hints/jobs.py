"""What one process does so that many are as one: told, heard, and looked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from florin_server.flows.app import App
from florin_server.workers.hints.hear import Hearing
from florin_server.workers.hints.remembered import Remembered
from florin_server.workers.hints.tell import tell


def jobs(app: App) -> dict[str, Callable[[], Awaitable[None]]]:
    """Return the jobs by name; none where no other process can have the store."""
    if app.store.exclusive:
        return {}
    remembered = Remembered(app)
    notices = app.store.notices
    if notices is None or not app.hints.on:
        return remembered.jobs()
    hearing = Hearing(app, notices, remembered)
    told: dict[str, Callable[[], Awaitable[None]]] = {"send_hints": partial(tell, app, notices)}
    return {**remembered.jobs(), **told, **hearing.jobs()}
