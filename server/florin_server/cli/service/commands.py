"""Define the command groups for a running Florin, and their options."""

from __future__ import annotations

from typing import Annotated

import typer

from florin_server.cli.options import (
    HomeOption,
    YesOption,
    build_overrides,
    create_group,
)

executors = create_group("List, pause and resume the executors of chains.")
faults = create_group("List and clear armed faults of the embedded chains.")

leases = create_group("List and release the leases of signing keys.")
quarantine = create_group("List, retry and resolve quarantined items.")

GROUPS = {"executors": executors, "faults": faults, "leases": leases, "quarantine": quarantine}

_ITEM_IDS = "Item id, from `florin quarantine list`."

ExecutorId = Annotated[str, typer.Argument(help="Executor id, from `florin executors list`.")]


@executors.command("list")
def executors_list(home: HomeOption = None) -> None:
    """List executors, their transactions, and their coin's runway.

    Example: `florin executors list`
    """
    from florin_server.cli.service import executors as command

    command.list_executors(build_overrides(home=home))


@executors.command("pause")
def executors_pause(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Pause an executor: it sends no new transactions.

    Florin still follows the transactions that it has sent.

    Example: `florin executors pause eip155:8453:0x…`
    """
    from florin_server.cli.service import executors as command

    command.pause_executor(build_overrides(home=home), executor_id)


@executors.command("resume")
def executors_resume(executor_id: ExecutorId, home: HomeOption = None) -> None:
    """Resume an executor: it sends transactions again.

    Example: `florin executors resume eip155:8453:0x…`
    """
    from florin_server.cli.service import executors as command

    command.resume_executor(build_overrides(home=home), executor_id)


@faults.command("list")
def faults_list(home: HomeOption = None) -> None:
    """List the armed faults of the embedded chains.

    A fault stays armed until it fires, or Florin stops.

    Example: `florin faults list`
    """
    from florin_server.cli.service.sandbox import require_sandbox

    require_sandbox("Not done").list_faults(build_overrides(home=home))


@faults.command("clear")
def faults_clear(
    kind: Annotated[
        str | None,
        typer.Argument(help="answer, mining, revert, lag or landing.  [default: all]"),
    ] = None,
    home: HomeOption = None,
) -> None:
    """Clear all armed faults, or the faults of one kind.

    Example: `florin faults clear revert`
    """
    from florin_server.cli.service.sandbox import require_sandbox

    require_sandbox("Not done").clear_faults(build_overrides(home=home), kind)


@leases.command("list")
def leases_list(home: HomeOption = None) -> None:
    """List leases, their processes and their last renewal.

    Example: `florin leases list`
    """
    from florin_server.cli.service import leases as command

    command.list_leases(build_overrides(home=home))


@leases.command("release")
def leases_release(
    name: Annotated[str, typer.Argument(help="Name of the lease, from `florin leases list`.")],
    yes: YesOption = False,
    home: HomeOption = None,
) -> None:
    """Take a lease away from its process.

    Shows the process and asks. That process then records and sends nothing new under the lease.
    Any process can acquire it next.

    Example: `florin leases release relayer:eip155:8453:0x…`
    """
    from florin_server.cli.service import leases as command

    command.release_lease(build_overrides(home=home), name, yes=yes)


@quarantine.command("list")
def quarantine_list(
    all_: Annotated[
        bool, typer.Option("--all", help="Include retried and resolved items.")
    ] = False,
    home: HomeOption = None,
) -> None:
    """List quarantined items with the failed step and error.

    Example: `florin quarantine list --all`
    """
    from florin_server.cli.service import quarantine as command

    command.list_items(build_overrides(home=home), all_=all_)


@quarantine.command("retry")
def quarantine_retry(
    item_ids: Annotated[list[str] | None, typer.Argument(help=_ITEM_IDS)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Retry all quarantined items.")] = False,
    home: HomeOption = None,
) -> None:
    """Retry items; an item that fails again is quarantined again.

    Example: `florin quarantine retry qitm_1a2b`
    """
    from florin_server.cli.service import quarantine as command

    if bool(item_ids) is all_:
        raise typer.BadParameter("pass item ids, or --all")
    command.retry_items(build_overrides(home=home), item_ids or [], all_=all_)


@quarantine.command("resolve")
def quarantine_resolve(
    item_id: Annotated[str, typer.Argument(help=_ITEM_IDS)],
    note: Annotated[str, typer.Option(help="What you did about it.")],
    home: HomeOption = None,
) -> None:
    """Resolve an item: no retry, no alarm.

    The state of the item itself does not change.

    Example: `florin quarantine resolve qitm_1a2b --note "paid by hand"`
    """
    from florin_server.cli.service import quarantine as command

    command.resolve_item(build_overrides(home=home), item_id, note)
