"""One signing key on one chain: who may sign with it now, and with which nonce."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Operation
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.domain.settlement.lease import LEASE_S
from florin_server.money.settlement.store.chain_txs import LostLease
from florin_server.money.settlement.worker.key_nonces import get_next_nonce
from florin_server.operations.store import leases
from florin_server.rails.protocol import Rail

_TTL_US = LEASE_S * 1_000_000
_LEASE_RETRY_US = 1_000_000


class SigningKey:
    """A key that one process uses at a time; the others wait for its lease.

    `wake` requests a turn of its owner at once. While the key is paused, nothing is signed with it
    or broadcast; its open transactions are followed.
    """

    def __init__(
        self,
        app: StorageContext,
        rail: Rail,
        address: str,
        owner: str,
        *,
        wake: Callable[[], None],
        is_paused: bool = False,
    ) -> None:
        self._app = app
        self._rail = rail
        self._owner = owner
        self._may_take_over = app.store.is_exclusive
        self._lease_at_us = 0  # when to check the lease again
        self.address = address
        self.lease_name = leases.format_name(rail.chain_id, address)
        self.epoch = 0  # of the lease; another number each time that another process had it
        self.next_nonce = 0
        self.wake = wake
        self.is_paused = is_paused
        self.is_resumed = False  # and nothing was broadcast again since

    @property
    def account(self) -> str:
        """Return the CAIP-10 account of the key."""
        return f"{self._rail.chain_id}:{self.address}"

    # -- the operator's pauses

    def pause(self) -> None:
        """Start nothing new from now on; what was sent is followed to its end."""
        self.is_paused = True

    def resume(self) -> None:
        """Resume what was left."""
        self.is_paused = False
        self.is_resumed = True
        self.wake()

    # -- the lease

    @property
    def has_lease(self) -> bool:
        """Return True while this process has the lease."""
        return self.epoch > 0

    async def renew_lease(self) -> bool:
        """Renew the lease if that is due; return False if another process has it now."""
        steady_us, now_us = self._app.clock.steady_us(), self._app.clock.now_us()
        if not self.epoch or steady_us < self._lease_at_us:
            return True
        if not await self._app.store.write(
            leases.renew(self.lease_name, self._owner, self.epoch, now_us, _TTL_US)
        ):
            self.epoch = 0
            return False
        self._lease_at_us = steady_us + _TTL_US // 3
        return True

    async def acquire_lease(self) -> None:
        """Acquire the lease if this process lacks it, and it is time to try.

        A process that owns its store takes over from its dead predecessor at once, but never from a
        process that took the lease while it ran.
        """
        steady_us, now_us = self._app.clock.steady_us(), self._app.clock.now_us()
        if self.epoch or steady_us < self._lease_at_us:
            return
        acquisition = asyncio.ensure_future(
            self._app.store.write(
                leases.acquire(
                    self.lease_name, self._owner, now_us, _TTL_US, steal=self._may_take_over
                )
            )
        )
        try:
            taken = await asyncio.shield(acquisition)
        except asyncio.CancelledError:
            # the store completes it all the same: without the epoch nothing would release it
            self.epoch = await acquisition or 0
            raise
        self.epoch, self._may_take_over = taken or 0, False
        self._lease_at_us = steady_us + (_TTL_US // 3 if self.epoch else _LEASE_RETRY_US)

    async def release_lease(self) -> None:
        """Release the lease at once; this process signs nothing any more."""
        epoch, self.epoch = self.epoch, 0
        if epoch:
            await self._app.store.write(leases.release(self.lease_name, self._owner, epoch))

    async def commit(self, op: Operation[None]) -> None:
        """Run an operation that requires the lease.

        LostLease leaves nothing written, and the lease must be acquired again, which is due at
        once.
        """
        try:
            await self._app.store.write(op)
        except LostLease:
            self.epoch = self._lease_at_us = 0
            raise

    # -- the nonces

    async def load_nonce(self, open_txs: Iterable[ChainTx]) -> None:
        """Find the next nonce, given the open transactions of the key."""
        self.next_nonce = await get_next_nonce(self._app, self._rail, self.address, open_txs)

    def use_nonce(self, nonce: int) -> None:
        """Remember that a nonce is used by a stored transaction."""
        self.next_nonce = max(self.next_nonce, nonce + 1)

    async def follow_chain_nonce(self) -> None:
        """Continue after the nonces that the chain has, where it counts them."""
        nonces = self._rail.account_nonces
        if nonces is not None:
            self.next_nonce = max(self.next_nonce, await nonces.get_next_nonce(self.address))
