"""Transactions that send home what payments' addresses still hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from florin_server.domain.caip import parse_asset
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm import forwarder
from florin_server.rails.evm.gas_money import to_native_units
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading.dry_run import DryRun, DryRunner
from florin_server.rails.evm.sending.data_fees import DataFeeReader
from florin_server.rails.evm.sending.fees import GAS_BASE, compute_payment_share
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import AddressSweep, SignedTransaction

# besides the transfers of the assets: the address gets its code (measured: 42,000)
_CREATION_GAS: Final = 100_000
# a whole sweep of one asset in a transaction of several (measured: 65,000)
_USUAL_GAS: Final = 70_000
_ITEMS_MAX: Final = 50
_SWEEP_SAMPLE: Final = forwarder.build_sweep_sample()


class EvmAddressSweeper:
    """Implement the AddressSweeper protocol."""

    def __init__(
        self,
        chain: EvmChainSettings,
        signers: Sequence[EvmSigner],
        runs: DryRunner,
        shares: GasShares,
        data_fees: DataFeeReader,
    ) -> None:
        self._chain = chain
        self._signers: Mapping[str, EvmSigner] = {signer.address: signer for signer in signers}
        self._runs = runs
        self._shares = shares
        self._data_fees = data_fees

    async def estimate_cost(self) -> int:
        """Return the usual cost of one address and asset, in minor units of the native asset."""
        fees = await self._runs.fees.get_recent()
        # offers are twice the base fee
        price = (fees.max_fee - fees.tip) // 2 + fees.tip
        data_fee = await self._data_fees.get_recent(_SWEEP_SAMPLE)
        gas = _USUAL_GAS + self._shares.address_surcharge
        return to_native_units(self._chain, price * gas + data_fee)

    async def check(self, sweeps: Sequence[AddressSweep]) -> list[bool]:
        """Return for each sweep whether it would move something if it were sent now."""
        items = [self._to_item(sweep) for sweep in sweeps]
        answers = await self._runs.run(
            [
                DryRun(
                    item.route.forwarder, forwarder.encode_sweep_one(item), GAS_BASE + 2 * item.gas
                )
                for item in items
            ]
        )
        return [not isinstance(answer, RpcError) for answer in answers]

    def select_first(self, sweeps: Sequence[AddressSweep]) -> Sequence[AddressSweep]:
        """Return as many of the first sweeps as one transaction can make."""
        gas, selected = self._chain.gas_max - GAS_BASE - self._shares.base_surcharge, 0
        for sweep in sweeps[:_ITEMS_MAX]:
            if sweep.route.forwarder != sweeps[0].route.forwarder:
                break
            item = self._to_item(sweep)
            gas -= compute_payment_share(item.gas, len(item.encode()))
            if gas < 0:
                break
            selected += 1
        return sweeps[:selected]

    async def sign(
        self, sender: str, nonce: int, sweeps: Sequence[AddressSweep]
    ) -> SignedTransaction:
        """Sign, with a relayer's key, the single transaction that makes the sweeps."""
        items = [self._to_item(sweep) for sweep in sweeps]
        data = forwarder.encode_sweep(items)
        gas = sum(compute_payment_share(item.gas, len(item.encode())) for item in items)
        return self._signers[sender].sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await self._runs.fees.get_current(),
            gas=min(self._shares.compute_transaction_gas(gas, len(data)), self._chain.gas_max),
            to=items[0].route.forwarder,
            data=data,
        )

    def _to_item(self, sweep: AddressSweep) -> forwarder.Sweep:
        tokens = tuple(
            ZERO_ADDRESS if asset == self._chain.coin_asset else parse_asset(asset).reference
            for asset in sweep.assets
        )
        gas = _CREATION_GAS + sum(
            self._shares.get_payment_gas(token, by_key=True) for token in tokens
        )
        return forwarder.Sweep(sweep.route, tokens, gas)
