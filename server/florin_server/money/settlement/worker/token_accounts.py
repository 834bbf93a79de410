"""Opens the accounts in which receivers get tokens, before buyers pay into them.

Each account is claimed together with the transaction that opens it, which is stored like any other.
None is opened twice, and the number per day is limited, because owners can close accounts and keep
the rent.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.destinations import AssetAccount, TokenAccountOpening
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.settlement.store import token_accounts
from florin_server.money.settlement.worker.transaction_queue import TransactionQueue
from florin_server.operations.context import QuarantineContext
from florin_server.rails.protocol import Rail
from florin_server.rails.provisioning import TokenAccounts
from florin_server.rails.types import RailUnavailable, SignedTransaction


class _Context(EventContext, QuarantineContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# other processes may have registered receivers, and a new day allows more
_CHECK_INTERVAL_US = 600 * 1_000_000
# when a failed turn is repeated
_RETRY_US = 10 * 1_000_000


def get_subject(opening: TokenAccountOpening) -> str:
    """Return the subject under which an account to be opened is quarantined."""
    return f"{opening.destination.account}/{opening.destination.asset}"


class TokenAccountKeeper:
    """Opens the requested token accounts on one chain."""

    def __init__(self, app: _Context, rail: Rail) -> None:
        self._app = app
        self._rail = rail
        self._check_at_us = 0
        # accounts were queued since the last check, or may be left in the queue
        self._has_more = False
        app.notifier.subscribe(Topic.RECEIVERS, self._expect_more, rail.chain_id)
        self._is_started = False

    def _expect_more(self) -> None:
        self._has_more = True

    async def run_turn(self, queue: TransactionQueue) -> None:
        """Open what one transaction can, if any account is needed and the daily limit allows it.

        What cannot be done now waits: payments must not depend on it. Unexpected errors are raised,
        and the work is retried soon.
        """
        try:
            await self._run_turn(queue)
        except RailUnavailable as error:
            self._schedule_check()
            _log.warning("%s: opening token accounts waits: %s", self._rail.chain_id, error)
        except Exception:
            self._schedule_check()
            raise

    def _schedule_check(self) -> None:
        """Search again soon for the accounts of this turn, before others register more."""
        self._check_at_us = self._app.clock.steady_us() + _RETRY_US

    async def _run_turn(self, queue: TransactionQueue) -> None:
        provider, now_us = self._rail.token_accounts, self._app.clock.now_us()
        if provider is None or not provider.caps.chain:
            return
        steady_us = self._app.clock.steady_us()
        if not self._has_more and steady_us < self._check_at_us:
            return
        self._has_more = False
        self._check_at_us = steady_us + _CHECK_INTERVAL_US
        await self._request_treasury_accounts()
        store, chain_id = self._app.store, self._rail.chain_id
        quarantine = self._app.quarantine
        # a quarantined account takes no place of others
        count = provider.accounts_per_transaction + quarantine.count(
            QuarantinedItemKind.TOKEN_ACCOUNT, chain_id
        )
        pending_openings = await store.read(
            token_accounts.list_pending(chain_id, provider.caps, count, now_us)
        )
        active_openings = quarantine.filter_active(
            QuarantinedItemKind.TOKEN_ACCOUNT, chain_id, pending_openings, get_subject
        )
        openings = active_openings[: provider.accounts_per_transaction]
        if not openings:
            return
        await quarantine.run_each(
            QuarantinedItemKind.TOKEN_ACCOUNT,
            chain_id,
            openings,
            get_subject,
            "open",
            lambda batch: self._open_missing(queue, provider, batch, now_us),
        )
        # there may be more
        self._has_more = True

    async def _open_missing(
        self,
        queue: TransactionQueue,
        provider: TokenAccounts,
        openings: Sequence[TokenAccountOpening],
        now_us: int,
    ) -> None:
        store = self._app.store
        destinations = [opening.destination for opening in openings]
        missing = await provider.list_missing_accounts(destinations)
        missing_openings = [opening for opening in openings if opening.destination in missing]
        # done: accounts that need nothing, and accounts that others opened since
        finished = [
            opening.destination for opening in openings if opening.destination not in missing
        ]
        await store.write(token_accounts.dequeue(finished))
        if missing_openings:
            await self._open(queue, provider, missing_openings, now_us)

    async def _open(
        self,
        queue: TransactionQueue,
        provider: TokenAccounts,
        openings: Sequence[TokenAccountOpening],
        now_us: int,
    ) -> None:
        destinations = [opening.destination for opening in openings]
        signed_transactions: list[SignedTransaction] = []

        async def sign(nonce: int) -> SignedTransaction:  # noqa: ARG001
            signed_transactions.append(await provider.sign(destinations))
            return signed_transactions[0]

        @operation
        def claim() -> Op[None]:
            # an operation runs at its commit, which is after the signing
            yield from token_accounts.claim(
                openings, provider.caps, signed_transactions[0].hash, now_us
            )

        try:
            await queue.send([], sign, claim)
        except token_accounts.AccountNotOpenable as error:
            _log.info("%s: %s", self._rail.chain_id, error)
        else:
            _log.info("%s: opened %d token accounts", self._rail.chain_id, len(openings))

    async def _request_treasury_accounts(self) -> None:
        """Request the treasury's own accounts: it receives every token."""
        provider = self._rail.token_accounts
        if self._is_started or provider is None or not self._rail.assets:
            return
        for asset in self._rail.assets:
            if provider.is_needed(destination := AssetAccount(asset, self._rail.treasury)):
                opening = TokenAccountOpening(destination, merchant_id=None)
                await self._app.store.write(
                    token_accounts.enqueue(opening, self._app.clock.now_us())
                )
        self._is_started = True
