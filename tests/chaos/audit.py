"""The judge of a run: everything that is stored against everything that is on the chains.

Nothing that the service says is believed: blocks, receipts and balances are read from the chains
themselves, and each of them must be explained by what is stored, to the last unit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import grpc
from florin.v1 import ledger_pb2
from florin_server.devnet.solana import SOLNET
from florin_server.domain.ledger import accounts, journals
from florin_server.store.engine.query import run
from florin_server.store.engine.sqlite import Connection
from florin_server.store.ledger import ledger
from florin_server.store.payments import history

from tests.chaos.bounds import RENT, Bounds
from tests.chaos.facts import TOKENS, Chain, Facts, Row
from tests.chaos.stage import (
    ETHER,
    EUR,
    EVM,
    MERCHANT,
    SOLANA_MERCHANT,
    USD,
    Stage,
)
from tests.chaos.story import Story
from tests.chaos.stranger import THIEF
from tests.chaos.till import LOOK_S, Till
from tests.support.installation import Operator
from tests.support.solana import ASSETS

FINAL = {"succeeded", "failed", "expired", "cancelled"}
_PAGE = 100
# at the books and chains, until nothing is under way
_LOOKS = 100
_GIFTS = {10**10, 10**12, 10**21}
_ENDED_TWICE = """
    SELECT payment_id FROM payment_event
    WHERE status IN ('succeeded', 'failed', 'expired', 'cancelled')
    GROUP BY payment_id HAVING count(*) > 1
"""
_SENT_IN_VAIN = """
    SELECT i.payment_id FROM chain_tx_item i JOIN payment p ON p.id = i.payment_id
    WHERE p.status NOT IN ('succeeded', 'failed')
