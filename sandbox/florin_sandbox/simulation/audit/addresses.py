"""Audit the money at payments' addresses: what came is forwarded, returned, held or still there.

The shares of senders follow from the chain alone: a payment takes what came first from senders that
are not blocked, and what then goes home belongs to those whose money is left.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from typing import Any, Final

from florin_server.domain.ledger import accounts

from florin_sandbox.simulation.audit.blocks import AuditedEvmChain, Movement, MovementKind
from florin_sandbox.simulation.audit.facts import SelectRows, StoredFacts, StrayMoney
from florin_sandbox.simulation.audit.target import ETHER, EUR, EVM, USD, AuditTarget

_ASSETS: Final = (USD, EUR, ETHER)
_SELECT_ADDRESSES = "SELECT address FROM deposit_address"
_SELECT_ACCOUNTS = "SELECT address, refund_account FROM deposit_address"
_SELECT_DEPOSITS = """
    SELECT address, asset, block_number, tx_hash, sender, value, is_final, position FROM deposit
"""
_SELECT_FACILITATIONS = "SELECT payment_id, payer, pay_to, value, content, state FROM facilitation"
# money with these states was not returned
_HELD: Final = {"held", "kept"}
_Place = tuple[str, str]  # an address and an asset


def list_addresses(select: SelectRows) -> frozenset[str]:
    """Return the addresses of all payments, bare and lower-case."""
    return frozenset(address for (address,) in select(_SELECT_ADDRESSES))


def sum_went_home(chain: AuditedEvmChain, asset: str, account: str) -> int:
    """Return how much of an asset went from payments' addresses to an account."""
    return sum(
        movement.value
        for movement in chain.movements
        if movement.kind is MovementKind.WENT_HOME
        and (movement.asset, movement.account) == (asset, account.lower())
    )


