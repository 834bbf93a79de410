"""`florin doctor`: check everything that payments need, and report problems."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from typing import Any

from florin.v1 import condition_pb2, ledger_pb2, system_pb2
from rich.markup import escape

from florin_server.accounts.service.own_accounts import list_misdirected
from florin_server.app import event_sink, stores
from florin_server.app.chains import connected, finality_rules, prices
from florin_server.app.chains.keys import ChainKeyring
from florin_server.app.home import SetupError, StateFolder
from florin_server.app.operator.client import open_operator
from florin_server.app.operator.error import OperatorError
from florin_server.app.sandbox import NOT_INSTALLED, find_sandbox
from florin_server.base.clock import SystemClock
from florin_server.cli.chains.paces import read_paces
from florin_server.cli.console import console, print_json
from florin_server.cli.exits import ExitStatus
from florin_server.cli.payments import ledger as books
from florin_server.cli.service import exposure
from florin_server.cli.service.exposure import DoctorFinding
from florin_server.cli.settings import get_settings
from florin_server.compliance.screening.service.check import (
    describe_lists_problem,
    get_lists_condition,
)
from florin_server.db.engine.query import StoreError
from florin_server.db.engine.store import Store
from florin_server.db.engine.where import DatabaseConfig
from florin_server.domain.cipher import Cipher
from florin_server.domain.conditions import EXPECTED_CONDITIONS, ConditionName
from florin_server.features.monitoring.service.health import check_nodes
from florin_server.features.receipts.service.keys import describe_signing_problem
from florin_server.money.payouts.service.held_money import describe as held_problems
from florin_server.money.payouts.store import held_money, payouts
from florin_server.operations.service.quarantine import describe_by_chain
from florin_server.operations.store import quarantine as stored
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings

# the owner of conditions that belong to no chain
_INSTALLATION_TITLE = "installation"
_STORE_UNREACHABLE = ConditionName.STORE_UNREACHABLE


def run_doctor(overrides: dict[str, Any]) -> None:
    """Print one line per check; exit with 1 if a check found a problem."""
    raise SystemExit(int(asyncio.run(_run_checks(get_settings(overrides)))))


async def _run_checks(settings: Settings) -> ExitStatus:
    checks = []
    async for subject, problem in _list_findings(settings):
        checks.append({"check": subject, "problem": problem or None})
        mark = "[red]✗[/]" if problem else "[green]✓[/]"
        console.print(mark, escape(f"{subject}: {problem}" if problem else subject), markup=True)
    # not a fault: merchants can still set prices in the asset itself
    notes = [*exposure.list_notes(settings), *prices.list_all_unpriced(settings)]
    notes += finality_rules.list_missing(settings.chains)
    notes += finality_rules.list_larger_amounts(settings.chains)
    # not a fault: the sandbox enables currencies without a rate, and refuses payments in them
    notes += [
        f"{description}; {lacking}"
        for description, lacking in prices.describe_currencies(settings)
        if lacking
    ]
    for note in notes:
        console.print("[yellow]![/]", escape(note), markup=True)
    print_json({"checks": checks, "notes": notes})
    return ExitStatus.REFUSED if any(check["problem"] for check in checks) else ExitStatus.DONE


async def _list_findings(settings: Settings) -> AsyncIterator[DoctorFinding]:
    yield _check_settings_file(settings)
    try:
        home = StateFolder(settings.home).require_existing()
    except SetupError as error:
        yield "state", str(error)
        return
    yield _check_permissions(home, settings)
    yield (
        f"embedded chains and test accounts are {'on' if settings.has_demo else 'off'}",
        NOT_INSTALLED if settings.has_demo and find_sandbox() is None else "",
    )
    for description, _ in prices.describe_currencies(settings):
        yield description, ""
    async for finding in exposure.check_exposure(settings, home):
        yield finding
    async for finding in _check_sessions(settings):
        yield finding
    if settings.event_sink.url:
        problem = event_sink.find_problem(settings) or await event_sink.check_broker(settings)
        yield f"event sink at {settings.event_sink.url} stores events", problem
    for store_finding in await asyncio.to_thread(_check_store_read_only, settings, home):
        yield store_finding
    rest = (
        _check_stopped(settings, home)
        if home.find_addresses() is None
        else _check_service(settings, home)
    )
    async for finding in rest:
        yield finding


async def _check_service(settings: Settings, home: StateFolder) -> AsyncIterator[DoctorFinding]:
    """Yield the findings that the running service reports."""
    try:
        async with open_operator(home, lambda: settings) as service:
            status = await service.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    except (OperatorError, SetupError) as error:
        yield "service", f"it runs, but does not answer: {error}"
        return
    for service_finding in _list_service_findings(status):
        yield service_finding
    # the books are in the store
    if not any(
        condition.reason for condition in status.conditions if condition.name == _STORE_UNREACHABLE
    ):
        async for finding in _check_ledger(settings):
            yield finding
    async for finding in _list_armed_faults(settings):
        yield finding


async def _list_armed_faults(settings: Settings) -> AsyncIterator[DoctorFinding]:
    """Yield the armed faults of test chains."""
    try:
        sandbox = find_sandbox()
        armed = (await sandbox.find_armed_faults(settings) or []) if sandbox else []
    except (RpcError, RailUnavailable) as error:
        yield "test chains", str(error)
        return
    for chain, kind, details in armed:
        yield f"test chain {chain}", f"a fault is armed: {kind} {details}; see `florin faults list`"


async def _check_sessions(settings: Settings) -> AsyncIterator[DoctorFinding]:
    """Check that the database, or the pooler in front of it, keeps sessions apart."""
    try:
        place = stores.get_location(settings)
    except SetupError as error:
        yield "store", str(error)
        return
    if isinstance(place, DatabaseConfig):
        pooled, problem = await stores.check_sessions(place)
        yield f"{place}{' through a pooler' if pooled else ''} keeps sessions apart", problem
        if place.standby_dsn:
            yield await asyncio.to_thread(_check_standby, place)


def _check_standby(database: DatabaseConfig) -> DoctorFinding:
    """Check that the standby answers and has this schema; a running service compares its age."""
    standby = replace(database, dsn=database.standby_dsn)
    subject = f"standby: {standby}"
    try:
        stores.open_reader(standby).close()
    except StoreError as error:
        return subject, str(error) or type(error).__name__
    return subject, ""


def _check_store_read_only(settings: Settings, home: StateFolder) -> list[DoctorFinding]:
    """Return the findings from the store that need no service."""
    return [*_check_receipt_keys(settings, home), *_list_paces(settings)]


def _check_receipt_keys(settings: Settings, home: StateFolder) -> list[DoctorFinding]:
    """Check that the keys that sign receipts can be decrypted; nothing if there is no store."""
    subject = "receipts can be signed"
    try:
        seal = Cipher(home.read_secrets().capture_keys)
        store = stores.open_reader(stores.get_location(settings))
    except (StoreError, SetupError, OSError):
        # another check reports these errors
        return []
    try:
        return [(subject, store.read(describe_signing_problem(seal, SystemClock().now_us())))]
    except StoreError as error:
        return [(subject, str(error))]
    finally:
        store.close()


def _list_paces(settings: Settings) -> list[DoctorFinding]:
    """Return the measured block time of each chain that has one."""
    return [(pace.describe(chain_id), "") for chain_id, pace in read_paces(settings).items()]


def _list_service_findings(status: system_pb2.GetSystemStatusResponse) -> Iterator[DoctorFinding]:
    yield f"service {status.software_version} is running", ""
    for chain in status.chains:
        yield f"{chain.chain_id} at block {chain.head}, relayer {chain.relayer}", ""
        for condition in chain.conditions:
            if condition.name in EXPECTED_CONDITIONS and condition.reason:
                yield f"{chain.chain_id}: {condition.reason}", ""
            elif condition.reason:
                yield _format_lasting(condition, chain.chain_id), condition.reason
        for node in chain.nodes:
            yield _format_node(node.name, node.head, node.latency_ms), node.problem
        has_gas = chain.chain_id.startswith("eip155:")
        yield _format_gas(chain.failed_gas) if has_gas else _format_fees(chain.failed_gas), ""
    for condition in status.conditions:
        if condition.reason:
            yield _format_lasting(condition, _INSTALLATION_TITLE), condition.reason


async def _check_stopped(settings: Settings, home: StateFolder) -> AsyncIterator[DoctorFinding]:
    """Yield the findings for a stopped installation; change nothing."""
    yield "service is not running", ""
    keys: ChainKeyring | None = None
    try:
        keys = ChainKeyring(settings, home.read_secrets())
    except SetupError as error:
        yield "secrets", str(error)
    try:
        async for finding in _check_store(settings, keys):
            yield finding
    except (StoreError, SetupError, OSError) as error:
        yield "store", str(error)
    if keys is not None:
        for chain in _list_named_chains(settings):
            async for finding in check_chain(chain, keys):
                yield finding


async def _check_store(
    settings: Settings, keys: ChainKeyring | None
) -> AsyncIterator[DoctorFinding]:
    """Yield the findings from the store without a service; StoreError if it cannot be read."""
    store = await stores.open_read_only(settings)
    try:
        yield f"store opens: {store.engine}", ""
        for chain_id, problem, count in await store.read(payouts.count_problems()):
            if problem:
                problem_text = f"{count} waiting: {problem}"
                yield _format_condition(ConditionName.PAYOUTS_WAITING, chain_id), problem_text
        for chain_id, problem in held_problems(
            await store.read(held_money.count_unresolved())
        ).items():
            yield _format_condition(ConditionName.PAYMENTS_HELD, chain_id), problem
        for chain_id, problem in describe_by_chain(await store.read(stored.count_open())).items():
            where = chain_id or _INSTALLATION_TITLE
            yield _format_condition(ConditionName.ITEM_SET_ASIDE, where), problem
        if problem := await store.read(describe_lists_problem(settings, SystemClock().now_us())):
            yield _format_condition(get_lists_condition(settings), _INSTALLATION_TITLE), problem
        if keys is not None:
            async for finding in _check_misdirected(settings, keys, store):
                yield finding
    finally:
        await store.close()
    if keys is not None:
        async for finding in _check_ledger(settings):
            yield finding


def _list_named_chains(settings: Settings) -> tuple[EvmChainSettings | SolanaChainSettings, ...]:
    return (*settings.chains, *settings.solana_chains)


async def _check_misdirected(
    settings: Settings, keys: ChainKeyring, store: Store
) -> AsyncIterator[DoctorFinding]:
    """Yield the destinations of merchants that are now accounts of Florin."""
    rails = []
    for chain in _list_named_chains(settings):
        # the check of the chain reports problems with its keys
        with suppress(SetupError):
            rails.append(connected.build_rail(chain, keys))
    try:
        for place, problem in await list_misdirected(rails, store.scan):
            yield _format_condition(ConditionName.DESTINATION_RESERVED, place.chain_id), problem
    finally:
        for rail in rails:
            await rail.close()


async def _check_ledger(settings: Settings) -> AsyncIterator[DoctorFinding]:
    try:
        response = await books.run_check(settings)
    except (OperatorError, SetupError) as error:
        yield "ledger", str(error)
        return
    yield "ledger balances", "; ".join(response.problems)
    for left in response.unread:
        problem = "" if left.resting else left.problem
        yield f"{left.chain_id} was not compared with the ledger", problem
    if any(wallet.HasField("held") for wallet in response.wallets):
        yield "wallets match the ledger", "; ".join(books.list_missing(response))
    for balance in response.wallets:
        if balance.verdict == ledger_pb2.BALANCE_VERDICT_UNBOOKED:
            more = int(balance.held) - int(balance.booked)
            yield (
                f"{balance.account} has {more} minor units of {balance.asset} more than the ledger",
                "",
            )


async def check_chain(
    chain: EvmChainSettings | SolanaChainSettings, keys: ChainKeyring
) -> AsyncIterator[DoctorFinding]:
    """Yield the findings for a chain, read from its nodes, and for each node."""
    try:
        rail = connected.build_rail(chain, keys)
    except SetupError as error:
        yield _format_condition(ConditionName.CHAIN_UNUSABLE, chain.caip2), str(error)
        return
    try:
        problems_by_name = await check_nodes(rail)
        for condition_text in (
            problem
            for name in EXPECTED_CONDITIONS & problems_by_name.keys()
            for problem in problems_by_name[name]
        ):
            yield f"{chain.caip2}: {condition_text}", ""
        wrong = {
            name: problems
            for name, problems in problems_by_name.items()
            if problems and name not in EXPECTED_CONDITIONS
        }
        if not wrong:
            yield f"{chain.caip2} {chain.name}", ""
        for name, problems in wrong.items():
            yield _format_condition(name, chain.caip2), "; ".join(problems)
        for node in rail.nodes.list_states():
            yield _format_node(node.name, node.head, node.latency_ms), node.problem
    finally:
        await rail.close()


def _format_condition(name: str, subject: str) -> str:
    return f"{subject}: {name}"


def _format_lasting(condition: condition_pb2.Condition, subject: str) -> str:
    since = condition.since.ToDatetime(UTC)
    return f"{_format_condition(condition.name, subject)} since {since:%Y-%m-%d %H:%M:%S} UTC"


def _format_node(name: str, head: int, latency_ms: float) -> str:
    return f"node {name} at block {head}, answers in {latency_ms:.0f} ms"


def _format_gas(gas: system_pb2.FailedGas) -> str:
    """Describe the gas that relayers lost in this hour; the chain's conditions judge it."""
    text = (
        f"gas lost on unpaid payments in this hour: {gas.failed} of {gas.failed_max}, spent on"
        f" creating accounts: {gas.opened} of {gas.opened_max}"
    )
    return text + _format_waiting(gas)


