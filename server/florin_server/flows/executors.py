"""The operator stops and starts what settles payments, one chain and sender at a time."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.domain.caip import canonical_account
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.app import App, Settler
from florin_server.rails.base import Rail
from florin_server.store import executors


@dataclass(frozen=True, slots=True)
class Executor:
    """Who sends on one chain; `paused_at_us` is None while it may."""

    id: str
    paused_at_us: int | None
    open_transactions: int


def executor_id(rail: Rail) -> str:
    """The CAIP-10 account that sends on a chain."""
    return f"{rail.chain_id}:{rail.sender}"


async def listed(app: App) -> list[Executor]:
    """Every executor, by id."""
    pauses = await app.store.read(executors.pauses())
    found = [
        Executor(
            executor_id(rail),
            pauses.get(executor_id(rail)),
            app.settlers[chain_id].health().open_transactions,
        )
        for chain_id, rail in app.rails.items()
    ]
    return sorted(found, key=lambda executor: executor.id)


async def pause(app: App, text: str) -> Executor:
    """Lets an executor send nothing new, until it is resumed; once more changes nothing."""
    one, settler = _find(app, text)
    await app.store.write(executors.pause(one, app.clock.now_us()))
    settler.pause()
    return await _told(app, one)


async def resume(app: App, text: str) -> Executor:
    """Lets an executor send again what has waited; once more changes nothing."""
    one, settler = _find(app, text)
    await app.store.write(executors.resume(one))
    settler.resume()
    return await _told(app, one)


async def _told(app: App, one: str) -> Executor:
    return next(executor for executor in await listed(app) if executor.id == one)


def _find(app: App, text: str) -> tuple[str, Settler]:
    try:
        wanted = canonical_account(text, checksum=False)
    except ValueError:
        wanted = text
    for chain_id, rail in app.rails.items():
        if executor_id(rail) == wanted:
            return wanted, app.settlers[chain_id]
    raise FlorinError(Code.EXECUTOR_NOT_FOUND)
