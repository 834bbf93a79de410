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

from tests.chaos.chaos_service import EVM, USD, Stage, get_crook_wallet
from tests.chaos.fast_clock import QuickClock
from tests.chaos.intruder import Meddler
from tests.chaos.plan import Mood, Way
from tests.chaos.service_client import POLL_S, ChainRefused
from tests.support.api import ApiCallError
from tests.support.solana import ASSETS
from tests.support.wallet import get_params, get_typed_data

if TYPE_CHECKING:
    from tests.chaos.payment_run import Story, Teller

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
_POLLS_MAX = 600


class Foes:
    """The attackers of one run, which act instead of paying."""

    def __init__(self, stage: Stage, teller: Teller, clock: QuickClock) -> None:
        self._stage = stage
        self._teller = teller
        self._clock = clock
        self._till = teller.till
        self._purses = teller.purses
        self._funders = [Keypair() for _ in range(256)]
        self._meddler = Meddler(stage, teller)
        self._attacks: dict[Mood, Callable[[Story], Awaitable[None]]] = {
            Mood.BURNER: self._confirm_signature,
            Mood.TURNCOAT: self._add_code_later,
            Mood.MOVER: self._move_money,
            Mood.LATE: self._pay_late,
            Mood.DOUBLE: self._pay_twice,
            Mood.CREATOR: self._pay_from_new_account,
            Mood.CLOSER: self._close_account,
            Mood.BLOCKED: self._pay_while_blocked,
            Mood.MEDDLER: self._meddler.meddle,
        }

    async def act(self, story: Story) -> None:
        """Attack; ignore refusals."""
        await self._attacks[story.order.mood](story)

    # ---- accounts that burn gas

    async def _confirm_signature(self, story: Story) -> None:
        """Confirm a signature if one is requested."""
        option = await self._teller.wait_option(story)
        if option is None or option["actions"][0]["type"] == "build":
            # no signatures of such accounts are accepted for the rest of the hour
            return
        actions = option["actions"]
        purse = self._purses.get_purse(story.order)
        outputs = [purse.execute(action) for action in actions]
        await self._confirm(story, option, outputs)

    async def _confirm(self, story: Story, option: dict[str, Any], outputs: list[str]) -> None:
        caller = self._till.caller
        await self._till.call_patiently(
            lambda: caller(story.order.n).confirm(story.payment_id, option["id"], outputs)
        )

    async def _add_code_later(self, story: Story) -> None:
        purse, codes = self._purses.get_purse(story.order), self._purses.codes
        confirming = asyncio.create_task(self._confirm_signature(story))
        await asyncio.sleep(POLL_S)
        async with purse.lock:
            await purse.take_code(self._till.evm, codes.get_burning_code(story.order))
        await confirming

    # ---- money that is not where it was

    async def _move_money(self, story: Story) -> None:
        story.helpers.append(asyncio.create_task(self._keep_moving(story)))
        await self._confirm_signature(story)

    async def _keep_moving(self, story: Story) -> None:
        purse, vault = self._purses.get_purse(story.order), self._purses.vault(story.order)
        pauses = (_MOVED_S[story.order.variant % 2], _MOVED_S[1])
        while not story.status:
            for giver, taker, pause_s in (
                (purse, vault, pauses[0]),
                (vault, purse, pauses[1]),
            ):
                async with giver.lock:
                    await self._transfer_all(giver, taker.address)
                await asyncio.sleep(pause_s)

    async def _transfer_all(self, giver: Any, to: str) -> None:
        token, chain = DEVNET.token.address, self._till.evm
        held = await chain.balance(giver.address, token)
        words = bytes.fromhex(to[2:]).rjust(_WORD, b"\0") + held.to_bytes(_WORD, "big")
        await giver.send_call(
            chain, gas=100_000, to=bytes.fromhex(token[2:]), data=_TRANSFER + words
        )

    # ---- money that comes too late, or twice

    async def _pay_late(self, story: Story) -> None:
        """Postpone the deadline and pay, after the price has expired if the payment has a price."""
        order, till, purse = story.order, self._till, self._purses.get_purse(story.order)
        option = await self._teller.wait_option(story)
        if option is None:
            return
        actions = await self._teller.fetch_actions(story, option)
        async with purse.lock:
            await purse.perform(till.evm, actions[:-1])
            (call,) = get_params(actions[-1])
            data = bytes.fromhex(call["data"][2:])
            end = int.from_bytes(data[_END_AT : _END_AT + _WORD], "big")
            if order.way is Way.COIN and order.variant % 2:
                await self._wait_passed(end)
            postponed = data[:_END_AT] + _FOREVER.to_bytes(_WORD, "big") + data[_END_AT + _WORD :]
            await purse.send_call(
                till.evm,
                gas=300_000,
                to=bytes.fromhex(call["to"][2:]),
                value=int(call.get("value", "0x0"), 16),
                data=postponed,
            )
        await self._wait_returned(story)
        headers = self._teller.headers(order)
        path = f"/v1/payments/{story.payment_id}/cancel"
        await till.call_patiently(lambda: till.api.call("POST", path, headers))

    async def _wait_passed(self, end_s: int) -> None:
        """Return when the service's clock has passed the time; others advance that clock."""
        while True:
            if self._clock.now_us() > end_s * 1_000_000:
                return
            await asyncio.sleep(POLL_S)

    async def _wait_returned(self, story: Story) -> None:
        """Wait a limited time until the money is on its way back."""
        query = f"SELECT 1 FROM payout WHERE payment_id = '{story.payment_id}' AND kind = 'return'"
        for _ in range(_POLLS_MAX):
            if self._stage.select(query):
                return
            await asyncio.sleep(POLL_S)

    async def _pay_twice(self, story: Story) -> None:
        """Pay by signature, submitted by the buyer or a stranger, and by a separate transaction."""
        purse = self._purses.get_purse(story.order)
        option = await self._teller.wait_option(story)
        if option is None:
            return
        outputs = [purse.execute(action) for action in option["actions"]]
        pay = self._build_pay_arguments(
            story, option, purse.address.lower(), bytes.fromhex(outputs[-1][2:])
        )
        match story.order.variant % 3:
            case 0:
                await self._settle(pay)
                paid = await self._pay(purse, pay)
            case 1:
                await self._confirm(story, option, outputs)
                paid = await self._pay(purse, pay)
            case _:
                paid = await self._pay(purse, pay)
                await self._confirm(story, option, outputs)
        if paid:
            await self._wait_returned(story)

    def _build_pay_arguments(
        self, story: Story, option: dict[str, Any], payer: str, signature: bytes
    ) -> PayArguments:
        """Return what is public once one of a route's payments is in a block."""
        ((text,),) = self._stage.select(
            f"SELECT terms FROM payment_option WHERE payment_id = '{story.payment_id}'"
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
        helper = self._purses.helper
        async with helper.lock:
            to = bytes.fromhex(DEVNET.settler[2:])
            await helper.send_call(
                self._till.evm, gas=600_000, to=to, data=settler.encode_settle([pay])
            )

    async def _pay(self, purse: Any, pay: PayArguments) -> bool:
        """Pay once more with a direct transaction; return whether it is in a block."""
        async with purse.lock:
            words = bytes.fromhex(DEVNET.settler[2:]).rjust(_WORD, b"\0")
            words += pay.value.to_bytes(_WORD, "big")
            await purse.send_call(
                self._till.evm,
                gas=100_000,
                to=bytes.fromhex(pay.token[2:]),
                data=bytes.fromhex("095ea7b3") + words,
            )
            to = bytes.fromhex(DEVNET.settler[2:])
            call = settler.encode_pay(pay)
            paid: bool = await purse.send_call(self._till.evm, gas=400_000, to=to, data=call)
        return paid

    # ---- money of those who are not served

    async def _pay_while_blocked(self, story: Story) -> None:
        """Fetch the call, get onto a blocklist, and send it; the operator resolves the money."""
        order, till, purse = story.order, self._till, self._purses.get_purse(story.order)
        option = await self._teller.wait_option(story)
        if option is None:
            return
        (action,) = await self._teller.fetch_actions(story, option)
        screened = screening_pb2.ImportScreeningListRequest(
            name=f"storm-{order.n}", digest=f"{order.n:064x}", last=True, addresses=[purse.address]
        )
        await till.call_operator("ImportScreeningList", screened)
        (call,) = get_params(action)
        async with purse.lock:
            await purse.send_call(
                till.evm,
                gas=300_000,
                to=bytes.fromhex(call["to"][2:]),
                value=int(call["value"], 16),
                data=call["data"],
            )
        query = f"SELECT id FROM held_money WHERE payment_id = '{story.payment_id}'"
        for _ in range(_POLLS_MAX):
            if results := self._stage.select(query):
                await self._resolve_held(results[0][0], _VERDICTS[order.variant % len(_VERDICTS)])
                return
            await asyncio.sleep(POLL_S)

    async def _resolve_held(self, held_id: str, verdict: Any) -> None:
        request = held_pb2.ResolveHeldPaymentRequest(
            held_id=held_id, verdict=verdict, note="in a storm", even_if_blocked=True
        )
        await self._till.call_operator("ResolveHeldPayment", request)

    # ---- what relayers pay for others

    async def _pay_from_new_account(self, story: Story) -> None:
        """Have the account created with the payment; each payment has a new account."""
        option = await self._teller.wait_option(story)
        if option is None or option["actions"][0]["type"] == "build":
            return
        smart = self._purses.get_purse(story.order).smart
        output = smart.wrap(get_typed_data(option["actions"][-1]))
        await self._confirm(story, option, [output])

    async def _register_reserved_accounts(self, story: Story) -> None:
        """Try to be paid at the relayer's or the operator's account, which returns would feed."""
        till, (evm, solana) = self._till, self._stage.treasuries()
        own = [(USD, f"{EVM}:{text}") for text in (evm, *self._stage.relayers(), DEVNET.settler)]
        own += [
            (ASSETS[1], f"{SOLANA_DEVNET.chain_id}:{text}")
            for text in (solana, self._stage.solana_relayer)
        ]
        headers = self._teller.headers(story.order)
        path = f"/v1/merchants/{headers['Merchant-Id']}/settlements/crypto"
        for asset, destination in own:
            body = {"settlements": [{"asset": asset, "destination": destination}]}
            try:
                keyed = {**headers, "Idempotency-Key": f"{story.order.n} {destination}"}
                await till.call_patiently(partial(till.api.call, "POST", path, keyed, body))
            except ApiCallError as refusal:
                if refusal.issues:
                    continue
                till.bad.append(f"{destination} is refused for nothing: {refusal}")
            till.bad.append(f"a merchant is paid at {destination}")

    async def _close_account(self, story: Story) -> None:
        """Act as the merchant too: have the relayer open an account, and close it afterwards."""
        till, order, node = self._till, story.order, self._till.solana
        owner = get_crook_wallet(order.n % 3)
        token = SOLANA_DEVNET.tokens[0]
        place = str(
            spl.derive_associated_address(
                owner.pubkey(), spl.parse_pubkey(token.address), spl.parse_pubkey(token.program)
            )
        )
        await self._register_reserved_accounts(story)
        option = await self._teller.wait_option(story, patience=20)
        if option is None:
            await till.call_patiently(lambda: till.caller(order.n).cancel(story.payment_id))
            return
        actions = await self._teller.fetch_actions(story, option)
        outputs = [self._purses.get_purse(order).execute(action) for action in actions]
        await self._confirm(story, option, outputs)
        for _ in range(_POLLS_MAX):
            state = await till.call_patiently(lambda: till.caller(order.n).status(story.payment_id))
            if state["isFinal"]:
                break
            await asyncio.sleep(POLL_S)
        if (await node.ask("getAccountInfo", place))["value"] is not None:
            try:
                await node.close_out(owner, place, self._funders[order.n % 256])
            except ChainRefused:
                # another of its payments arrived or left meanwhile
                return
