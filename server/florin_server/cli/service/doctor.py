"""`florin doctor`: looks at everything that a payment needs and says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from datetime import UTC
from typing import Any

from florin.v1 import condition_pb2, ledger_pb2, system_pb2
from rich.markup import escape

from florin_server.boot import stores
from florin_server.boot.chains import connected, finality_rules, prices
from florin_server.boot.chains.keys import Keyring
from florin_server.boot.home import Home, Refused
from florin_server.boot.operator.client import operator
from florin_server.boot.operator.error import OperatorError
from florin_server.cli.chains.paces import read_paces
from florin_server.cli.console import console, told
from florin_server.cli.exits import Exit
from florin_server.cli.payments import ledger as books
from florin_server.cli.service import faults, outside
from florin_server.cli.service.outside import Finding
from florin_server.cli.settings import settings_of
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.conditions import USUAL, ConditionName
from florin_server.domain.sealed import Seal
from florin_server.flows.accounts.own_accounts import misdirected
from florin_server.flows.operator.health import of_nodes
from florin_server.flows.payouts.held_money import describe as held_problems
from florin_server.flows.quarantine.quarantine import by_chain
from florin_server.flows.receipts.keys import signing_problem
from florin_server.flows.screening.check import lists_condition, lists_problem
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreError
from florin_server.store.engine.store import Store
from florin_server.store.engine.where import Database
from florin_server.store.payouts import held_money, payouts
from florin_server.store.quarantine import items as stored

# whose a condition is that is no chain's
_INSTALLATION = "installation"
_STORE_UNREACHABLE = ConditionName.STORE_UNREACHABLE


def run(given: dict[str, Any]) -> None:
    """Prints one line a check; exits with 1 if any of them found a problem."""
    raise SystemExit(int(asyncio.run(_run(settings_of(given)))))


async def _run(settings: Settings) -> Exit:
    found = []
    async for subject, problem in _checks(settings):
        found.append({"check": subject, "problem": problem or None})
        mark = "[red]✗[/]" if problem else "[green]✓[/]"
        console.print(mark, escape(f"{subject}: {problem}" if problem else subject), markup=True)
    # no fault: whoever asks for prices in such an asset itself is paid in it
    notes = [*outside.notes(settings), *prices.unpriced_everywhere(settings)]
    notes += finality_rules.list_missing(settings.chains)
    notes += finality_rules.list_larger_amounts(settings.chains)
    # enabled by default without a rate in the sandbox: creations in it are refused with the reason
    notes += [f"{said}; {lacking}" for said, lacking in prices.currencies(settings) if lacking]
    for one in notes:
        console.print("[yellow]![/]", escape(one), markup=True)
    told({"checks": found, "notes": notes})
    return Exit.REFUSED if any(one["problem"] for one in found) else Exit.DONE


async def _checks(settings: Settings) -> AsyncIterator[Finding]:
    yield _file(settings)
    try:
        home = Home(settings.home).require()
    except Refused as error:
        yield "state", str(error)
        return
    yield _private(home, settings)
    yield f"embedded chains and test accounts are {'on' if settings.has_demo else 'off'}", ""
    for said, _ in prices.currencies(settings):
        yield said, ""
    async for finding in outside.findings(settings, home):
        yield finding
    async for finding in _sessions(settings):
        yield finding
    for found in await asyncio.to_thread(_look_aside, settings, home):
        yield found
    rest = _stopped(settings, home) if home.addresses() is None else _served(settings, home)
    async for finding in rest:
        yield finding


async def _served(settings: Settings, home: Home) -> AsyncIterator[Finding]:
    """Yield what the service that runs says of itself."""
    try:
        async with operator(home, lambda: settings) as service:
            status = await service.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
    except (OperatorError, Refused) as error:
        yield "service", f"runs, but does not answer: {error}"
        return
    for found in _running(status):
        yield found
    # the books are in the store
    if not any(one.reason for one in status.conditions if one.name == _STORE_UNREACHABLE):
        async for finding in _books(settings):
            yield finding
    async for finding in _armed_faults(settings):
        yield finding


async def _armed_faults(settings: Settings) -> AsyncIterator[Finding]:
    """Yield the faults that test chains will show."""
    try:
        armed = await faults.armed(settings) or []
    except (RpcError, RailUnavailable) as error:
        yield "test chains", str(error)
        return
    for chain, kind, details in armed:
        yield f"test chain {chain}", f"armed to go wrong: {kind} {details}; see florin faults"


async def _sessions(settings: Settings) -> AsyncIterator[Finding]:
    """Yield whether the database, or the pooler in front of it, keeps sessions apart."""
    try:
        place = stores.where(settings)
    except Refused as error:
        yield "store", str(error)
        return
    if isinstance(place, Database):
        pooled, problem = await stores.check_sessions(place)
        yield f"{place}{' through a pooler' if pooled else ''} keeps sessions apart", problem


def _look_aside(settings: Settings, home: Home) -> list[Finding]:
    """Return what the store says to whoever reads it, whether a service runs or not."""
    return [*_receipts(settings, home), *_paces(settings)]


def _receipts(settings: Settings, home: Home) -> list[Finding]:
    """Whether the keys that sign receipts can be opened, of whatever store can be looked at."""
    subject = "receipts can be signed"
    try:
        seal = Seal(home.read_secrets().capture_keys)
        store = stores.reading(stores.where(settings))
    except (StoreError, Refused, OSError):
        # that is told where they are looked at for their own sake
        return []
    try:
        return [(subject, store.read(signing_problem(seal, SystemClock().now_us())))]
    except StoreError as error:
        return [(subject, str(error))]
    finally:
        store.close()


def _paces(settings: Settings) -> list[Finding]:
    """Return how fast blocks come on each chain where that was measured."""
    return [(pace.describe(chain_id), "") for chain_id, pace in read_paces(settings).items()]


def _running(status: system_pb2.GetSystemStatusResponse) -> Iterator[Finding]:
    yield f"service {status.software_version} is running", ""
    for chain in status.chains:
        yield f"{chain.chain_id} at block {chain.head}, relayer {chain.relayer}", ""
        for one in chain.conditions:
            if one.name in USUAL and one.reason:
                yield f"{chain.chain_id}: {one.reason}", ""
            elif one.reason:
                yield _lasting(one, chain.chain_id), one.reason
        for node in chain.nodes:
            yield _node(node.name, node.head, node.latency_ms), node.problem
        has_gas = chain.chain_id.startswith("eip155:")
        yield _gas(chain.failed_gas) if has_gas else _fees(chain.failed_gas), ""
    for one in status.conditions:
        if one.reason:
            yield _lasting(one, _INSTALLATION), one.reason


async def _stopped(settings: Settings, home: Home) -> AsyncIterator[Finding]:
    """Yield what can be found of an installation that does not run; nothing of it is changed."""
    yield "service is not running", ""
    keys: Keyring | None = None
    try:
        keys = Keyring(settings, home.read_secrets())
    except Refused as error:
        yield "secrets", str(error)
    try:
        async for finding in _stored(settings, keys):
            yield finding
    except (StoreError, Refused, OSError) as error:
        yield "store", str(error)
    if keys is not None:
        for chain in _named(settings):
            async for finding in of_chain(chain, keys):
                yield finding


async def _stored(settings: Settings, keys: Keyring | None) -> AsyncIterator[Finding]:
    """Yield what the store says without a service; StoreError if it cannot be read."""
    store = await stores.look_at(settings)
    try:
        yield f"store opens: {store.engine}", ""
        for chain_id, problem, count in await store.read(payouts.problems()):
            if problem:
                said = f"{count} wait, because {problem}"
                yield _condition(ConditionName.PAYOUTS_WAITING, chain_id), said
        for chain_id, problem in held_problems(await store.read(held_money.counts())).items():
            yield _condition(ConditionName.PAYMENTS_HELD, chain_id), problem
        for chain_id, problem in by_chain(await store.read(stored.counts())).items():
            where = chain_id or _INSTALLATION
            yield _condition(ConditionName.ITEM_SET_ASIDE, where), problem
        if problem := await store.read(lists_problem(settings, SystemClock().now_us())):
            yield _condition(lists_condition(settings), _INSTALLATION), problem
        if keys is not None:
            async for finding in _misdirected(settings, keys, store):
                yield finding
    finally:
        await store.close()
    if keys is not None:
        async for finding in _books(settings):
            yield finding


def _named(settings: Settings) -> tuple[EvmChain | SolanaChain, ...]:
    return (*settings.chains, *settings.solana_chains)


async def _misdirected(settings: Settings, keys: Keyring, store: Store) -> AsyncIterator[Finding]:
    """Places of merchants that are accounts of ours by now."""
    rails = []
    for chain in _named(settings):
        # what is wrong with a chain's keys is told with the chain
        with suppress(Refused):
            rails.append(connected.rail_of(chain, keys))
    try:
        for place, problem in await misdirected(rails, store.survey):
            yield _condition(ConditionName.DESTINATION_RESERVED, place.chain_id), problem
    finally:
        for rail in rails:
            await rail.close()


async def _books(settings: Settings) -> AsyncIterator[Finding]:
    try:
        found = await books.asked(settings)
    except (OperatorError, Refused) as error:
        yield "ledger", str(error)
        return
    yield "ledger balances", "; ".join(found.problems)
    for left in found.unread:
        problem = "" if left.resting else left.problem
        yield f"{left.chain_id} was not compared with the books", problem
    if any(one.HasField("held") for one in found.wallets):
        yield "wallets hold what is booked", "; ".join(books.missing(found))
    for one in found.wallets:
        if one.verdict == ledger_pb2.BALANCE_VERDICT_UNBOOKED:
            more = int(one.held) - int(one.booked)
            yield f"{one.account} holds {more} of {one.asset} more than is booked", ""


async def of_chain(chain: EvmChain | SolanaChain, keys: Keyring) -> AsyncIterator[Finding]:
    """What is wrong with a chain, asked of its nodes, and with each of them."""
    try:
        rail = connected.rail_of(chain, keys)
    except Refused as error:
        yield _condition(ConditionName.CHAIN_UNUSABLE, chain.caip2), str(error)
        return
    try:
        found = await of_nodes(rail)
        for text in (text for name in USUAL & found.keys() for text in found[name]):
            yield f"{chain.caip2}: {text}", ""
        wrong = {name: said for name, said in found.items() if said and name not in USUAL}
        if not wrong:
            yield f"{chain.caip2} {chain.name}", ""
        for name, said in wrong.items():
            yield _condition(name, chain.caip2), "; ".join(said)
        for node in rail.nodes.states():
            yield _node(node.name, node.head, node.latency_ms), node.problem
    finally:
        await rail.close()


def _condition(name: str, whose: str) -> str:
    return f"{whose}: {name}"


def _lasting(one: condition_pb2.Condition, whose: str) -> str:
    since = one.since.ToDatetime(UTC)
    return f"{_condition(one.name, whose)} since {since:%Y-%m-%d %H:%M:%S} UTC"


def _node(name: str, head: int, latency_ms: float) -> str:
    return f"node {name} at block {head}, answers in {latency_ms:.0f} ms"


def _gas(gas: system_pb2.FailedGas) -> str:
    """What relayers lost in this hour; what is wrong with that, the chain's own problem tells."""
    said = (
        f"gas lost on unpaid payments in this hour: {gas.failed} of {gas.failed_max}, spent on"
        f" creating accounts: {gas.opened} of {gas.opened_max}"
    )
    return said + _waiting(gas)


