"""`florin executors`: who settles payments on the chains; only while the service runs."""

from __future__ import annotations

from typing import Any

from florin.v1 import system_pb2

from florin_server.cli.console import console, table, told
from florin_server.cli.operation import ask, minute

_COLUMNS = ("Executor id", "State", "Since", "Open transactions")


def show(given: dict[str, Any]) -> None:
    """Prints all executors."""
    request = system_pb2.ListExecutorsRequest()
    found = ask(given, "ListExecutors", request, running_only=True)
    if not told(found):
        table(_COLUMNS, map(_row, found.executors))


def _row(executor: system_pb2.Executor) -> tuple[str, ...]:
    return (
        executor.id,
        _word(executor),
        minute(executor, "paused_at"),
        str(executor.open_transactions),
    )


def pause(given: dict[str, Any], executor_id: str) -> None:
    """Stops an executor from sending anything new."""
    request = system_pb2.PauseExecutorRequest(executor_id=executor_id)
    _print(ask(given, "PauseExecutor", request, running_only=True))


def resume(given: dict[str, Any], executor_id: str) -> None:
    """Lets an executor send again."""
    request = system_pb2.ResumeExecutorRequest(executor_id=executor_id)
    _print(ask(given, "ResumeExecutor", request, running_only=True))


def _print(executor: system_pb2.Executor) -> None:
    if not told(executor):
        console.print(f"{executor.id} is {_word(executor)}.")


def _word(executor: system_pb2.Executor) -> str:
    return "paused" if executor.paused else "running"
