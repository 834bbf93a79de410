"""The operator stops and starts what sends transactions, one key on one chain at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject
from florin_server.domain.caip import canonicalize_account
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.operations.context import WorkerContext
from florin_server.operations.roles import KeySender
from florin_server.operations.service.audit_log import audited_change
from florin_server.operations.store import executors


class _Context(EventContext, StorageContext, WorkerContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class ExecutorStatus:
    """The sender on one chain, a CAIP-10 account; `paused_at_us` is None unless it is paused."""

    id: str
    paused_at_us: int | None
    open_transactions: int


async def list_executors(app: _Context) -> list[ExecutorStatus]:
    """Return every executor, by id; the process that sends with it reports its transactions."""
    pauses = await app.store.read(executors.list_pauses())
    open_ones = await app.store.read(executors.count_open_transactions())
    return [
        ExecutorStatus(executor, pauses.get(executor), open_ones.get(executor, 0))
        for executor in sorted(app.executors)
    ]


async def pause(app: _Context, text: str) -> ExecutorStatus:
    """Pause an executor until it is resumed; a second time changes nothing."""
    executor_id, sender = _parse_executor(app, text)
    await app.store.write(
        _audit(app, executors.pause(executor_id, app.clock.now_us()), executor_id, pauses=True)
    )
    sender.pause()
    app.notifier.publish(Topic.EXECUTORS)
    return await _get_executor(app, executor_id)


async def resume(app: _Context, text: str) -> ExecutorStatus:
    """Resume an executor; a second time changes nothing."""
    executor_id, sender = _parse_executor(app, text)
    await app.store.write(_audit(app, executors.resume(executor_id), executor_id, pauses=False))
    sender.resume()
    app.notifier.publish(Topic.EXECUTORS)
    return await _get_executor(app, executor_id)


def _audit(
    app: StorageContext, work: Operation[None], executor_id: str, *, pauses: bool
) -> Operation[None]:
    action = AuditAction.EXECUTOR_PAUSED if pauses else AuditAction.EXECUTOR_RESUMED
    change = AuditChange(action, AuditObject.EXECUTOR, executor_id)
    return audited_change(
        app,
        executors.list_pauses(),
        work,
        # a second time changes nothing
        lambda former, _: None if (executor_id in former) is pauses else change,
    )


async def _get_executor(app: _Context, executor_id: str) -> ExecutorStatus:
    return next(executor for executor in await list_executors(app) if executor.id == executor_id)


def _parse_executor(app: WorkerContext, text: str) -> tuple[str, KeySender]:
    try:
        account = canonicalize_account(text, checksum=False)
    except ValueError:
        account = text
    sender = app.executors.get(account)
    if sender is None:
        raise ApiError(ErrorCode.EXECUTOR_NOT_FOUND)
    return account, sender