def _fees(fees: system_pb2.FailedGas) -> str:
    """Describe what relayers of a Solana cluster lost in this hour."""
    lost = f"lamports of fees lost on unpaid payments in this hour: {fees.failed}"
    return f"{lost} of {fees.failed_max}{_waiting(fees)}"


def _waiting(gas: system_pb2.FailedGas) -> str:
    if not gas.paused_payments and not gas.given_up_payments:
        return ""
    return f"; payments paused: {gas.paused_payments}, given up: {gas.given_up_payments}"


def _file(settings: Settings) -> Finding:
    """Which florin.toml counts, here and for the service that runs."""
    counts, *others = [str(one.resolve()) for one in settings.files()] or [""]
    said = f"settings from {counts}" if counts else "settings without a florin.toml"
    if others:
        said += f"; {others[0]} does not count"
    # a Florin that was started by an older release does not say
    runs_with = (Home(settings.home).addresses() or {}).get("settings", counts)
    if runs_with == counts:
        return said, ""
    return said, f"but Florin runs with {f'those of {runs_with}' if runs_with else 'none'}"


def _private(home: Home, settings: Settings) -> Finding:
    """Mends what others can read of the state, and tells it."""
    keystores = {
        path
        for chain in _named(settings)
        for path in (*chain.relayer_keystores, chain.treasury_keystore)
        if path is not None
    }
    subject = f"state in {home.path}"
    try:
        mended = home.keep_private()
    except Refused as error:
        return subject, str(error)
    # keystores elsewhere belong to the operator: nobody but him changes their modes
    exposed = [
        path
        for path in sorted(keystores - set(mended))
        if path.exists() and path.stat().st_mode & 0o077
    ]
    problems = []
    if mended:
        names = ", ".join(path.name for path in mended)
        problems.append(f"{names} could be read by others, and cannot now")
    if exposed:
        names = " ".join(map(str, exposed))
        problems.append(f"others can read {names}: chmod go= {names}")
    return subject, "; ".join(problems)
