"""The verification that a wallet's outputs pay their option, for every payment method."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.payments.payment import PaymentOption, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm.paying import direct
from florin_server.rails.evm.paying.terms import DIRECT_METHOD
from florin_server.rails.evm.paying.verify import SignatureVerifier, is_plausible
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.settings import EvmChainSettings


class EvmVerifier:
    """Implement the OutputVerifier protocol."""

    def __init__(
        self, node: EvmNode, chain: EvmChainSettings, signatures: SignatureVerifier
    ) -> None:
        self._node = node
        self._chain = chain
        self._signatures = signatures

    def is_plausible(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> bool | None:
        """Return whether the outputs can pay; None for hashes and contract signatures."""
        if option.method == DIRECT_METHOD:
            return direct.is_plausible(resolved_builds, outputs)
        return is_plausible(option, outputs)

    async def verify(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        outputs: Sequence[str],
    ) -> PayerKind:
        """Prove that the outputs (JSON texts) pay the option if submitted now.

        Return the payer's kind.

        Only the chain can prove, later, a payment that a wallet sends itself.
        """
        if option.method == DIRECT_METHOD:
            await direct.check_outputs(self._node, self._chain, option, resolved_builds, outputs)
            return PayerKind.KEY
        return await self._signatures.verify(option, outputs)
