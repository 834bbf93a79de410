"""The service's view of a rail: one chain, its assets, one settlement contract.

A rail does no bookkeeping: it reads the chain, builds what wallets sign, checks their outputs and
turns accepted payments into one transaction. Its caller decides when, and records the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.address_roles import AddressSweeper, DepositReader, PaymentAddresses
from florin_server.rails.facilitation import TransferFacilitator
from florin_server.rails.pace import PaceMeter
from florin_server.rails.provisioning import DurableNonces, TokenAccounts
from florin_server.rails.roles import (
    AccountNonces,
    BlockReader,
    ChainObserver,
    DirectSettlementReader,
    Faucet,
    GasPlanner,
    NodeConnections,
    OptionOffers,
    OutputVerifier,
    SettlementRelay,
    TermsReader,
    TransactionRequests,
    TreasuryHistory,
    TreasuryPayouts,
)
from florin_server.rails.transfers import TransferRequests
from florin_server.rails.types import FORWARD_METHOD, TRANSFER_METHOD, Asset


class Rail(Protocol):
    """One chain: its properties, and the objects in its roles. A role that it lacks is None."""

    # ---- properties

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id."""

    @property
    def live(self) -> bool:
        """Return False for test networks."""

    @property
    def confirmations(self) -> int:
        """Return the blocks, its own included, that make an event final."""

    @property
    def reorg_depth(self) -> int:
        """Return how many blocks can be replaced before they are final, >= `confirmations`."""

    @property
    def stale_blocks(self) -> int:
        """Return after how many blocks a transaction in no block is searched for and sent again."""

    @property
    def pace(self) -> PaceMeter:
        """Return the measured pace of blocks."""

    @property
    def open_max(self) -> int:
        """Return how many transactions of one key can wait for a block at once."""

    @property
    def eta_s(self) -> int:
        """Return the seconds that a payment usually takes from its confirm to its end."""

    def depth_of(self, asset: str, value: int) -> int:
        """Return the confirmations, its own block included, that make an amount's payment final."""

    def extra_wait_s(self, asset: str, value: int) -> int:
        """Return the seconds by which an amount is final later than the smallest."""

    @property
    def native_asset(self) -> str:
        """Return the CAIP-19 id of the gas money: the chain's coin, or its fee token."""

    @property
    def assets(self) -> Mapping[str, Asset]:
        """Return the offered assets, by CAIP-19."""

    @property
    def pegs(self) -> Mapping[str, str | None]:
        """Return the peg (ISO 4217) of every configured asset by CAIP-19, offered now or not."""

    @property
    def senders(self) -> Sequence[str]:
        """Return the lower-case addresses that sign our settlements and pay gas; at least one."""

    @property
    def treasury(self) -> str:
        """Return the CAIP-10 account for fees, and for merchants without a destination."""

    @property
    def reserved_accounts(self) -> Mapping[str, str]:
        """Return our and the chain's own accounts, by CAIP-10; they cannot pay or be paid.

        Each has a name that fits after "is"; our own wallets are among them.
        """

    def find_payer(self, account: str) -> str | None:
        """Return the canonical CAIP-10 of an account on this chain that can pay; None otherwise."""

    # ---- start and end

    async def start(self) -> None:
        """Check chain id, contracts and every token; disable what does not match."""

    async def list_problems(self) -> tuple[str, ...]:
        """Check again; return in sentences why the chain or an asset does not work.

        `relay.shortages` returns what keys lack.
        """

    async def close(self) -> None:
        """Close the connections."""

    # ---- the roles of every chain

    @property
    def offers(self) -> OptionOffers:
        """Return the role that builds offers for buyers."""

    @property
    def terms(self) -> TermsReader:
        """Return the role that reads options' terms."""

    @property
    def verifier(self) -> OutputVerifier:
        """Return the role that verifies wallets' outputs."""

    @property
    def relay(self) -> SettlementRelay:
        """Return the role that sends settlements."""

    @property
    def observer(self) -> ChainObserver:
        """Return the role that reads what the chain proves."""

    @property
    def nodes(self) -> NodeConnections:
        """Return the connections to the chain's nodes."""

    # ---- the roles of some chains

    @property
    def blocks(self) -> BlockReader | None:
        """Return the role that reads blocks; None if only final data is read, on each new head."""

    @property
    def direct_settlement(self) -> DirectSettlementReader | None:
        """Return the reader of third-party settlements; None where only Florin can settle."""

    @property
    def transaction_requests(self) -> TransactionRequests | None:
        """Return the transactions that wallets fetch by a link; None where none is offered."""

    @property
    def transfer_requests(self) -> TransferRequests | None:
        """Return the links of which wallets make transfers; None where none is offered."""

    @property
    def facilitator(self) -> TransferFacilitator:
        """Return the role that sends transfers which others signed."""

    @property
    def deposits(self) -> DepositReader | None:
        """Return the reader of payments' own addresses; None on chains without them."""

    @property
    def sweeper(self) -> AddressSweeper | None:
        """Return the role that empties payments' own addresses; None on chains without them."""

    @property
    def addresses(self) -> PaymentAddresses | None:
        """Return the addresses of payments; None on chains, and in settings, without them."""

    @property
    def account_nonces(self) -> AccountNonces | None:
        """Return the senders' nonces; None where numbers only distinguish our own transactions."""

    @property
    def gas(self) -> GasPlanner | None:
        """Return the planner of gas; None where fees do not depend on computation."""

    @property
    def payouts(self) -> TreasuryPayouts | None:
        """Return the role that pays out of the treasury; None if its key is not here."""

    @property
    def treasury_history(self) -> TreasuryHistory | None:
        """Return the treasury's signed transactions.

        None if nonces replace it or the key is absent.
        """

    @property
    def durable_nonces(self) -> DurableNonces | None:
        """Return the durable nonces for buyers who sign slowly; None on chains without them."""

    @property
    def token_accounts(self) -> TokenAccounts | None:
        """Return the role that opens accounts before they receive; None where none is needed."""

    @property
    def faucet(self) -> Faucet | None:
        """Return the faucet for test money; None on all chains but test chains."""


def has_own_address(option: PaymentOption) -> bool:
    """Return True if any sender pays an option at an address of its own.

    Callers of the API never see such an option, and cannot confirm it.
    """
    return option.method == FORWARD_METHOD


def is_requested(rail: Rail, option: PaymentOption) -> bool:
    """Return True if a wallet fetches the option's transaction by a link, or makes it from one.

    Callers of the API never see such an option, and cannot confirm it.
    """
    requests = rail.transaction_requests
    return requests is not None and option.method in {requests.method, TRANSFER_METHOD}


def is_relayed(rail: Rail, option: PaymentOption) -> bool:
    """Return True if we send the transaction that pays an option; False if the wallet does."""
    if is_requested(rail, option):
        return False
    return rail.direct_settlement is None or not rail.direct_settlement.is_direct(option)
