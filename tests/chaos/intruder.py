"""Strangers who crowd the payments of others.

They know the payments' IDs and the public data of their buyers. The documented API lets a wallet
that knows a payment cancel it, or end it with results of the wrong kind. It also believes for a
while that a buyer sent a transaction of another sender. The strangers do none of that.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import aiohttp
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.evm import settler
from florin_server.rails.evm.settler import PayArguments

from tests.chaos.chaos_service import ChaosEnvironment
from tests.chaos.service_client import POLL_S
from tests.support.api import ApiCallError

if TYPE_CHECKING:
    from tests.chaos.payment_run import PaymentRun, PaymentRunner

# payments that one intruder crowds, and its actions on each
_TARGETS, _CALLS, _STREAMS, _EVENTS = 4, 30, 25, 30
_ACCOUNTS = 12
_HELD_S = 0.5
_FAKE_HASH = "0x" + "66" * 32
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


class Intruder:
    """All strangers of one run."""

    def __init__(self, environment: ChaosEnvironment, runner: PaymentRunner) -> None:
        self._environment = environment
        self._runner = runner
        self._service_client = runner.service_client

    async def interfere(self, payment_run: PaymentRun) -> None:
        """Crowd several payments at once."""
        rng = random.Random(f"intruder {payment_run.order.n}")
        payment_runs = self._runner.harmless_runs
        targets = rng.sample(payment_runs, min(_TARGETS, len(payment_runs)))
        await asyncio.gather(
            *(self._request_options(rng, payment_run, target) for target in targets),
            *(self._open_streams(payment_run, target) for target in targets),
            *(self._confirm(payment_run, target) for target in targets),
            self._emit_copied_events(payment_run),
        )

    def _caller(self, payment_run: PaymentRun, client: object) -> Any:
        return self._service_client.caller(payment_run.order.n, f"client {client}")

    async def _request_options(
        self, rng: random.Random, payment_run: PaymentRun, target: PaymentRun
    ) -> None:
        """Request options for many accounts, each time as another client."""
        rich = [wallet.account for wallet in self._runner.wallets.evm.values()]
        for n in range(_CALLS):
            accounts = rng.sample(rich, min(_ACCOUNTS, len(rich)))
            try:
                await self._caller(payment_run, n).options(target.payment_id, accounts)
            except (ApiCallError, *_LOST):
                await asyncio.sleep(POLL_S)

    async def _open_streams(self, payment_run: PaymentRun, target: PaymentRun) -> None:
        """Open streams, each from a separate device."""

        async def hold(n: int) -> None:
            try:
                async with asyncio.timeout(_HELD_S):
                    async for _ in self._caller(payment_run, n).watch(target.payment_id):
                        pass
            except (ApiCallError, *_LOST):
                return

        await asyncio.gather(*(hold(n) for n in range(_STREAMS)))

    async def _confirm(self, payment_run: PaymentRun, target: PaymentRun) -> None:
        """Confirm outputs that the buyer did not sign or send."""
        option_id, outputs = target.fetched[0], self._find_invalid_outputs(payment_run, target)
        for n in range(_CALLS if outputs else 0):
            try:
                await self._caller(payment_run, n).confirm(target.payment_id, option_id, outputs)
            except (ApiCallError, *_LOST):
                await asyncio.sleep(POLL_S)

    def _find_invalid_outputs(self, payment_run: PaymentRun, target: PaymentRun) -> list[str]:
        """Return invalid outputs of the right kind, or none if there are none."""
        if target.order.way.is_on_solana:
            return next(
                (
                    other.outputs
                    for other in self._runner.harmless_runs
                    if other.outputs and other is not target and other.order.way is target.order.way
                ),
                [],
            )
        signature = self._runner.wallets.get_wallet(payment_run.order).sign_arbitrary()
        by_method = {"eth_sendTransaction": _FAKE_HASH, "eth_signTypedData_v4": signature}
        return [by_method[method] for method in target.fetched[1]]

    async def _emit_copied_events(self, payment_run: PaymentRun) -> None:
        """Emit settlement events with others' references, for worthless money."""
        results = self._environment.select(
            "SELECT o.terms, o.payer FROM payment_option o JOIN payment p ON p.id = o.payment_id"
            " WHERE o.chain_id LIKE 'eip155:%' AND p.status IN ('requires_action', 'processing')"
            f" LIMIT {_EVENTS}"
        )
        own = self._runner.wallets.get_wallet(payment_run.order)
        pays = [self._copy_payment(json.loads(text), payer) for text, payer in results]
        if pays:
            async with own.lock:
                await own.send_call(
                    self._service_client.evm,
                    gas=200_000 * len(pays) + 100_000,
                    to=bytes.fromhex(DEVNET.settler[2:]),
                    data=settler.encode_settle(pays),
                )

    def _copy_payment(self, terms: dict[str, Any], payer: str) -> PayArguments:
        return PayArguments(
            token=self._runner.wallets.codes.junk,
            payer=payer.rpartition(":")[2].lower(),
            value=int(terms["value"]),
            valid_after=0,
            valid_before=int(terms["valid_before"]),
            dest=terms["dest"],
            fee_to=terms["fee_to"],
            fee=int(terms["fee"]),
            ref=bytes.fromhex(terms["ref"][2:]),
            gas=100_000,
            signature=b"",
        )
