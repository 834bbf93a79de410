"""Compare the store with the chains, and report everything that does not match."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from florin_server.domain.ledger import accounts, journals
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import history

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_sandbox.simulation.audit.addresses import (
    AddressAudit,
    list_addresses,
    sum_went_home,
)
from florin_sandbox.simulation.audit.blocks import AuditedEvmChain, Json
from florin_sandbox.simulation.audit.facts import StoredFacts, StoredPayment
from florin_sandbox.simulation.audit.target import (
    ETHER,
    EUR,
    EVM,
    MINTS,
    SOL,
    USD,
    AuditTarget,
)

FINAL_STATUSES: Final = {"succeeded", "failed", "expired", "cancelled"}
# rent of a token account, in lamports
RENT_LAMPORTS: Final = 2_000_000
_PAGE: Final = 100
_SELECT_ENDED_TWICE = """
    SELECT payment_id FROM payment_event
    WHERE status IN ('succeeded', 'failed', 'expired', 'cancelled')
    GROUP BY payment_id HAVING count(*) > 1
"""
_SELECT_SENT_IN_VAIN = """
    SELECT i.payment_id FROM chain_tx_item i JOIN payment p ON p.id = i.payment_id
    WHERE p.status NOT IN ('succeeded', 'failed')
"""
_LEFTOVER_QUERIES: Final = {
    "SELECT payment_id FROM confirm WHERE state <> 'done'": "confirmations are open",
    "SELECT id FROM chain_tx WHERE state IN ('signed', 'sent')": "transactions are open",
    _SELECT_ENDED_TWICE: "payments ended twice",
    _SELECT_SENT_IN_VAIN: "payments were sent that neither succeeded nor failed",
}
_SELECT_UPKEEP = "SELECT hash FROM chain_tx WHERE id NOT IN (SELECT tx_id FROM chain_tx_item)"
_SELECT_OPENING = "SELECT amount FROM ledger_transfer WHERE idem_key = ?"
_SELECT_NONCES = "SELECT sender, next_nonce FROM relayer WHERE chain_id = ?"
_SELECT_HASHES = "SELECT hash FROM chain_tx UNION SELECT hash FROM chain_tx_bump"


class Auditor:
    """Audits one run; `bad` collects everything that it cannot explain.

    It audits only the payments that it gets, each with the statuses that its buyer saw.
    """

    def __init__(self, target: AuditTarget, buyer_statuses: Mapping[str, Sequence[str]]) -> None:
        self.problems: list[str] = []
        self.target = target
        self.buyer_statuses = buyer_statuses
        self.select = target.store.select
        self.facts = StoredFacts(self.select)
        self.addresses = list_addresses(self.select)  # of payments
        self.conserved: dict[str, dict[str, int]] = {}  # sums of money at addresses, by asset
        self.opened_balances: Counter[str] = Counter()  # token accounts, by the relayer
        self._confirmed_ids = {
            payment_id for (payment_id,) in self.select("SELECT payment_id FROM confirm")
        }
        self._payments_by_id = {row.id: row for row in self.facts.payments}
        self._payments = [row for row in self.facts.payments if row.id in buyer_statuses]
        self._paid_payments = [row for row in self._payments if row.is_paid]
        self._late_payments: list[StoredPayment] = []  # unmatched money, one item per event

    def expect(self, subject: str, actual: Any, expected: Any) -> None:
        """Report a problem if a value is not the expected one."""
        if actual != expected:
            self.problems.append(f"{subject}: {actual} instead of {expected}")

    # ---- the store

    def check_payments(self) -> None:
        """Check that every payment ended once, with the status that its buyer saw."""
        states = {row.id: row.status for row in self._payments}
        self.expect(
            "payments missing from the store",
            sorted(self.buyer_statuses.keys() - states.keys()),
            [],
        )
        for payment_id, status in states.items():
            if status not in FINAL_STATUSES:
                self.problems.append(f"{payment_id} is still {status}")
            shown_statuses = self.buyer_statuses[payment_id]
            if not shown_statuses:
                continue
            self.expect(
                f"final status of {payment_id}, shown as {shown_statuses},",
                status,
                shown_statuses[-1],
            )
            if "processing" in shown_statuses and status in {"expired", "cancelled"}:
                self.problems.append(f"{payment_id} was confirmed, and then {status}")
            if any(shown_status in FINAL_STATUSES for shown_status in shown_statuses[:-1]):
                self.problems.append(f"{payment_id} ended more than once: {shown_statuses}")
        for query, what in _LEFTOVER_QUERIES.items():
            if rows := self.select(query):
                self.problems.append(f"{len(rows)} {what}: {rows[:3]}")

    def check_refunds(self, expected_ids: set[str]) -> None:
        """Check that all promised refunds succeeded; the balances prove that each came once."""
        ours = [
            each_refund
            for each_refund in self.facts.refunds
            if each_refund.payment_id in self.buyer_statuses
        ]
        paid = {each_refund.payment_id for each_refund in ours if each_refund.status == "succeeded"}
        self.expect("payments with a missing or unexpected refund", expected_ids ^ paid, set())
        transactions = {each_refund.tx_id for each_refund in ours}
        self.expect("transactions of refunds", len(transactions), len(ours))
        paid_in = {row.id: row.value for row in self._paid_payments}
        parts: Counter[str] = Counter()
        for refund in ours:
            parts[refund.payment_id] += refund.value * (refund.status != "failed")
        exceeded = [
            payment_id for payment_id, value in parts.items() if value > paid_in.get(payment_id, 0)
        ]
        self.expect("refunds above the paid amount", exceeded, [])

    def check_books(self) -> None:
        """Check that ledger and payment histories are consistent."""
        self.problems += self.target.store.read(ledger.check())
        self.problems += self.target.store.read(history.check())

    def get_balance(self, account: str, asset: str) -> int:
        """Return the ledger balance of an account."""
        return self.target.store.read(ledger.get_balance(account, asset))

    def get_booked(self, account: str, asset: str) -> int:
        """Return the change of a ledger balance since the baseline."""
        return self.get_balance(account, asset) - self.target.baseline.booked_amounts.get(
            (account, asset), 0
        )

    def get_gain(self, wallet: str, asset: str) -> int:
        """Return a wallet's (CAIP-10) ledger balance minus its opening balance."""
        account = accounts.wallet(wallet)
        if (account, asset) in self.target.baseline.booked_amounts:
            return self.get_booked(account, asset)
        opened = self.select(_SELECT_OPENING, journals.opening_key(wallet, asset))
        return self.get_balance(account, asset) - sum(int(amount) for (amount,) in opened)

    # ---- the EVM chain

    def check_events(self, chain: AuditedEvmChain) -> None:
        """Check that each event proves its payment, or is unmatched money."""
        for ref, events in chain.payment_events.items():
            offered = self.facts.offered_payments.get(ref)
            if offered is None:
                self.problems.append(f"{events[0]['tx']} pays {ref}, which belongs to no payment")
                continue
            self._check_proof(offered, self._payments_by_id[offered.id], events)
        for row in self._payments:
            if row.chain_id != EVM:
                continue
            if row.is_paid and row.ref not in chain.payment_events:
                self.problems.append(f"{row.id} succeeded without an event on the chain")
            if row.id in self.facts.held_states:
                # the operator decided the outcome
                continue
            # a payment that was never confirmed could not be paid
            lapsed = row.id not in self._confirmed_ids or chain.time >= int(
                row.terms["valid_before"]
            )
            if row.status == "failed" and not lapsed:
                self.problems.append(f"{row.id} failed while its authorization is still valid")

    def _check_proof(
        self, offered: StoredPayment, row: StoredPayment, events: Sequence[Json]
    ) -> None:
        bound = row.is_paid and row.ref == offered.ref
        proofs = [
            each_event
            for each_event in events
            if bound and each_event["nonce"] == row.terms["nonce"]
        ]
        if bound:
            self.expect(f"events that prove {row.id}", len(proofs), 1)
        for event in events:
            self._check_moved(offered, event)
        self._late_payments += [offered] * (len(events) - len(proofs))
        for proof in proofs:
            self.expect(f"the transaction of {row.id}", row.tx_id, proof["tx"])
            if proof["time"] >= int(row.terms["valid_before"]):
                self.problems.append(f"{row.id} was paid after its quote expired")

    def _check_moved(self, offered: StoredPayment, event: Json) -> None:
        """Check that an event moved exactly what the option offered."""
        names = ("dest", "token", "fee_to")
        event_fields = {name: event[name] for name in (*names, "value", "fee")}
        expected_fields = {name: offered.terms[name] for name in names}
        expected_fields |= {"value": offered.value, "fee": offered.fee}
        self.expect(f"the transfer of {offered.id}", event_fields, expected_fields)
        self.expect(f"the payer of {offered.id}", f"{EVM}:{event['payer']}", offered.payer)

    def check_returned(self) -> None:
        """Check that all unmatched money was returned once, to its sender."""
        counter = Counter(
            (row.id, row.value, row.asset, row.payer)
            for row in self._late_payments
            if self.facts.held_states.get(row.id) != "kept"
        )
        ours = [
            refund
            for refund in self.facts.returned_payouts
            if refund.payment_id in self.buyer_statuses
        ]
        done = [refund for refund in ours if refund.status == "done"]
        return_counter = Counter(
            (refund.payment_id, refund.value, refund.asset, refund.account) for refund in done
        )
        self.expect("unmatched money that was not returned", counter - return_counter, Counter())
        self.expect("money that was returned without a reason", return_counter - counter, Counter())
        self.expect("open returns", [refund for refund in ours if refund.status != "done"], [])

    async def check_addresses(self, chain: AuditedEvmChain, blocked: Collection[str] = ()) -> None:
        """Check that all money that came to payments' addresses is accounted for.

        `blocked` are senders (bare, lower-case) that were blocked before they sent anything.
        """
        audit = AddressAudit(self.target, self.facts, chain, blocked)
        await audit.check(self.get_balance)
        self.problems += audit.problems
        self.conserved = audit.sums

    def check_journal(self, chain: AuditedEvmChain) -> None:
        """Check that the store has every sent transaction, and the ledger all gas."""
        written = {tx_hash for (tx_hash,) in self.select(_SELECT_HASHES)}
        unknown = [
            tx
            for spender in self._list_spenders
            for tx in chain.sent_hashes[spender]
            if tx not in written
        ]
        if unknown:
            self.problems.append(f"sent but not in the store: {unknown[:3]}")
        spent = sum(chain.gas_costs[spender] for spender in self._list_spenders)
        self.expect("booked gas", self.get_booked(accounts.GAS, ETHER), spent)

    @property
    def _list_spenders(self) -> list[str]:
        return [address.lower() for address in (*self.target.relayers, self.target.treasuries[0])]

    async def check_nonces(self) -> None:
        """Check that the relayers have no pending transactions, and the stored nonces match."""
        ask = self.target.evm
        stored_nonces = {
            sender.lower(): nonce for sender, nonce in self.select(_SELECT_NONCES, EVM)
        }
        for sender in map(str.lower, self.target.relayers):
            mined = int(await ask("eth_getTransactionCount", sender, "latest"), 16)
            pending = int(await ask("eth_getTransactionCount", sender, "pending"), 16)
            self.expect("pending nonce", pending, mined)
            self.expect("the next nonce", stored_nonces.get(sender, 0), mined)

    async def check_evm_balances(self, chain: AuditedEvmChain) -> None:
        """Check the balances of merchants and treasury on the EVM chain."""
        treasury = self.target.treasuries[0]
        for asset in (USD, EUR, ETHER):
            await self._check_merchants(EVM, asset)
            expected_sum = self.sum_received(asset, treasury) - self.sum_refunded(asset)
            expected_sum += sum_went_home(chain, asset, treasury)
            if asset == ETHER:
                expected_sum -= chain.gas_costs[treasury.lower()]
            booked = self.get_gain(f"{EVM}:{treasury}", asset)
            self.expect(f"the treasury's {asset} in the ledger", booked, expected_sum)

    async def _check_merchants(self, chain_id: str, asset: str) -> None:
        for address in self._list_merchant_accounts(chain_id):
            got = self.sum_received(asset, address)
            balance = await self.target.read_balance(address, asset)
            self.expect(f"{address}'s {asset}", balance, got)
            booked = self.get_balance(accounts.outside_party(f"{chain_id}:{address}"), asset)
            self.expect(f"{address}'s {asset} in the ledger", booked, got)

    def _list_merchant_accounts(self, chain_id: str) -> Iterable[str]:
        return (
            account
            for account in self.target.merchant_accounts
            if (account[:2] == "0x") == (chain_id == EVM)
        )

    def sum_refunded(self, asset: str, account: str | None = None) -> int:
        """Return the amount of an asset that was paid back, to one account or to all."""
        return sum(
            refund.value
            for refund in (
                *self.facts.refunds,
                *self.facts.returned_payouts,
                *(refund for _, refund in self.facts.stray_returns),
            )
            if refund.asset == asset
            and refund.payment_id in self.buyer_statuses
            and account in {None, refund.account.rpartition(":")[2]}
        )

    def sum_received(self, asset: str, account: str) -> int:
        """Return the amount that an account received from payments and unmatched money."""
        total = 0
        for row in (*self._paid_payments, *self._late_payments):
            if row.asset == asset:
                total += (row.value - row.fee) * _is_same_address(row.terms["dest"], account)
                total += row.fee * _is_same_address(row.terms["fee_to"], account)
        return total

    # ---- Solana

    async def check_solana(self) -> None:
        """Check Solana, where Florin's own transactions contain all payments."""
        paid = {row.tx_id for row in self._paid_payments if row.chain_id == SOLANA_DEVNET.chain_id}
        worked, fees = await self._read_landed()
        back = {
            refund.tx_id
            for refund in self.facts.refunds
            if refund.asset in MINTS and refund.payment_id in self.buyer_statuses
        }
        # without the transactions that open accounts in advance
        moved = worked - {signature for (signature,) in self.select(_SELECT_UPKEEP)}
        self.expect("transactions that paid on Solana", moved ^ (paid | back), set())
        written = {signature for (signature,) in self.select("SELECT hash FROM chain_tx")}
        self.expect("sent on Solana but not in the store", worked - written, set())
        booked = sum(self.get_booked(account, SOL) for account in (accounts.GAS, accounts.RENT))
        self.expect("booked lamports", booked, fees)
        treasury = self.target.treasuries[1]
        for asset in MINTS:
            await self._check_merchants(SOLANA_DEVNET.chain_id, asset)
            expected_sum = self.sum_received(asset, treasury) - self.sum_refunded(asset)
            booked = self.get_gain(f"{SOLANA_DEVNET.chain_id}:{treasury}", asset)
            self.expect(f"the treasury's {asset} in the ledger", booked, expected_sum)

    async def _read_landed(self) -> tuple[set[str], int]:
        """Return Florin's successful transactions on Solana, and the cost of all in lamports."""
        worked, fees = set(), 0
        for payer in (self.target.solana_relayer, self.target.treasuries[1]):
            async for signature, landed in self._iterate_paid_by(payer):
                meta = landed["meta"]
                fees += meta["preBalances"][0] - meta["postBalances"][0]
                keys = landed["transaction"]["message"]["accountKeys"]
                both = zip(keys, meta["preBalances"], meta["postBalances"], strict=True)
                self.opened_balances.update(
                    key for key, had, has in both if not had and has >= RENT_LAMPORTS
                )
                if meta["err"] is None:
                    worked.add(signature)
        return worked, fees

    async def _iterate_paid_by(self, payer: str) -> AsyncIterator[tuple[str, Json]]:
        """Yield every final transaction whose fee an account paid."""
        before = None
        config = {"maxSupportedTransactionVersion": 0, "commitment": "finalized"}
        while True:
            more: Json = {} if before is None else {"before": before}
            page = await self.target.solana(
                "getSignaturesForAddress", payer, {"limit": _PAGE, **more}
            )
            for entry in page:
                if entry["signature"] in self.target.baseline.signatures:
                    return
                landed = await self.target.solana("getTransaction", entry["signature"], config)
                if landed["transaction"]["message"]["accountKeys"][0] == payer:
                    yield entry["signature"], landed
            if len(page) < _PAGE:
                return
            before = page[-1]["signature"]


def _is_same_address(item: str | None, other: str) -> bool:
    return item is not None and item.lower() == other.lower()