class AddressAudit:
    """The checks of one run; `sums` has the amounts of each asset, by where they are.

    `blocked` senders (bare, lower-case) were blocked before they sent anything.
    """

    def __init__(
        self,
        target: AuditTarget,
        facts: StoredFacts,
        chain: AuditedEvmChain,
        blocked: Collection[str] = (),
    ) -> None:
        self.problems: list[str] = []
        self.sums: dict[str, dict[str, int]] = {}
        self._target = target
        self._facts = facts
        self._chain = chain
        self._blocked = {f"{EVM}:{sender}" for sender in blocked}
        self._moved: dict[MovementKind, Counter[_Place]] = defaultdict(Counter)
        for movement in chain.movements:
            self._moved[movement.kind][movement.address, movement.asset] += movement.value
        self._returned = Counter(
            {
                held_id: refund.value
                for held_id, refund in facts.stray_returns
                if refund.status == "done"
            }
        )

    def _expect(self, subject: str, actual: Any, expected: Any) -> None:
        if actual != expected:
            self.problems.append(f"{subject}: {actual} instead of {expected}")

    async def check(self, get_balance: Callable[[str, str], int]) -> None:
        """Check everything; `get_balance` reads the ledger."""
        await self._check_conservation()
        self._check_shares()
        self._check_returns()
        self._check_ledger(get_balance)
        self._check_deposits()
        self._check_signatures()

    async def _check_conservation(self) -> None:
        """Check each address, and the sums of each asset with what the store has."""
        arrived, forwarded, home = (
            self._moved[kind]
            for kind in (MovementKind.ARRIVED, MovementKind.FORWARDED, MovementKind.WENT_HOME)
        )
        for asset in _ASSETS:
            arrived_sum = remaining = 0
            for address in self._chain.addresses:
                place = address, asset
                balance = await self._target.read_balance(address, asset)
                left = forwarded[place] + home[place] + balance
                if asset == ETHER:
                    # contracts sent the rest
                    if left < arrived[place]:
                        self.problems.append(f"{address} lost {arrived[place] - left} of {asset}")
                    arrived_sum += left
                else:
                    self._expect(f"{asset} that {address} moved and has", left, arrived[place])
                    arrived_sum += arrived[place]
                remaining += balance
            fees = sum(
                event["fee"]
                for events in self._chain.payment_events.values()
                for event in events
                if event["payer"] in self._chain.addresses
                and self._get_asset(event["token"]) == asset
            )
            paid = sum(value for (_, paid_in), value in forwarded.items() if paid_in == asset)
            strays = [stray for stray in self._facts.strays if stray.asset == asset]
            self.sums[asset] = sums = {
                "given": arrived_sum,
                "merchant": paid - fees,
                "fee": fees,
                "returned": sum(self._returned[stray.id] for stray in strays),
                "held": sum(stray.value for stray in strays if stray.state in _HELD),
                "at addresses": remaining,
            }
            self._expect(
                f"{asset} given to addresses, which is in {sums},",
                sum(sums.values()) - arrived_sum,
                arrived_sum,
            )

    @staticmethod
    def _get_asset(token: str) -> str:
        return next((asset for asset in (USD, EUR) if asset.lower().endswith(token)), ETHER)

    # ---- who gets what back

    def _check_shares(self) -> None:
        """Check that each transfer home is stored once, by the shares of its senders."""
        named: dict[str, str | None] = dict(self._target.store.select(_SELECT_ACCOUNTS))
        stored: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        for stray in self._facts.strays:
            stored[stray.tx_hash, stray.address, stray.asset][stray.payer] += stray.value
        expected = self._attribute()
        for key in stored.keys() | expected.keys():
            _, address, asset = key
            by_sender, account = expected.get(key, Counter()), named.get(address)
            if account is not None and account.startswith(f"{EVM}:"):
                by_sender = Counter[str]()
                for payer, value in expected.get(key, Counter()).items():
                    by_sender[payer if payer in self._blocked else account] += value
            shares = stored[key]
            unknown = f"{EVM}:{address}"
            if asset == ETHER and shares[unknown] == (by_sender - shares).total():
                # a node without old states does not show who sent coin
                by_sender = Counter({**(by_sender & shares), unknown: shares[unknown]})
            self._expect(f"money of {asset} that went home from {address}", +shares, +by_sender)

    def _attribute(self) -> dict[tuple[str, str, str], Counter[str]]:
        """Return the shares of senders (CAIP-10) in each transfer home."""
        shares: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        parts: dict[_Place, list[list[Any]]] = defaultdict(list)
        for movement in self._chain.movements:
            place = movement.address, movement.asset
            if movement.kind is MovementKind.ARRIVED:
                parts[place].append([f"{EVM}:{movement.account}", movement.value])
            elif movement.kind is MovementKind.FORWARDED:
                _take(parts[place], movement, self._blocked)
            else:
                left = movement.value
                key = movement.tx_hash, *place
                for sender, value in reversed(parts[place]):
                    share = min(left, value)
                    left -= share
                    if share:
                        shares[key][sender] += share
                if left:
                    # a contract sent it
                    shares[key][f"{EVM}:{movement.address}"] += left
                parts[place].clear()
        return shares

    def _check_returns(self) -> None:
        """Check that what is to be returned was returned once, and nothing else."""
        for stray in self._facts.strays:
            is_blocked = stray.payer in self._blocked
            self._expect(f"{stray} of a blocked sender", not stray.owed_address, is_blocked)
        payouts = Counter(held_id for held_id, _ in self._facts.stray_returns)
        by_id = {stray.id: stray for stray in self._facts.strays}
        for stray in by_id.values():
            is_returned = stray.state == "returned"
            self._expect(f"payouts of {stray.id}, {stray.state},", payouts[stray.id], is_returned)
        for held_id, refund in self._facts.stray_returns:
            stray = by_id[held_id]
            what = f"{refund.value} of {refund.asset} to {refund.account} for {held_id}"
            if refund.status != "done":
                self.problems.append(f"the return of {what} is {refund.status}")
            self._expect(f"the return of {what}", (refund.value, refund.asset), _get_money(stray))

    def _check_ledger(self, get_balance: Callable[[str, str], int]) -> None:
        """Check that the books owe exactly what is held of stray money."""
        owed: Counter[_Place] = Counter()
        for stray in self._facts.strays:
            if stray.owed_address is not None:
                held = stray.value if stray.state in _HELD else 0
                owed[accounts.stray_money(stray.owed_address), stray.asset] += held
        for (account, asset), value in owed.items():
            self._expect(f"{account} of {asset} in the ledger", -get_balance(account, asset), value)

    # ---- what the service saw

    def _check_deposits(self) -> None:
        """Check that each stored deposit is on the chain, once."""
        on_chain = Counter(
            (item.address, item.asset, item.block_number, item.tx_hash, item.account, item.value)
            for item in self._chain.movements
            if item.kind is MovementKind.ARRIVED
        )
        stored = Counter[Any]()
        for address, asset, block, tx_hash, sender, value, is_final, _ in self._target.store.select(
            _SELECT_DEPOSITS
        ):
            if not is_final:
                self.problems.append(f"a deposit at {address} is not final: {tx_hash}")
            if tx_hash:
                stored[address, asset, block, tx_hash, sender, int(value)] += 1
        self._expect("stored deposits that are not on the chain", stored - on_chain, Counter())
        moved = {
            (item.address, item.asset)
            for item in self._chain.movements
            if item.kind is not MovementKind.ARRIVED
        }
        # coin of blocks whose states a node has lost is stored without its sender
        missing = [item for item in on_chain - stored if item[:2] in moved and item[1] != ETHER]
        self._expect("deposits of moved money that are not stored", missing, [])

    def _check_signatures(self) -> None:
        """Check that each signed transfer (x402) was made or failed, and none charged twice."""
        charged: Counter[str] = Counter()
        used = {
            (payer, nonce.lower()): tx_hash
            for (payer, nonce), tx_hash in self._chain.authorizations.items()
        }
        for payment_id, payer, pay_to, value, content, state in self._target.store.select(
            _SELECT_FACILITATIONS
        ):
            if not payer.startswith(f"{EVM}:"):
                continue
            nonce = _get_nonce(content)
            is_used = (payer.rpartition(":")[2].lower(), nonce) in used
            if state not in {"succeeded", "failed"}:
                self.problems.append(f"a transfer of {value} to {pay_to} is {state}")
            elif is_used != (state == "succeeded"):
                self.problems.append(f"a transfer of {value} to {pay_to} {state}: used {is_used}")
            if payment_id is not None and is_used:
                charged[payment_id] += 1
        twice = [payment_id for payment_id, count in charged.items() if count > 1]
        self._expect("payments for which programs were charged twice", twice, [])


def _take(parts: list[list[Any]], movement: Movement, blocked: Collection[str]) -> None:
    """Take a payment from the oldest money, the blocked senders' last."""
    value = movement.value
    for part in sorted(parts, key=lambda part: part[0] in blocked):
        taken = min(value, part[1])
        part[1] -= taken
        value -= taken


def _get_money(stray: StrayMoney) -> tuple[int, str]:
    return stray.value, stray.asset


def _get_nonce(content: Any) -> str:
    """Return the nonce of a signed transfer, lower-case."""
    values = json.loads(content) if isinstance(content, str) else content
    return str(values["nonce"]).lower()
