"""The runways of relayers and treasuries; read at most once a minute."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, Protocol

from florin_server.db.context import StorageContext
from florin_server.domain.ledger import accounts
from florin_server.domain.settlement.runway import SAMPLE_MAX, Runway, compute_runway
from florin_server.features.monitoring.store import runways
from florin_server.money.ledger.store import ledger
from florin_server.rails.chain_state import ChainState
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail


class _Context(ChainContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_REFRESH_US: Final = 60_000_000


async def list_runways(app: _Context) -> dict[str, Runway]:
    """Return the runway of every executor, by its id (CAIP-10)."""
    result: dict[str, Runway] = {}
    for rail in app.rails.values():
        result |= await read_chain_runways(app, rail)
    return result


async def refresh_short_runways(app: _Context) -> None:
    """Read the runways of chains whose keys run out of coin, for the text of their condition."""
    for rail in app.rails.values():
        if app.chains[rail.chain_id].shortages:
            await read_chain_runways(app, rail)


async def read_chain_runways(app: _Context, rail: Rail) -> Mapping[str, Runway]:
    """Return the runways of a chain's executors, by id, at most a minute old."""
    state, steady_us = app.chains[rail.chain_id], app.clock.steady_us()
    if state.runways_read_at_us is not None and (
        steady_us - state.runways_read_at_us < _REFRESH_US
    ):
        return state.runways
    by_account: dict[str, list[str]] = defaultdict(list)
    for sender, account in _list_gas_payers(rail).items():
        by_account[account].append(sender)
    result: dict[str, Runway] = {}
    for account, senders in by_account.items():
        runway = await _read_runway(app, rail, account, senders)
        result |= {f"{rail.chain_id}:{sender}": runway for sender in senders}
    state.runways, state.runways_read_at_us = result, steady_us
    return result


def _list_gas_payers(rail: Rail) -> dict[str, str]:
    """Return by sender the account (CAIP-10) that pays for its transactions."""
    payers = {sender: f"{rail.chain_id}:{sender}" for sender in rail.senders}
    if rail.payouts is not None:
        payers[rail.payouts.sender] = f"{rail.chain_id}:{rail.payouts.gas_payer}"
    return payers


async def _read_runway(app: _Context, rail: Rail, account: str, senders: list[str]) -> Runway:
    paid = [
        transaction
        for sender in senders
        for transaction in await app.store.read(
            runways.list_paid_transactions(rail.chain_id, sender, account, SAMPLE_MAX + 1)
        )
    ]
    coin = rail.native_asset
    balance = _find_balance(app.chains[rail.chain_id], account, coin)
    if balance is None:
        # another process compares the wallets with the chain
        balance = await app.store.scan(ledger.get_balance(accounts.wallet(account), coin))
    return compute_runway(account, coin, balance, paid, app.clock.now_us())


def _find_balance(state: ChainState, account: str, coin: str) -> int | None:
    return next(
        (
            balance.chain_balance
            for balance in state.balances
            if (balance.account, balance.asset) == (account, coin)
        ),
        None,
    )
