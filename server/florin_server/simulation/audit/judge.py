"""Compares what is stored with what is on the chains, and says what cannot be explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from florin_server.devnet.solana import SOLNET
from florin_server.domain.ledger import accounts, journals
from florin_server.simulation.audit.blocks import EvmChain, Json
from florin_server.simulation.audit.facts import Facts, Row, selecting
from florin_server.simulation.audit.ground import ETHER, EUR, EVM, MINTS, SOL, USD, Ground
from florin_server.store.engine.query import run
from florin_server.store.engine.sqlite import Connection
from florin_server.store.ledger import ledger
from florin_server.store.payments import history

FINAL: Final = {"succeeded", "failed", "expired", "cancelled"}
# of a token account, in lamports
RENT: Final = 2_000_000
_PAGE: Final = 100
_ENDED_TWICE = """
    SELECT payment_id FROM payment_event
    WHERE status IN ('succeeded', 'failed', 'expired', 'cancelled')
    GROUP BY payment_id HAVING count(*) > 1
"""
_SENT_IN_VAIN = """
    SELECT i.payment_id FROM chain_tx_item i JOIN payment p ON p.id = i.payment_id
    WHERE p.status NOT IN ('succeeded', 'failed')
"""
_LEFT: Final = {
    "SELECT payment_id FROM confirm WHERE state <> 'done'": "confirms are left open",
    "SELECT id FROM chain_tx WHERE state IN ('signed', 'sent')": "transactions are open",
    _ENDED_TWICE: "payments ended twice",
    _SENT_IN_VAIN: "payments were sent that are neither paid nor dead",
}
_UPKEEP = "SELECT hash FROM chain_tx WHERE id NOT IN (SELECT tx_id FROM chain_tx_item)"
_OPENED_WITH = "SELECT amount FROM ledger_transfer WHERE idem_key = ?"
_NONCES = "SELECT sender, next_nonce FROM relayer WHERE chain_id = ?"
_WRITTEN = "SELECT hash FROM chain_tx UNION SELECT hash FROM chain_tx_bump"


class Judge:
    """`bad` is what cannot be explained.

    `told` are the payments that are judged, each with the states that its buyer was told.
    """

    def __init__(self, ground: Ground, told: Mapping[str, Sequence[str]]) -> None:
        self.bad: list[str] = []
        self.ground = ground
        self.told = told
        self.select = selecting(ground.database)
        self.facts = Facts(self.select)
        self.opened: Counter[str] = Counter()  # token accounts, by the relayer
        self._taken = {one for (one,) in self.select("SELECT payment_id FROM confirm")}
        self._by_id = {row.id: row for row in self.facts.rows}
        self._rows = [row for row in self.facts.rows if row.id in told]
        self._paid = [row for row in self._rows if row.paid]
        self._late: list[Row] = []  # what came for nothing, once for each time

    def expect(self, what: str, found: Any, wanted: Any) -> None:
        """Notes what is not as it must be."""
        if found != wanted:
            self.bad.append(f"{what}: {found} instead of {wanted}")

    # ---- what is stored

    def payments(self) -> None:
        """Every payment has ended, once, and as its buyer was told."""
        states = {row.id: row.status for row in self._rows}
        self.expect("payments that are not stored", sorted(self.told.keys() - states.keys()), [])
        for payment_id, status in states.items():
            if status not in FINAL:
                self.bad.append(f"{payment_id} is still {status}")
            told = self.told[payment_id]
            if not told:
                continue
            self.expect(f"{payment_id}, told {told}, ended", status, told[-1])
            if "processing" in told and status in {"expired", "cancelled"}:
                self.bad.append(f"{payment_id} was taken, and then {status}")
            if any(one in FINAL for one in told[:-1]):
                self.bad.append(f"{payment_id} ended more than once: {told}")
        for query, what in _LEFT.items():
            if found := self.select(query):
                self.bad.append(f"{len(found)} {what}: {found[:3]}")

    def refunded(self, wanted: set[str]) -> None:
        """Whoever was promised money back has it; that it came once, balances tell."""
        ours = [one for one in self.facts.refunds if one.payment_id in self.told]
        paid = {one.payment_id for one in ours if one.status == "succeeded"}
        self.expect("payments that are not refunded", wanted ^ paid, set())
        transactions = {one.tx_id for one in ours}
        self.expect("transactions of refunds", len(transactions), len(ours))
        paid_in = {row.id: row.value for row in self._paid}
        parts: Counter[str] = Counter()
        for refund in ours:
            parts[refund.payment_id] += refund.value * (refund.status != "failed")
        exceeded = [one for one, value in parts.items() if value > paid_in.get(one, 0)]
        self.expect("refunds that exceed what was paid", exceeded, [])

    def books(self) -> None:
        """Entries and histories are whole in themselves."""
        with closing(Connection(self.ground.database, writes=False, waits=True)) as connection:
            self.bad += run(ledger.check(), connection.query)
            self.bad += run(history.check(), connection.query)

    def balance(self, account: str, asset: str) -> int:
        """What an account has in the books."""
        with closing(Connection(self.ground.database, writes=False, waits=True)) as connection:
            return run(ledger.balance(account, asset), connection.query)

    def booked(self, account: str, asset: str) -> int:
        """What was booked since the beginning."""
        return self.balance(account, asset) - self.ground.since.booked.get((account, asset), 0)

    def gained(self, wallet: str, asset: str) -> int:
        """What the books say that a wallet (CAIP-10) has got, beyond what it began with."""
        account = accounts.wallet(wallet)
        if (account, asset) in self.ground.since.booked:
            return self.booked(account, asset)
        opened = self.select(_OPENED_WITH, journals.opening(wallet, asset))
        return self.balance(account, asset) - sum(int(amount) for (amount,) in opened)

    # ---- the EVM chain

    def events(self, chain: EvmChain) -> None:
        """Each event proves its payment, or is money that came for nothing."""
        for ref, events in chain.paid.items():
            offered = self.facts.offered.get(ref)
            if offered is None:
                self.bad.append(f"{ref} of no payment is paid on the chain by {events[0]['tx']}")
                continue
            self._proven(offered, self._by_id[offered.id], events)
        for row in self._rows:
            if row.chain_id != EVM:
                continue
            if row.paid and row.ref not in chain.paid:
                self.bad.append(f"{row.id} succeeded, and no event says so")
            if row.id in self.facts.held:
                # the operator ended it
                continue
            # one that was never taken for settlement could not be paid
            lapsed = row.id not in self._taken or chain.time >= int(row.terms["valid_before"])
            if row.status == "failed" and not lapsed:
                self.bad.append(f"{row.id} failed while its authorization is good")

    def _proven(self, offered: Row, row: Row, events: Sequence[Json]) -> None:
        bound = row.paid and row.ref == offered.ref
        proofs = [one for one in events if bound and one["nonce"] == row.terms["nonce"]]
        if bound:
            self.expect(f"events that prove {row.id}", len(proofs), 1)
        for event in events:
            self._moved(offered, event)
        self._late += [offered] * (len(events) - len(proofs))
        for proof in proofs:
            self.expect(f"the transaction of {row.id}", row.tx_id, proof["tx"])
            if proof["time"] >= int(row.terms["valid_before"]):
                self.bad.append(f"{row.id} was paid when its price was over")

    def _moved(self, offered: Row, event: Json) -> None:
        """What an event moved is what was offered, whenever that was."""
        names = ("dest", "token", "fee_to")
        told = {name: event[name] for name in (*names, "value", "fee")}
        wanted = {name: offered.terms[name] for name in names}
        wanted |= {"value": offered.value, "fee": offered.fee}
        self.expect(f"what {offered.id} moved", told, wanted)
        self.expect(f"the payer of {offered.id}", f"{EVM}:{event['payer']}", offered.payer)

    def returned(self) -> None:
        """What came for nothing went back, once, to whoever sent it."""
        wanted = Counter(
            (row.id, row.value, row.asset, row.payer)
            for row in self._late
            if self.facts.held.get(row.id) != "kept"
        )
        ours = [one for one in self.facts.returns if one.payment_id in self.told]
        done = [one for one in ours if one.status == "done"]
        found = Counter((one.payment_id, one.value, one.asset, one.account) for one in done)
        self.expect("money that came for nothing and did not go back", wanted - found, Counter())
        self.expect("money that went back for nothing", found - wanted, Counter())
        self.expect("returns that are open", [one for one in ours if one.status != "done"], [])

    def journal(self, chain: EvmChain) -> None:
        """Nothing is on the chain that was not written down, and all gas is booked."""
        written = {one for (one,) in self.select(_WRITTEN)}
        unknown = [tx for one in self._spenders for tx in chain.sent[one] if tx not in written]
        if unknown:
            self.bad.append(f"sent and never written down: {unknown[:3]}")
        spent = sum(chain.gas[one] for one in self._spenders)
        self.expect("booked gas", self.booked(accounts.GAS, ETHER), spent)

    @property
    def _spenders(self) -> list[str]:
        return [one.lower() for one in (*self.ground.relayers, self.ground.treasuries[0])]

    async def nonces(self) -> None:
        """Nothing of the relayers waits, and what comes next is known."""
        ask = self.ground.evm
        stored = {sender.lower(): nonce for sender, nonce in self.select(_NONCES, EVM)}
        for sender in map(str.lower, self.ground.relayers):
            mined = int(await ask("eth_getTransactionCount", sender, "latest"), 16)
            pending = int(await ask("eth_getTransactionCount", sender, "pending"), 16)
            self.expect("nonces that are pending", pending, mined)
            self.expect("the next nonce", stored.get(sender, 0), mined)

    async def evm_balances(self, chain: EvmChain) -> None:
        """Merchants have what they were paid, and the treasury what it kept."""
        treasury = self.ground.treasuries[0]
        for asset in (USD, EUR, ETHER):
            await self._merchants(EVM, asset)
            kept = self.received(asset, treasury) - self.given_back(asset)
            if asset == ETHER:
                kept -= chain.gas[treasury.lower()]
            booked = self.gained(f"{EVM}:{treasury}", asset)
            self.expect(f"the treasury's {asset} in the books", booked, kept)

    async def _merchants(self, chain_id: str, asset: str) -> None:
        for address in self._paid_to(chain_id):
            got = self.received(asset, address)
            found = await self.ground.held(address, asset)
            self.expect(f"{address}'s {asset}", found, got)
            booked = self.balance(accounts.external(f"{chain_id}:{address}"), asset)
            self.expect(f"{address}'s {asset} in the books", booked, got)

    def _paid_to(self, chain_id: str) -> Iterable[str]:
        return (one for one in self.ground.paid_to if (one[:2] == "0x") == (chain_id == EVM))

    def given_back(self, asset: str, account: str | None = None) -> int:
        """What was refunded of an asset, to an account or in all."""
        return sum(
            one.value
            for one in (*self.facts.refunds, *self.facts.returns)
            if one.asset == asset
            and one.payment_id in self.told
            and account in {None, one.account.rpartition(":")[2]}
        )

    def received(self, asset: str, account: str) -> int:
        """What an account got of an asset by payments that succeeded, or came for nothing."""
        total = 0
        for row in (*self._paid, *self._late):
            if row.asset == asset:
                total += (row.value - row.fee) * _same(row.terms["dest"], account)
                total += row.fee * _same(row.terms["fee_to"], account)
        return total

    def spent(self, asset: str, payer: str) -> int:
        """What a payer spent of an asset on them."""
        return sum(
            row.value
            for row in (*self._paid, *self._late)
            if row.asset == asset and _same(row.payer.rpartition(":")[2], payer)
        )

    # ---- Solana

    async def solana(self) -> None:
        """The same on Solana, where transactions of ours tell all of it."""
        paid = {row.tx_id for row in self._paid if row.chain_id == SOLNET.chain_id}
        worked, fees = await self._landed()
        back = {
            one.tx_id
            for one in self.facts.refunds
            if one.asset in MINTS and one.payment_id in self.told
        }
        # accounts that are opened in advance, unless somebody else was faster
        moved = worked - {one for (one,) in self.select(_UPKEEP)}
        self.expect("transactions that paid on Solana", moved ^ (paid | back), set())
        written = {one for (one,) in self.select("SELECT hash FROM chain_tx")}
        self.expect("sent on Solana and never written down", worked - written, set())
        booked = sum(self.booked(one, SOL) for one in (accounts.GAS, accounts.RENT))
        self.expect("booked lamports", booked, fees)
        treasury = self.ground.treasuries[1]
        for asset in MINTS:
            await self._merchants(SOLNET.chain_id, asset)
            kept = self.received(asset, treasury) - self.given_back(asset)
            booked = self.gained(f"{SOLNET.chain_id}:{treasury}", asset)
            self.expect(f"the treasury's {asset} in the books", booked, kept)

    async def _landed(self) -> tuple[set[str], int]:
        """What of ours worked on Solana, and what all of it cost in lamports."""
        worked, fees = set(), 0
        for payer in (self.ground.solana_relayer, self.ground.treasuries[1]):
            async for signature, landed in self._paid_for_by(payer):
                meta = landed["meta"]
                fees += meta["preBalances"][0] - meta["postBalances"][0]
                keys = landed["transaction"]["message"]["accountKeys"]
                both = zip(keys, meta["preBalances"], meta["postBalances"], strict=True)
                self.opened.update(key for key, had, has in both if not had and has >= RENT)
                if meta["err"] is None:
                    worked.add(signature)
        return worked, fees

    async def _paid_for_by(self, payer: str) -> AsyncIterator[tuple[str, Json]]:
        """Every final transaction whose fee an account paid."""
        before = None
        config = {"maxSupportedTransactionVersion": 0, "commitment": "finalized"}
        while True:
            more: Json = {} if before is None else {"before": before}
            page = await self.ground.solana(
                "getSignaturesForAddress", payer, {"limit": _PAGE, **more}
            )
            for one in page:
                if one["signature"] in self.ground.since.signatures:
                    return
                landed = await self.ground.solana("getTransaction", one["signature"], config)
                if landed["transaction"]["message"]["accountKeys"][0] == payer:
                    yield one["signature"], landed
            if len(page) < _PAGE:
                return
            before = page[-1]["signature"]


def _same(one: str | None, other: str) -> bool:
    return one is not None and one.lower() == other.lower()