def _format_fees(fees: system_pb2.FailedGas) -> str:
    """Describe the fees that relayers of a Solana cluster lost in this hour."""
    lost = f"lamports of fees lost on unpaid payments in this hour: {fees.failed}"
    return f"{lost} of {fees.failed_max}{_format_waiting(fees)}"


def _format_waiting(gas: system_pb2.FailedGas) -> str:
    if not gas.paused_payments and not gas.given_up_payments:
        return ""
    return f"; payments paused: {gas.paused_payments}, given up: {gas.given_up_payments}"


def _check_settings_file(settings: Settings) -> DoctorFinding:
    """Report which florin.toml applies, here and for the running service."""
    active_file, *ignored_files = [str(path.resolve()) for path in settings.list_files()] or [""]
    text = f"settings from {active_file}" if active_file else "settings without a florin.toml"
    if ignored_files:
        text += f"; {ignored_files[0]} is ignored"
    # a Florin of an older release does not report its file
    runs_with = (StateFolder(settings.home).find_addresses() or {}).get("settings", active_file)
    if runs_with == active_file:
        return text, ""
    return text, f"but the running Florin uses {runs_with or 'no florin.toml'}"


def _check_permissions(home: StateFolder, settings: Settings) -> DoctorFinding:
    """Restrict state files that other users can read, and report them."""
    keystores = {
        path
        for chain in _list_named_chains(settings)
        for path in (*chain.relayer_keystores, chain.treasury_keystore)
        if path is not None
    }
    subject = f"state in {home.path}"
    try:
        mended = home.keep_private()
    except SetupError as error:
        return subject, str(error)
    # keystores elsewhere belong to the operator, who alone changes their modes
    exposed = [
        path
        for path in sorted(keystores - set(mended))
        if path.exists() and path.stat().st_mode & 0o077
    ]
    problems = []
    if mended:
        names = ", ".join(path.name for path in mended)
        problems.append(f"other users could read {names}; fixed")
    if exposed:
        names = " ".join(map(str, exposed))
        problems.append(f"other users can read {names}: run `chmod go= {names}`")
    return subject, "; ".join(problems)
