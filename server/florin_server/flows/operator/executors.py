"""The operator stops and starts what sends transactions, one key on one chain at a time."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.domain.caip import canonical_account
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.app import App, Sender
from florin_server.store.operator import executors


@dataclass(frozen=True, slots=True)
class Executor:
    """Who sends on one chain, a CAIP-10 account; `paused_at_us` is None while it may."""

    id: str
    paused_at_us: int | None
    open_transactions: int


async def listed(app: App) -> list[Executor]:
    """Every executor, by id; its transactions are told by whatever process sends with it."""
    pauses = await app.store.read(executors.pauses())
    open_ones = await app.store.read(executors.open_transactions())
    return [Executor(one, pauses.get(one), open_ones.get(one, 0)) for one in sorted(app.executors)]


async def pause(app: App, text: str) -> Executor:
    """Lets an executor send nothing new, until it is resumed; once more changes nothing."""
    one, sender = _find(app, text)
    await app.store.write(executors.pause(one, app.clock.now_us()))
    sender.pause()
    app.hints.remembered()
    return await _executor(app, one)


async def resume(app: App, text: str) -> Executor:
    """Lets an executor send again what has waited; once more changes nothing."""
    one, sender = _find(app, text)
    await app.store.write(executors.resume(one))
    sender.resume()
    app.hints.remembered()
    return await _executor(app, one)


async def _executor(app: App, one: str) -> Executor:
    return next(executor for executor in await listed(app) if executor.id == one)


def _find(app: App, text: str) -> tuple[str, Sender]:
    try:
        wanted = canonical_account(text, checksum=False)
    except ValueError:
        wanted = text
    sender = app.executors.get(wanted)
    if sender is None:
        raise FlorinError(Code.EXECUTOR_NOT_FOUND)
    return wanted, sender
