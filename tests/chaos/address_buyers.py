"""Buyers who only send money to an address of their payment, not always the right amount.

Some of their transactions disappear with a reorganization and are sent again, others stay lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from eth_abi import encode
from florin.v1 import screening_pb2
from florin_server.domain.chains.evm import abi

from tests.chaos.buyer_wallets import BuyerWallet
from tests.chaos.chaos_service import ETHER, EUR, USD
from tests.chaos.order_assets import TOKENS, WORTH, get_asset
from tests.chaos.plan import BuyerBehavior
from tests.chaos.service_client import POLL_S, ChainRefused
from tests.support.api import ApiCallError

if TYPE_CHECKING:
    from tests.chaos.payment_run import PaymentRun, PaymentRunner

_TRANSFER = abi.encode_selector("transfer(address,uint256)")
_AGGREGATE = abi.encode_selector("aggregate3((address,bool,bytes)[])")
# refusals that pass: a price of gas that is too high, and a busy chain
_PASSING = {"too_small"}
_PARTS = (3, 4, 5, 7)  # the first part is one of so many


class AddressBuyers:
    """The buyers of one run that send to addresses."""

    def __init__(self, runner: PaymentRunner) -> None:
        self._runner = runner
        self._service_client = runner.service_client
        self._wallets = runner.wallets
        self._ways: dict[BuyerBehavior, Callable[[PaymentRun, str, int], Awaitable[None]]] = {
            BuyerBehavior.HONEST: self._send_exactly,
            BuyerBehavior.PARTS: self._send_parts,
            BuyerBehavior.SHORT: self._send_too_little,
            BuyerBehavior.OVER: self._send_too_much,
            BuyerBehavior.AGAIN: self._send_twice,
            BuyerBehavior.TARDY: self._send_later,
            BuyerBehavior.OTHER_ASSET: self._send_other_asset,
            BuyerBehavior.CONTRACT: self._send_by_contract,
            BuyerBehavior.SUSPECT: self._send_while_blocked,
            BuyerBehavior.GONE: self._send_nothing,
        }

    async def act(self, payment_run: PaymentRun) -> None:
        """Request an address and send to it as the order's buyer does."""
        opened = await self._open(payment_run)
        if opened is None:
            return
        await asyncio.sleep(payment_run.order.thinks_s)
        address, value = opened["address"].lower(), int(opened["amount"]["value"])
        await self._ways[payment_run.order.behavior](payment_run, address, value)

    async def _open(self, payment_run: PaymentRun) -> dict[str, Any] | None:
        """Return the payment's address; None if the payment is over."""
        order, service_client = payment_run.order, self._service_client
        caller = service_client.caller(order.n)
        path = f"/v1/gateway/payment/{payment_run.payment_id}/addresses"
        body: dict[str, Any] = {"assets": [get_asset(order)]}
        if self._wallets.names_account(order):
            body["refundAccount"] = self._wallets.vault(order).account
        while True:
            try:
                answer = await service_client.call_patiently(
                    lambda: service_client.caller(order.n).call("POST", path, caller.wallet, body)
                )
            except ApiCallError as refusal:
                if refusal.http == 410:
                    return None
                if refusal.details.get("reason") not in _PASSING:
                    raise
                await asyncio.sleep(POLL_S)
                continue
            (opened,) = answer["addresses"]
            return opened

    # ---- the behaviors

    async def _send_exactly(self, payment_run: PaymentRun, address: str, value: int) -> None:
        await self._send(payment_run, address, value)

    async def _send_parts(self, payment_run: PaymentRun, address: str, value: int) -> None:
        order = payment_run.order
        first = value // _PARTS[order.n % len(_PARTS)]
        other = self._wallets.vault(order) if order.variant >= 3 else None
        parts = ((first, None), (first, other), (value - 2 * first, None))
        for part, sender in parts:
            await self._send(payment_run, address, part, sender=sender)

    async def _send_too_little(self, payment_run: PaymentRun, address: str, value: int) -> None:
        first = value // _PARTS[payment_run.order.n % len(_PARTS)]
        await self._send(payment_run, address, first)
        await self._send(payment_run, address, value - first - 1)

    async def _send_too_much(self, payment_run: PaymentRun, address: str, value: int) -> None:
        more = WORTH[get_asset(payment_run.order)] if payment_run.order.n % 3 else 1
        await self._send(payment_run, address, value + more)

    async def _send_twice(self, payment_run: PaymentRun, address: str, value: int) -> None:
        await self._send(payment_run, address, value)
        # coin that comes later than the forwarding is refused by the closed address
        await self._send(payment_run, address, value)

    async def _send_later(self, payment_run: PaymentRun, address: str, value: int) -> None:
        async def wait() -> None:
            await self._service_client.wait_final(payment_run.payment_id, payment_run.order.n)
            await self._send(payment_run, address, value)

        payment_run.helpers.append(asyncio.create_task(wait()))

    async def _send_other_asset(self, payment_run: PaymentRun, address: str, value: int) -> None:
        del value
        other = EUR if get_asset(payment_run.order) == USD else USD
        await self._send(payment_run, address, WORTH[other], asset=other)

    async def _send_by_contract(self, payment_run: PaymentRun, address: str, value: int) -> None:
        asset, wallet = get_asset(payment_run.order), self._wallets.get_wallet(payment_run.order)
        value += WORTH[asset] if payment_run.order.n % 3 else 0
        if asset == ETHER:
            call = {
                "to": bytes.fromhex(self._wallets.codes.coin_sender[2:]),
                "data": encode(["address"], [address]),
                "value": value,
            }
        else:
            token = TOKENS[asset]
            batch = [(token, False, _encode_transfer(address, value))]
            call = {
                "to": bytes.fromhex(self._wallets.codes.batch_sender[2:]),
                "data": _AGGREGATE + encode(["(address,bool,bytes)[]"], [batch]),
            }
        await self._transact(payment_run, wallet, gas=400_000, **call)

    async def _send_while_blocked(self, payment_run: PaymentRun, address: str, value: int) -> None:
        """Send from a blocked account, and sometimes the whole price from another one."""
        order = payment_run.order
        wallet = self._wallets.get_wallet(order)
        screened = screening_pb2.ImportScreeningListRequest(
            name=f"chaos-{order.n}", digest=f"{order.n:064x}", last=True, addresses=[wallet.address]
        )
        await self._service_client.call_operator("ImportScreeningList", screened)
        await self._send(payment_run, address, value // 2 if order.has_second_payer else value)
        if order.has_second_payer:
            await self._send(payment_run, address, value, sender=self._wallets.vault(order))

    async def _send_nothing(self, payment_run: PaymentRun, address: str, value: int) -> None:
        del payment_run, address, value

    # ---- transactions

    async def _send(
        self,
        payment_run: PaymentRun,
        address: str,
        value: int,
        *,
        asset: str = "",
        sender: BuyerWallet | None = None,
    ) -> None:
        """Send an amount, of the order's asset unless another is named."""
        asset = asset or get_asset(payment_run.order)
        wallet = sender or self._wallets.get_wallet(payment_run.order)
        if asset == ETHER:
            call = {"to": bytes.fromhex(address[2:]), "value": value, "data": b""}
        else:
            to = bytes.fromhex(TOKENS[asset][2:])
            call = {"to": to, "data": _encode_transfer(address, value)}
        await self._transact(payment_run, wallet, gas=120_000, **call)

    async def _transact(self, payment_run: PaymentRun, wallet: BuyerWallet, **call: Any) -> None:
        """Send a transaction, and remember it: the wallet sends it again if it gets lost."""
        async with wallet.lock:
            try:
                receipt = await wallet.transact(self._service_client.evm, **call)
            except ChainRefused as refusal:
                payment_run.refused = str(refusal)
                return
        payment_run.transfers.append((wallet, receipt["transactionHash"]))


def _encode_transfer(address: str, value: int) -> bytes:
    return _TRANSFER + encode(["address", "uint256"], [address, value])
