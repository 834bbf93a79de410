"""What the service asks of a rail: one chain, its assets, one settlement contract.

A rail does no bookkeeping: it reads the chain, builds what wallets sign, checks what they return
and turns accepted payments into one transaction. Who calls it decides when, and writes it down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from florin_server.domain.payments.payment import Option
from florin_server.rails.pace import PaceMeter
from florin_server.rails.provisioning import DurableNonces, TokenAccounts
from florin_server.rails.roles import (
    AccountNonces,
    Blocks,
    DirectSettlement,
    Faucet,
    Gas,
    Nodes,
    Observer,
    Offers,
    Payouts,
    Relay,
    Terms,
    TreasuryHistory,
    Verifier,
)
from florin_server.rails.types import Asset


class Rail(Protocol):
    """One chain: what it is, and who plays its roles. A role that it has not is None."""

    # ---- what it is

    @property
    def chain_id(self) -> str:
        """CAIP-2."""

    @property
    def live(self) -> bool:
        """False for test networks."""

    @property
    def confirmations(self) -> int:
        """Blocks, counting its own, that make an event final."""

    @property
    def reorg_depth(self) -> int:
        """Blocks that may be replaced before they are final: at least `confirmations`."""

    @property
    def stale_blocks(self) -> int:
        """Blocks after which a transaction that is in none is looked for, and sent again."""

    @property
    def pace(self) -> PaceMeter:
        """How fast blocks come, as measured."""

    @property
    def open_max(self) -> int:
        """Transactions of one key that may wait for a block at the same time."""

    @property
    def eta_s(self) -> int:
        """Seconds that a payment usually takes from its confirm to its end."""

    def depth_of(self, asset: str, value: int) -> int:
        """Return the blocks, counting its own, that make a payment of an amount final."""

    def extra_wait_s(self, asset: str, value: int) -> int:
        """Return the seconds by which an amount is final later than the smallest."""

    @property
    def native_asset(self) -> str:
        """CAIP-19 of what gas is paid with: the chain's coin, or its fee token."""

    @property
    def assets(self) -> Mapping[str, Asset]:
        """The assets that are offered, by CAIP-19."""

    @property
    def pegs(self) -> Mapping[str, str | None]:
        """The peg (ISO 4217) of every asset of the settings, by CAIP-19, offered now or not."""

    @property
    def senders(self) -> Sequence[str]:
        """Addresses that sign our settlements and pay their gas, lower-case; at least one."""

    @property
    def treasury(self) -> str:
        """CAIP-10 account that receives for merchants without a destination, and fees."""

    @property
    def reserved(self) -> Mapping[str, str]:
        """What is ours or the chain's own, by CAIP-10: nobody pays from there, or is paid there.

        Each is named in words that follow "is"; the wallets of ours are among them.
        """

    def payer(self, account: str) -> str | None:
        """The canonical CAIP-10 of an account on this chain that may pay; None for all else."""

    # ---- beginning and ending

    async def start(self) -> None:
        """Checks chain id, contracts and every token; disables what does not match."""

    async def problems(self) -> tuple[str, ...]:
        """Checks again and tells, in sentences, what keeps the chain or an asset from working.

        What keys lack, `relay.shortages` tells.
        """

    async def close(self) -> None:
        """Ends connections."""

    # ---- the roles that every chain has

    @property
    def offers(self) -> Offers:
        """What buyers can be offered."""

    @property
    def terms(self) -> Terms:
        """What options say."""

    @property
    def verifier(self) -> Verifier:
        """Whether wallets answered as they were asked."""

    @property
    def relay(self) -> Relay:
        """What sends settlements."""

    @property
    def observer(self) -> Observer:
        """What the chain proves."""

    @property
    def nodes(self) -> Nodes:
        """How the chain is reached."""

    # ---- the roles that some have

    @property
    def blocks(self) -> Blocks | None:
        """What reads blocks; None if only what is final is told, whenever the head moved."""

    @property
    def direct(self) -> DirectSettlement | None:
        """What others settle; None where nobody but Florin can."""

    @property
    def account_nonces(self) -> AccountNonces | None:
        """The senders' nonces; None where numbers only tell our own transactions apart."""

    @property
    def gas(self) -> Gas | None:
        """Who uses how much gas; None where a fee does not depend on what is computed."""

    @property
    def payouts(self) -> Payouts | None:
        """What pays out of the treasury; None if its key is not here."""

    @property
    def treasury_history(self) -> TreasuryHistory | None:
        """What the treasury signed; None if its nonces tell that, or its key is not here."""

    @property
    def durable_nonces(self) -> DurableNonces | None:
        """The durable nonces for buyers who sign slowly; None on chains without such."""

    @property
    def token_accounts(self) -> TokenAccounts | None:
        """What opens accounts before they receive; None where none has to be opened."""

    @property
    def faucet(self) -> Faucet | None:
        """What gives test money to buyers; None on all chains but those of tests."""


def submits(rail: Rail, option: Option) -> bool:
    """True if we send the transaction that pays an option; False if the buyer's wallet does."""
    return rail.direct is None or not rail.direct.is_direct(option)
