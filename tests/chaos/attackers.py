"""Buyers who attack: each kind costs the relayers something, or tries to pay in a forbidden way.

They call REST as wallets do; everything else they do on the chains.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from florin.v1 import held_pb2, screening_pb2
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.rails.evm import settler
from florin_server.rails.evm.sending.fees import WALLET_GAS
from florin_server.rails.evm.settler import PayArguments
from solders.keypair import Keypair

from tests.chaos.buyer_wallets import BuyerWallet
from tests.chaos.chaos_service import EVM, USD, ChaosEnvironment, get_attacker_wallet
from tests.chaos.fast_clock import QuickClock
from tests.chaos.intruder import Intruder
from tests.chaos.plan import BuyerBehavior, Way
from tests.chaos.service_client import POLL_S, ChainRefused
from tests.support.api import ApiCallError
from tests.support.solana import ASSETS
from tests.support.wallet import get_params, get_typed_data

if TYPE_CHECKING:
    from tests.chaos.payment_run import PaymentRun, PaymentRunner

# the deadline of a postponed payment
_FOREVER = 2**64
_WORD = 32
# where `pay` has its deadline: after the selector, the offset, and four words
_END_AT = 4 + 5 * _WORD
_TRANSFER = bytes.fromhex("a9059cbb")
# in machine time: how long the money is away, and how long it is back
_MOVED_S = (0.15, 0.3)
_VERDICTS = (
    held_pb2.HELD_PAYMENT_VERDICT_RELEASE,
    held_pb2.HELD_PAYMENT_VERDICT_RETURN,
    held_pb2.HELD_PAYMENT_VERDICT_KEEP,
)
# reads until late money is returned; after that the audit decides
_POLLS_MAX = 2400
_RESEND_EVERY = 10  # reads


class Attackers:
    """The attackers of one run, which act instead of paying."""

    def __init__(
        self, environment: ChaosEnvironment, runner: PaymentRunner, clock: QuickClock
    ) -> None:
        self._environment = environment
        self._runner = runner
        self._clock = clock
        self._service_client = runner.service_client
        self._wallets = runner.wallets
        self._funders = [Keypair() for _ in range(256)]
        self._intruder = Intruder(environment, runner)
        self._attacks: dict[BuyerBehavior, Callable[[PaymentRun], Awaitable[None]]] = {
            BuyerBehavior.BURNER: self._confirm_signature,
            BuyerBehavior.TURNCOAT: self._add_code_later,
            BuyerBehavior.MOVER: self._move_money,
            BuyerBehavior.LATE: self._pay_late,
            BuyerBehavior.DOUBLE: self._pay_twice,
            BuyerBehavior.CREATOR: self._pay_from_new_account,
            BuyerBehavior.CLOSER: self._close_account,
            BuyerBehavior.BLOCKED: self._pay_while_blocked,
            BuyerBehavior.INTRUDER: self._intruder.interfere,
        }

    async def act(self, payment_run: PaymentRun) -> None:
        """Attack; ignore refusals."""
        await self._attacks[payment_run.order.behavior](payment_run)

    # ---- accounts that burn gas

    async def _confirm_signature(self, payment_run: PaymentRun) -> None:
        """Confirm a signature if one is requested."""
        option = await self._runner.wait_option(payment_run)
        if option is None or option["actions"][0]["type"] == "build":
            # no signatures of such accounts are accepted for the rest of the hour
            return
        actions = option["actions"]
        wallet = self._wallets.get_wallet(payment_run.order)
        outputs = [wallet.execute(action) for action in actions]
        await self._confirm(payment_run, option, outputs)

    async def _confirm(
        self, payment_run: PaymentRun, option: dict[str, Any], outputs: list[str]
    ) -> None:
        caller = self._service_client.caller
        await self._service_client.call_patiently(
            lambda: caller(payment_run.order.n).confirm(
                payment_run.payment_id, option["id"], outputs
            )
        )

    async def _add_code_later(self, payment_run: PaymentRun) -> None:
        wallet, codes = self._wallets.get_wallet(payment_run.order), self._wallets.codes
        confirming = asyncio.create_task(self._confirm_signature(payment_run))
        await asyncio.sleep(POLL_S)
        async with wallet.lock:
            await wallet.take_code(
                self._service_client.evm, codes.get_burning_code(payment_run.order)
            )
        await confirming

    # ---- money that is not where it was

    async def _move_money(self, payment_run: PaymentRun) -> None:
        payment_run.helpers.append(asyncio.create_task(self._keep_moving(payment_run)))
        await self._confirm_signature(payment_run)

    async def _keep_moving(self, payment_run: PaymentRun) -> None:
        wallet, vault = (
            self._wallets.get_wallet(payment_run.order),
            self._wallets.vault(payment_run.order),
        )
        pauses = (_MOVED_S[payment_run.order.variant % 2], _MOVED_S[1])
        while not payment_run.status:
            for giver, taker, pause_s in (
                (wallet, vault, pauses[0]),
                (vault, wallet, pauses[1]),
            ):
                async with giver.lock:
                    await self._transfer_all(giver, taker.address)
                await asyncio.sleep(pause_s)

    async def _transfer_all(self, giver: Any, to: str) -> None:
        token, chain = DEVNET.token.address, self._service_client.evm
        held = await chain.balance(giver.address, token)
        words = bytes.fromhex(to[2:]).rjust(_WORD, b"\0") + held.to_bytes(_WORD, "big")
        await giver.send_call(
            chain, gas=100_000, to=bytes.fromhex(token[2:]), data=_TRANSFER + words
        )

    # ---- money that comes too late, or twice

    async def _pay_late(self, payment_run: PaymentRun) -> None:
        """Postpone the deadline and pay, after the price has expired if the payment has a price."""
        order, service_client, wallet = (
            payment_run.order,
            self._service_client,
            self._wallets.get_wallet(payment_run.order),
        )
        option = await self._runner.wait_option(payment_run)
        if option is None:
            return
        actions = await self._runner.fetch_actions(payment_run, option)
        async with wallet.lock:
            await wallet.perform(service_client.evm, actions[:-1])
            (call,) = get_params(actions[-1])
            data = bytes.fromhex(call["data"][2:])
            end = int.from_bytes(data[_END_AT : _END_AT + _WORD], "big")
            if order.way is Way.COIN and order.variant % 2:
                await self._wait_passed(end)
            postponed = data[:_END_AT] + _FOREVER.to_bytes(_WORD, "big") + data[_END_AT + _WORD :]
            has_paid = await wallet.send_call(
                service_client.evm,
                gas=300_000,
                to=bytes.fromhex(call["to"][2:]),
                value=int(call.get("value", "0x0"), 16),
                data=postponed,
            )
        if has_paid:
            await self._wait_returned(payment_run, wallet)
        headers = self._runner.headers(order)
        path = f"/v1/payments/{payment_run.payment_id}/cancel"
        await service_client.call_patiently(lambda: service_client.api.call("POST", path, headers))

    async def _wait_passed(self, end_s: int) -> None:
        """Return when the service's clock has passed the time; others advance that clock."""
        while True:
            if self._clock.now_us() > end_s * 1_000_000:
                return
            await asyncio.sleep(POLL_S)

    async def _wait_returned(self, payment_run: PaymentRun, wallet: BuyerWallet) -> None:
        """Wait a limited time until the money is on its way back."""
        of_payment = f"payment_id = '{payment_run.payment_id}'"
        query = f"SELECT 1 FROM payout WHERE {of_payment} AND kind = 'return'"
        await self._wait_for_row(query, wallet)

    async def _wait_for_row(self, query: str, wallet: BuyerWallet) -> Any:
        """Return a query's first value after a limited time; None if it has none.

        The wallet resends meanwhile what a reorganization removes.
        """
        for turn in range(1, _POLLS_MAX + 1):
            if rows := self._environment.select(query):
                return rows[0][0]
            if turn % _RESEND_EVERY == 0:
                async with wallet.lock:
                    await wallet.resend_newest(self._service_client.evm)
            await asyncio.sleep(POLL_S)
        return None

    async def _pay_twice(self, payment_run: PaymentRun) -> None:
        """Pay by signature, submitted by the buyer or a stranger, and by a separate transaction."""
        wallet = self._wallets.get_wallet(payment_run.order)
        option = await self._runner.wait_option(payment_run)
        if option is None:
            return
        outputs = [wallet.execute(action) for action in option["actions"]]
        pay = self._build_pay_arguments(
            payment_run, option, wallet.address.lower(), bytes.fromhex(outputs[-1][2:])
        )
        match payment_run.order.variant % 3:
            case 0:
                await self._settle(pay)
                paid = await self._pay(wallet, pay)
            case 1:
                await self._confirm(payment_run, option, outputs)
                paid = await self._pay(wallet, pay)
            case _:
                paid = await self._pay(wallet, pay)
                await self._confirm(payment_run, option, outputs)
        if paid:
            await self._wait_returned(payment_run, wallet)

    def _build_pay_arguments(
        self, payment_run: PaymentRun, option: dict[str, Any], payer: str, signature: bytes
    ) -> PayArguments:
        """Return what is public once one of a route's payments is in a block."""
        ((text,),) = self._environment.select(
            f"SELECT terms FROM payment_option WHERE payment_id = '{payment_run.payment_id}'"
            f" AND id = '{option['id']}'"
        )
        terms = json.loads(text)
        return PayArguments(
            token=terms["token"],
            payer=payer,
            value=int(terms["value"]),
            valid_after=0,
            valid_before=int(terms["valid_before"]),
            dest=terms["dest"],
            fee_to=terms["fee_to"],
            fee=int(terms["fee"]),
            ref=bytes.fromhex(terms["ref"][2:]),
            gas=WALLET_GAS,
            signature=signature,
        )

    async def _settle(self, pay: PayArguments) -> None:
        helper = self._wallets.helper
        async with helper.lock:
            to = bytes.fromhex(DEVNET.settler[2:])
            await helper.send_call(
                self._service_client.evm, gas=600_000, to=to, data=settler.encode_settle([pay])
            )

    async def _pay(self, wallet: Any, pay: PayArguments) -> bool:
        """Pay once more with a direct transaction; return whether it is in a block."""
        async with wallet.lock:
            words = bytes.fromhex(DEVNET.settler[2:]).rjust(_WORD, b"\0")
            words += pay.value.to_bytes(_WORD, "big")
            await wallet.send_call(
                self._service_client.evm,
                gas=100_000,
                to=bytes.fromhex(pay.token[2:]),
                data=bytes.fromhex("095ea7b3") + words,
            )
            to = bytes.fromhex(DEVNET.settler[2:])
            call = settler.encode_pay(pay)
            paid: bool = await wallet.send_call(
                self._service_client.evm, gas=400_000, to=to, data=call
            )
        return paid

    # ---- money of those who are not served

    async def _pay_while_blocked(self, payment_run: PaymentRun) -> None:
        """Fetch the call, get onto a blocklist, and send it; the operator resolves the money."""
        order, service_client, wallet = (
            payment_run.order,
            self._service_client,
            self._wallets.get_wallet(payment_run.order),
        )
        option = await self._runner.wait_option(payment_run)
        if option is None:
            return
        (action,) = await self._runner.fetch_actions(payment_run, option)
        screened = screening_pb2.ImportScreeningListRequest(
            name=f"chaos-{order.n}", digest=f"{order.n:064x}", last=True, addresses=[wallet.address]
        )
        await service_client.call_operator("ImportScreeningList", screened)
        (call,) = get_params(action)
        async with wallet.lock:
            has_paid = await wallet.send_call(
                service_client.evm,
                gas=300_000,
                to=bytes.fromhex(call["to"][2:]),
                value=int(call["value"], 16),
                data=call["data"],
            )
        if not has_paid:
            return
        query = f"SELECT id FROM held_money WHERE payment_id = '{payment_run.payment_id}'"
        if (held_id := await self._wait_for_row(query, wallet)) is not None:
            await self._resolve_held(held_id, _VERDICTS[order.variant % len(_VERDICTS)])

    async def _resolve_held(self, held_id: str, verdict: Any) -> None:
        request = held_pb2.ResolveHeldPaymentRequest(
            held_id=held_id, verdict=verdict, note="chaos run", even_if_blocked=True
        )
        await self._service_client.call_operator("ResolveHeldPayment", request)

    # ---- what relayers pay for others

    async def _pay_from_new_account(self, payment_run: PaymentRun) -> None:
        """Have the account created with the payment; each payment has a new account."""
        option = await self._runner.wait_option(payment_run)
        if option is None or option["actions"][0]["type"] == "build":
            return
        smart = self._wallets.get_wallet(payment_run.order).smart
        output = smart.wrap(get_typed_data(option["actions"][-1]))
        await self._confirm(payment_run, option, [output])

    async def _register_reserved_accounts(self, payment_run: PaymentRun) -> None:
        """Try to be paid at the relayer's or the operator's account, which returns would feed."""
        service_client, (evm, solana) = self._service_client, self._environment.treasuries()
        own = [
            (USD, f"{EVM}:{text}") for text in (evm, *self._environment.relayers(), DEVNET.settler)
        ]
        own += [
            (ASSETS[1], f"{SOLANA_DEVNET.chain_id}:{text}")
            for text in (solana, self._environment.solana_relayer)
        ]
        headers = self._runner.headers(payment_run.order)
        path = f"/v1/merchants/{headers['Merchant-Id']}/settlements/crypto"
        for asset, destination in own:
            body = {"settlements": [{"asset": asset, "destination": destination}]}
            try:
                keyed = {**headers, "Idempotency-Key": f"{payment_run.order.n} {destination}"}
                await service_client.call_patiently(
                    partial(service_client.api.call, "POST", path, keyed, body)
                )
            except ApiCallError as refusal:
                if refusal.issues:
                    continue
                service_client.bad.append(f"{destination} is refused for nothing: {refusal}")
            service_client.bad.append(f"a merchant is paid at {destination}")

    async def _close_account(self, payment_run: PaymentRun) -> None:
        """Act as the merchant too: have the relayer open an account, and close it afterwards."""
        service_client, order, node = (
            self._service_client,
            payment_run.order,
            self._service_client.solana,
        )
        owner = get_attacker_wallet(order.n % 3)
        token = SOLANA_DEVNET.tokens[0]
        place = str(
            spl.derive_associated_address(
                owner.pubkey(), spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
            )
        )
        await self._register_reserved_accounts(payment_run)
        option = await self._runner.wait_option(payment_run, patience=20)
        if option is None:
            await service_client.call_patiently(
                lambda: service_client.caller(order.n).cancel(payment_run.payment_id)
            )
            return
        actions = await self._runner.fetch_actions(payment_run, option)
        outputs = [self._wallets.get_wallet(order).execute(action) for action in actions]
        await self._confirm(payment_run, option, outputs)
        for _ in range(_POLLS_MAX):
            state = await service_client.call_patiently(
                lambda: service_client.caller(order.n).status(payment_run.payment_id)
            )
            if state["isFinal"]:
                break
            await asyncio.sleep(POLL_S)
        if (await node.ask("getAccountInfo", place))["value"] is not None:
            try:
                await node.close_out(owner, place, self._funders[order.n % 256])
            except ChainRefused:
                # another of its payments arrived or left meanwhile
                return