"""
_UPKEEP = "SELECT hash FROM chain_tx WHERE id NOT IN (SELECT tx_id FROM chain_tx_item)"


class Audit:
    """`bad` is what cannot be explained."""

    def __init__(self, stage: Stage, till: Till) -> None:
        self.bad: list[str] = []
        self._stage = stage
        self._till = till
        self._senders = tuple(one.lower() for one in stage.relayers())
        self._treasuries = stage.treasuries()
        self._facts = Facts(stage)
        self.rows = self._facts.rows
        self._by_id = {row.id: row for row in self.rows}
        self._paid = [row for row in self.rows if row.paid]
        self._refunds = self._facts.refunds
        self._opened: Counter[str] = Counter()  # token accounts, by the relayer
        self.bill: dict[str, Any] = {}  # what it cost
        self.alarms: dict[str, list[str]] = {}
        self._late: list[Row] = []  # what came for nothing, once for each time

    async def judge(
        self, stories: Sequence[Story], since: int, before: dict[str, int], now_us: int
    ) -> None:
        """Compares everything; `before` is what buyers had after block `since`."""
        self._payments(stories)
        self._refunded(stories)
        self._books()
        ours = {self._treasuries[0].lower()}
        buyers = frozenset(key.partition(" ")[2] for key in before) - ours
        chain = await self._facts.chain(self._till, since, buyers)
        self._events(chain)
        self._returned()
        self._journal(chain)
        await self._nonces()
        await self._evm_balances(chain, before)
        await self._solana(before)
        await self._wallets()
        bounds = Bounds(self._stage, self._facts, stories, now_us)
        bounds.judge(chain, self._opened)
        self.bad += bounds.bad
        self.bill, self.alarms = bounds.told, bounds.alarms()

    def _expect(self, what: str, found: Any, wanted: Any) -> None:
        if found != wanted:
            self.bad.append(f"{what}: {found} instead of {wanted}")

    # ---- what is stored

    def _payments(self, stories: Sequence[Story]) -> None:
        states = {row.id: row.status for row in self.rows}
        self._expect(
            "stored payments",
            len(states),
            len({one.payment_id for one in stories if one.payment_id}),
        )
        for payment_id, status in states.items():
            if status not in FINAL:
                self.bad.append(f"{payment_id} is still {status}")
        for payment_id, told in self._till.told.items():
            self._expect(f"{payment_id}, told {told}, ended", states[payment_id], told[-1])
            if "processing" in told and states[payment_id] in {"expired", "cancelled"}:
                self.bad.append(f"{payment_id} was taken, and then {states[payment_id]}")
            if any(one in FINAL for one in told[:-1]):
                self.bad.append(f"{payment_id} ended more than once: {told}")
        for query, what in (
            ("SELECT payment_id FROM confirm WHERE state <> 'done'", "confirms are left open"),
            ("SELECT id FROM chain_tx WHERE state IN ('signed', 'sent')", "transactions are open"),
            (
                _ENDED_TWICE,
                "payments ended twice",
            ),
            (
                _SENT_IN_VAIN,
                "payments were sent that are neither paid nor dead",
            ),
        ):
            if found := self._stage.select(query):
                self.bad.append(f"{len(found)} {what}: {found[:3]}")

    def _refunded(self, stories: Sequence[Story]) -> None:
        """Whoever was promised money back has it; that it came once, balances tell."""
        wanted = {s.payment_id for s in stories if s.order.refunded and s.status == "succeeded"}
        paid = {one.payment_id for one in self._refunds if one.status == "succeeded"}
        self._expect("payments that are not refunded", wanted ^ paid, set())
        transactions = [one.tx_id for one in self._refunds]
        self._expect("transactions of refunds", len(set(transactions)), len(wanted))

    def _books(self) -> None:
        with closing(Connection(self._stage.home.database, writes=False)) as connection:
            self.bad += run(ledger.check(), connection.query)
            self.bad += run(history.check(), connection.query)

    def _balance(self, account: str, asset: str) -> int:
        with closing(Connection(self._stage.home.database, writes=False)) as connection:
            return run(ledger.balance(account, asset), connection.query)

    def _since_opening(self, wallet: str, asset: str) -> int:
        """What the books say that a wallet has got, beyond what it began with."""
        key = journals.opening(wallet, asset)
        query = f"SELECT amount FROM ledger_transfer WHERE idem_key = '{key}'"
        began = sum(int(amount) for (amount,) in self._stage.select(query))
        return self._balance(f"wallet:{wallet}", asset) - began

    # ---- the EVM chain

    def _events(self, chain: Chain) -> None:
        """Each event proves its payment, or is money that came for nothing."""
        for ref, events in chain.paid.items():
            offered = self._facts.offered.get(ref)
            if offered is None:
                self.bad.append(f"{ref} of no payment is paid on the chain by {events[0]['tx']}")
                continue
            row = self._by_id[offered.id]
            bound = row.paid and row.ref == ref
            proofs = [one for one in events if bound and one["nonce"] == row.terms["nonce"]]
            if bound:
                self._expect(f"events that prove {row.id}", len(proofs), 1)
            for event in events:
                self._moved(offered, event)
            self._late += [offered] * (len(events) - len(proofs))
            for proof in proofs:
                self._expect(f"the transaction of {row.id}", row.tx_id, proof["tx"])
                if proof["time"] >= int(row.terms["valid_before"]):
                    self.bad.append(f"{row.id} was paid when its price was over")
        for row in self.rows:
            if row.chain_id != EVM:
                continue
            if row.paid and row.ref not in chain.paid:
                self.bad.append(f"{row.id} succeeded, and no event says so")
            if row.id in self._facts.held:
                # the operator ended it
                continue
            if row.status == "failed" and chain.time < int(row.terms["valid_before"]):
                self.bad.append(f"{row.id} failed while its authorization is good")

    def _moved(self, offered: Row, event: dict[str, Any]) -> None:
        """What an event moved is what was offered, whenever that was."""
        names = ("dest", "token", "fee_to")
        told = {name: event[name] for name in (*names, "value", "fee")}
        wanted = {name: offered.terms[name] for name in names}
        wanted |= {"value": offered.value, "fee": offered.fee}
        self._expect(f"what {offered.id} moved", told, wanted)
        self._expect(f"the payer of {offered.id}", f"{EVM}:{event['payer']}", offered.payer)

    def _returned(self) -> None:
        """What came for nothing went back, once, to whoever sent it."""
        wanted = Counter(
            (row.id, row.value, row.asset, row.payer)
            for row in self._late
            if self._facts.held.get(row.id) != "kept"
        )
        done = [one for one in self._facts.returns if one.status == "done"]
        found = Counter((one.payment_id, one.value, one.asset, one.account) for one in done)
        self._expect("money that came for nothing and did not go back", wanted - found, Counter())
        self._expect("money that went back for nothing", found - wanted, Counter())
        open_ones = [one for one in self._facts.returns if one.status != "done"]
        self._expect("returns that are open", open_ones, [])

    def _journal(self, chain: Chain) -> None:
        """Nothing is on the chain that was not written down, and all gas is booked."""
        written = {
            one
            for (one,) in self._stage.select(
                "SELECT hash FROM chain_tx UNION SELECT hash FROM chain_tx_bump"
            )
        }
        ours = (*self._senders, self._treasuries[0].lower())
        unknown = [tx for one in ours for tx in chain.sent[one] if tx not in written]
        if unknown:
            self.bad.append(f"sent and never written down: {unknown[:3]}")
        spenders = (*self._senders, self._treasuries[0].lower())
        spent = sum(chain.gas[one] for one in spenders)
        self._expect("booked gas", self._balance("expense:gas", ETHER), spent)

    async def _nonces(self) -> None:
        ask = self._till.evm.ask
        query = f"SELECT sender, next_nonce FROM relayer WHERE chain_id = '{EVM}'"
        stored = dict(self._stage.select(query))
        for sender in self._senders:
            await self._nonce(ask, sender, stored.get(sender, 0))

    async def _nonce(self, ask: Any, sender: str, stored: int) -> None:
        mined = int(await ask("eth_getTransactionCount", sender, "latest"), 16)
        pending = int(await ask("eth_getTransactionCount", sender, "pending"), 16)
        self._expect("nonces that are pending", pending, mined)
        self._expect("the next nonce", stored, mined)

    async def _evm_balances(self, chain: Chain, before: dict[str, int]) -> None:
        treasury = self._treasuries[0]
        for asset in (USD, EUR, ETHER):
            got = self._received(asset, MERCHANT)
            found = await held(self._till, MERCHANT, asset)
            self._expect(f"the merchant's {asset}", found, got)
            booked = self._balance(f"external:{EVM}:{MERCHANT}", asset)
            self._expect(f"the merchant's {asset} in the books", booked, got)
            kept = self._received(asset, treasury) - self._given_back(asset)
            if asset == ETHER:
                kept -= chain.gas[treasury.lower()]
            booked = self._since_opening(f"{EVM}:{treasury}", asset)
            self._expect(f"the treasury's {asset} in the books", booked, kept)
            self._expect(f"the thief's {asset}", await held(self._till, THIEF, asset), 0)
        for key, had in before.items():
            asset, _, payer = key.partition(" ")
            if not asset.startswith(EVM):
                continue
            left = had + self._change(asset, payer)
            if asset == ETHER:
                left += chain.given[payer] - chain.gas_since[payer]
            if asset == USD:
                left -= chain.saved[payer]
            self._expect(f"{payer}'s {asset}", await held(self._till, payer, asset), left)

    def _given_back(self, asset: str, account: str | None = None) -> int:
        """What was refunded of an asset, to an account or in all."""
        return sum(
            one.value
            for one in (*self._refunds, *self._facts.returns)
            if one.asset == asset and account in {None, one.account.rpartition(":")[2]}
        )

    def _change(self, asset: str, account: str) -> int:
        """By how much payments and refunds have changed what an account holds of an asset."""
        change = self._received(asset, account) - self._spent(asset, account)
        if account in {one.lower() if one[:2] == "0x" else one for one in self._treasuries}:
            return change - self._given_back(asset)
        return change + self._given_back(asset, account)

    def _received(self, asset: str, account: str) -> int:
        """What an account got of an asset by payments that succeeded."""
        total = 0
        for row in (*self._paid, *self._late):
            if row.asset == asset:
                total += (row.value - row.fee) * _same(row.terms["dest"], account)
                total += row.fee * _same(row.terms["fee_to"], account)
        return total

    def _spent(self, asset: str, payer: str) -> int:
        return sum(
            row.value
            for row in (*self._paid, *self._late)
            if row.asset == asset and _same(row.payer.rpartition(":")[2], payer)
        )

    # ---- what the service itself says

    async def _wallets(self) -> None:
        """Every wallet holds what is booked, and what the faucets gave it while Florin ran."""
        verdict = ledger_pb2.BalanceVerdict
        for _ in range(_LOOKS):
            target = self._stage.told("shop")["operator"]
            async with grpc.aio.insecure_channel(target) as channel:
                operator = Operator(channel, self._stage.home.secrets().operator_token)
                found = await operator.ask("CheckLedger", ledger_pb2.CheckLedgerRequest())
            verdicts = {one.verdict for one in found.wallets}
            if not found.unread and verdict.BALANCE_VERDICT_UNDER_WAY not in verdicts:
                break
            await asyncio.sleep(LOOK_S)
        self.bad += [*found.problems, *(f"not read: {one}" for one in found.unread)]
        for one in found.wallets:
            more = int(one.held) - int(one.booked)
            if more and not (more in _GIFTS and one.verdict == verdict.BALANCE_VERDICT_UNBOOKED):
                self.bad.append(f"the books and the chain disagree: {one}")

    # ---- Solana

    async def _solana(self, before: dict[str, int]) -> None:
        paid = {row.tx_id: row for row in self._paid if row.chain_id == SOLNET.chain_id}
        worked, fees = set(), 0
        for payer in (self._stage.solana_relayer, self._treasuries[1]):
            async for signature, landed in self._paid_for_by(payer):
                meta = landed["meta"]
                fees += meta["preBalances"][0] - meta["postBalances"][0]
                keys = landed["transaction"]["message"]["accountKeys"]
                both = zip(keys, meta["preBalances"], meta["postBalances"], strict=True)
                self._opened.update(key for key, had, has in both if not had and has >= RENT)
                if meta["err"] is None:
                    worked.add(signature)
        back = {one.tx_id for one in self._refunds if one.asset in ASSETS}
        # accounts that are opened in advance, unless somebody else was faster
        upkeep = {one for (one,) in self._stage.select(_UPKEEP)}
        moved = worked - upkeep
        self._expect("transactions that paid on Solana", moved ^ (paid.keys() | back), set())
        written = {one for (one,) in self._stage.select("SELECT hash FROM chain_tx")}
        self._expect("sent on Solana and never written down", worked - written, set())
        coin = f"{SOLNET.chain_id}/slip44:501"
        booked = sum(self._balance(one, coin) for one in (accounts.GAS, accounts.RENT))
        self._expect("booked lamports", booked, fees)
        for token, asset in enumerate(ASSETS):
            found = await self._till.solana.balance(SOLANA_MERCHANT, token)
            self._expect(f"the merchant's {asset}", found, self._received(asset, SOLANA_MERCHANT))
            booked = self._balance(f"external:{SOLNET.chain_id}:{SOLANA_MERCHANT}", asset)
            got = self._received(asset, SOLANA_MERCHANT)
            self._expect(f"the merchant's {asset} in the books", booked, got)
            booked = self._since_opening(f"{SOLNET.chain_id}:{self._treasuries[1]}", asset)
            got = self._received(asset, self._treasuries[1]) - self._given_back(asset)
            self._expect(f"the treasury's {asset} in the books", booked, got)
        for key, had in before.items():
            asset, _, payer = key.partition(" ")
            if asset in ASSETS:
                found = await self._till.solana.balance(payer, ASSETS.index(asset))
                left = had + self._change(asset, payer)
                self._expect(f"{payer}'s {asset}", found, left)

    async def _paid_for_by(self, payer: str) -> Any:
        """Every final transaction whose fee an account paid."""
        before = None
        config = {"maxSupportedTransactionVersion": 0, "commitment": "finalized"}
        while True:
            more = {} if before is None else {"before": before}
            page = await self._till.solana.ask(
                "getSignaturesForAddress", payer, {"limit": _PAGE, **more}
            )
            for one in page:
                landed = await self._till.solana.ask("getTransaction", one["signature"], config)
                if landed["transaction"]["message"]["accountKeys"][0] == payer:
                    yield one["signature"], landed
            if len(page) < _PAGE:
                return
            before = page[-1]["signature"]


async def held(till: Till, address: str, asset: str) -> int:
    """What an address has of an asset of the EVM chain."""
    if asset == ETHER:
        return await till.evm.coin(address)
    return await till.evm.balance(address, TOKENS[asset])


def _same(one: str | None, other: str) -> bool:
    return one is not None and one.lower() == other.lower()
