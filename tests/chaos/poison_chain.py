"""Cause the EVM chain's faults in a round of the poison-pill campaign."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from eth_account import Account
from florin_server.domain.chains.evm import abi
from florin_server.money.settlement.store import chain_txs
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.protocol import Rail
from florin_server.settings.limits import FailedFeeSettings

from tests.chaos.poison_round import Round
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    wait_faucet_booked,
)
from tests.support.service_harness import ServiceHarness
from tests.support.solana import SolanaNodeClient
from tests.support.wallet import EvmTestWallet

_GWEI = 10**9
_CHEAP, _DEAR = _GWEI, 40 * _GWEI
_MISSED_BLOCKS = 4  # blocks that come while no worker runs
_RECONCILE_S = 11  # the pause after which workers compare all open items with the chain
_TURNS = 3
_UNUSED_ADDRESS = "0x" + "99" * 20


class ChainFaults:
    """Missed blocks, gaps, rising fees, a reorganization; on Solana, unlanded transactions."""

    def __init__(self, desk: ServiceHarness, node: SolanaNodeClient, current: Round) -> None:
        self._desk, self._node, self._current = desk, node, current
        self._chain, self._app = desk.chain, desk.service.app
        secrets = desk.service.secrets
        self._keys = [EvmSigner(secrets.relayer_key), EvmSigner(secrets.treasury_key)]
        self._secrets = [secrets.relayer_key, secrets.treasury_key]
        self._foreign_hashes: list[str] = []

    async def leave_balance(self, wallet: EvmTestWallet, value: int) -> None:
        """Leave a wallet at most `value` dollar units."""
        await wait_faucet_booked(self._desk, wallet)
        rest = await self._chain.balance(wallet.address, DOLLAR) - value
        data = (
            abi.encode_selector("transfer(address,uint256)")
            + abi.encode_address(_UNUSED_ADDRESS)
            + abi.encode_uint256(rest)
        )
        await wallet.transact(
            self._chain, gas=200_000, to=bytes.fromhex(DOLLAR[2:]), value=0, data="0x" + data.hex()
        )

    async def stop_mining(self) -> None:
        """Seal unseen blocks, then none; others use our keys in transactions that are not mined."""
        await self._chain.mine(_MISSED_BLOCKS)
        await self._fault(kind="mining", paused=True)
        await self._node.fault("landing", paused=True)
        self._foreign_hashes = [
            await self._use_next_nonce(key.address, secret)
            for key, secret in zip(self._keys, self._secrets, strict=True)
        ]

    async def raise_fees(self, front_run: Callable[[], Awaitable[object]]) -> None:
        """Drop others' transactions of our keys, then raise the gas price above our offers.

        Call `front_run` while they wait. Solana's transactions wait for the same time.
        """
        await self._current.attempt(self._all_waiting)
        # everything that waits is compared with the chains
        self._desk.clock.advance(_RECONCILE_S)
        for _ in range(_TURNS):
            await self._current.turn()
        await self._node.fault("clear")
        await self._fault(kind="evict", transactions=self._foreign_hashes)
        await self._fault(kind="baseFee", wei=hex(_DEAR))
        await self._fault(kind="mining", paused=False)
        await front_run()
        await self._current.attempt(self._are_all_sealed)
        await self.recover()

    async def recover(self) -> None:
        """End the lasting faults."""
        await self._node.fault("clear")
        await self._fault(kind="clear")
        await self._fault(kind="baseFee", wei=hex(_CHEAP))

    async def revert_next(self, send: Callable[[], Awaitable[object]]) -> None:
        """Make the next sealed transaction fail, after `send` causes one."""
        await self._fault(kind="revert", times=1)
        await send()
        await self._current.attempt(self._has_reverted)
        await self.recover()

    async def _has_reverted(self) -> bool:
        armed = await self._chain.ask("florin_fault", {"kind": "list"})
        return not any(item["kind"] == "revert" for item in armed)

    async def idle(self) -> None:
        """Let blocks come while nothing is pending."""
        await self._chain.mine(_MISSED_BLOCKS)
        self._desk.clock.advance(_RECONCILE_S)
        for _ in range(_TURNS):
            await self._current.turn()
            await self._chain.mine()

    async def undo(self, hashes: list[str]) -> None:
        """Replace the blocks of transactions, without the transactions."""
        receipts = [await self._chain.ask("eth_getTransactionReceipt", text) for text in hashes]
        head = int(await self._chain.ask("eth_blockNumber"), 16)
        depth = head + 1 - min(int(receipt["blockNumber"], 16) for receipt in receipts)
        await self._fault(kind="reorg", depth=depth, drop=hashes)

    async def _all_waiting(self) -> bool:
        return all([await self._count_waiting(rail, key) for rail, key in self._all_keys()])

    async def _are_all_sealed(self) -> bool:
        """Seal an expensive block; return whether nothing waits any more."""
        results = [await self._count_waiting(rail, key) for rail, key in self._all_keys()]
        await self._fault(kind="baseFee", wei=hex(_DEAR))
        await self._chain.mine()
        return not any(results)

    async def _count_waiting(self, rail: Rail, key: str) -> int:
        return len(await self._app.store.read(chain_txs.list_open(rail.chain_id, key)))

    def _all_keys(self) -> Iterator[tuple[Rail, str]]:
        """Yield every signing key with its rail."""
        for rail in self._app.rails.values():
            for key in (*rail.senders, *([rail.payouts.sender] if rail.payouts else ())):
                yield rail, key

    async def _use_next_nonce(self, address: str, secret: bytes) -> str:
        """Use the next nonce of one of our keys; return the transaction."""
        nonce = int(await self._chain.ask("eth_getTransactionCount", address, "latest"), 16)
        fields = {
            "chainId": int(CHAIN.partition(":")[2]),
            "nonce": nonce,
            "gas": 21_000,
            "maxFeePerGas": 10 * _GWEI,
            "maxPriorityFeePerGas": _GWEI,
            "value": 0,
            # as in the setup of a chain: any other use of the key would pause payouts
            "to": bytes.fromhex(DEPLOYER[2:]),
        }
        raw = Account.sign_transaction(fields, secret).raw_transaction
        return str(await self._chain.ask("eth_sendRawTransaction", "0x" + bytes(raw).hex()))

    async def _fault(self, **what: Any) -> None:
        await self._chain.ask("florin_fault", what)


def crowd_fees(desk: ServiceHarness) -> None:
    """Limit Solana's budget for lost fees to one payment at a time."""
    plenty = 10**12
    fees = FailedFeeSettings.model_construct(payer=plenty, app=1, chain=plenty)
    desk.service.app.settings.__dict__["failed_fees"] = fees
