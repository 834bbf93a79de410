"""`florin executors`: the executors that settle payments; only while the service runs."""

from __future__ import annotations

from typing import Any

from florin.v1 import system_pb2

from florin_server.cli.console import console, print_json, print_table
from florin_server.cli.operation import call_operator, format_minute
from florin_server.domain.settlement.runway import Runway, format_runway

_COLUMNS = ("Executor id", "State", "Since", "Open transactions", "Coin lasts for")


def list_executors(overrides: dict[str, Any]) -> None:
    """Print all executors."""
    request = system_pb2.ListExecutorsRequest()
    result = call_operator(overrides, "ListExecutors", request, running_only=True)
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.executors))


def _to_row(executor: system_pb2.Executor) -> tuple[str, ...]:
    return (
        executor.id,
        _format_state(executor),
        format_minute(executor, "paused_at"),
        str(executor.open_transactions),
        _format_runway(executor),
    )


def _format_runway(executor: system_pb2.Executor) -> str:
    if not executor.HasField("runway"):
        return ""
    runway = executor.runway
    return format_runway(
        Runway(
            runway.account,
            runway.asset,
            transactions=runway.transactions,
            items_left=runway.items_left if runway.HasField("items_left") else None,
            seconds_left=runway.seconds_left if runway.HasField("seconds_left") else None,
        )
    )


def pause_executor(overrides: dict[str, Any], executor_id: str) -> None:
    """Pause an executor: it sends no new transactions."""
    request = system_pb2.PauseExecutorRequest(executor_id=executor_id)
    _print_executor(call_operator(overrides, "PauseExecutor", request, running_only=True))


def resume_executor(overrides: dict[str, Any], executor_id: str) -> None:
    """Resume an executor: it sends transactions again."""
    request = system_pb2.ResumeExecutorRequest(executor_id=executor_id)
    _print_executor(call_operator(overrides, "ResumeExecutor", request, running_only=True))


def _print_executor(executor: system_pb2.Executor) -> None:
    if not print_json(executor):
        console.print(f"{executor.id} is {_format_state(executor)}.")


def _format_state(executor: system_pb2.Executor) -> str:
    return "paused" if executor.paused else "running"
