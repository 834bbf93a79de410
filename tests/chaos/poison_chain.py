"""What befalls the EVM chain in a round of the poison-pill campaign."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from eth_account import Account
from florin_server.chains.evm import abi
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.protocol import Rail
from florin_server.store.settlement import chain_txs

from tests.chaos.poison_round import Round
from tests.support.desk import Desk
from tests.support.payout_shop import CHAIN, DOLLAR, filled
from tests.support.solana import SolanaNode
from tests.support.wallet import Wallet

_GWEI = 10**9
_CHEAP, _DEAR = _GWEI, 40 * _GWEI
_MISSED = 4  # blocks that come while nobody works
_RECONCILE_S = 11  # after which workers compare all that is open with the chain
_TURNS = 3
_NOBODY = "0x" + "99" * 20


class Troubles:
    """Missed blocks, gaps, fees that rise, and a reorganization; on Solana what does not land."""

    def __init__(self, desk: Desk, node: SolanaNode, this: Round) -> None:
        self._desk, self._node, self._this = desk, node, this
        self._chain, self._app = desk.chain, desk.service.app
        secrets = desk.service.secrets
        self._keys = [Signer(secrets.relayer_key), Signer(secrets.treasury_key)]
        self._secrets = [secrets.relayer_key, secrets.treasury_key]
        self._rivals: list[str] = []

    async def leave(self, wallet: Wallet, value: int) -> None:
        """Leave a wallet no more than a value of the dollar."""
        await filled(self._desk, wallet)
        rest = await self._chain.balance(wallet.address, DOLLAR) - value
        data = abi.selector("transfer(address,uint256)") + abi.address(_NOBODY) + abi.number(rest)
        await wallet.transact(
            self._chain, gas=200_000, to=bytes.fromhex(DOLLAR[2:]), value=0, data="0x" + data.hex()
        )

    async def stop(self) -> None:
        """Seal blocks that nobody sees, then none; others use our keys and are not mined."""
        await self._chain.mine(_MISSED)
        await self._fault(kind="mining", paused=True)
        await self._node.fault("landing", paused=True)
        self._rivals = [
            await self._rival(key.address, secret)
            for key, secret in zip(self._keys, self._secrets, strict=True)
        ]

    async def fail(self, front: Callable[[], Awaitable[object]]) -> None:
        """Lose what others sent with our keys; then gas costs more than our transactions offer.

        `front` is done while they wait. What is sent on Solana waits for as long.
        """
        await self._this.attempt(self._all_waiting)
        # everything that waits is compared with the chains
        self._desk.clock.advance(_RECONCILE_S)
        for _ in range(_TURNS):
            await self._this.turn()
        await self._node.fault("clear")
        await self._fault(kind="evict", transactions=self._rivals)
        await self._fault(kind="baseFee", wei=hex(_DEAR))
        await self._fault(kind="mining", paused=False)
        await front()
        await self._this.attempt(self._is_through)
        await self.recover()

    async def recover(self) -> None:
        """End what lasts."""
        await self._node.fault("clear")
        await self._fault(kind="clear")
        await self._fault(kind="baseFee", wei=hex(_CHEAP))

    async def revert_next(self, sent: Callable[[], Awaitable[object]]) -> None:
        """Have the next transaction that is sealed fail, once something has it sent."""
        await self._fault(kind="revert", times=1)
        await sent()
        await self._this.attempt(self._has_reverted)
        await self.recover()

    async def _has_reverted(self) -> bool:
        armed = await self._chain.ask("florin_fault", {"kind": "list"})
        return not any(one["kind"] == "revert" for one in armed)

    async def idle(self) -> None:
        """Let blocks come while nothing is waited for."""
        await self._chain.mine(_MISSED)
        self._desk.clock.advance(_RECONCILE_S)
        for _ in range(_TURNS):
            await self._this.turn()
            await self._chain.mine()

    async def undo(self, hashes: list[str]) -> None:
        """Replace the blocks of transactions, without them."""
        receipts = [await self._chain.ask("eth_getTransactionReceipt", one) for one in hashes]
        head = int(await self._chain.ask("eth_blockNumber"), 16)
        depth = head + 1 - min(int(one["blockNumber"], 16) for one in receipts)
        await self._fault(kind="reorg", depth=depth, drop=hashes)

    async def _all_waiting(self) -> bool:
        return all([await self._waiting(rail, key) for rail, key in self._all_keys()])

    async def _is_through(self) -> bool:
        """Seal a block that costs much; return whether nothing waits any more."""
        found = [await self._waiting(rail, key) for rail, key in self._all_keys()]
        await self._fault(kind="baseFee", wei=hex(_DEAR))
        await self._chain.mine()
        return not any(found)

    async def _waiting(self, rail: Rail, key: str) -> int:
        return len(await self._app.store.read(chain_txs.open_txs(rail.chain_id, key)))

    def _all_keys(self) -> Iterator[tuple[Rail, str]]:
        """Yield every key that signs transactions, with its rail."""
        for rail in self._app.rails.values():
            for key in (*rail.senders, *([rail.payouts.sender] if rail.payouts else ())):
                yield rail, key

    async def _rival(self, address: str, secret: bytes) -> str:
        """Use the next nonce of a key of ours; return the transaction."""
        nonce = int(await self._chain.ask("eth_getTransactionCount", address, "latest"), 16)
        fields = {
            "chainId": int(CHAIN.partition(":")[2]),
            "nonce": nonce,
            "gas": 21_000,
            "maxFeePerGas": 10 * _GWEI,
            "maxPriorityFeePerGas": _GWEI,
            "value": 0,
            # as setting a chain up does: another use of the key would pause payouts
            "to": bytes.fromhex(DEPLOYER[2:]),
        }
        raw = Account.sign_transaction(fields, secret).raw_transaction
        return str(await self._chain.ask("eth_sendRawTransaction", "0x" + bytes(raw).hex()))

    async def _fault(self, **what: Any) -> None:
        await self._chain.ask("florin_fault", what)
