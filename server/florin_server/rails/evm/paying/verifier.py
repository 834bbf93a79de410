"""Whether what a wallet returned pays its option, in whatever way it pays."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.payments.payment import Option, ResolvedBuild
from florin_server.domain.settlement.chain_txs import PayerKind
from florin_server.rails.evm.paying import direct
from florin_server.rails.evm.paying.terms import DIRECT_METHOD
from florin_server.rails.evm.paying.verify import Signatures, plausible
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.settings import EvmChain


class EvmVerifier:
    """Implements the Verifier protocol."""

    def __init__(self, node: Node, chain: EvmChain, signatures: Signatures) -> None:
        self._node = node
        self._chain = chain
        self._signatures = signatures

    def plausible(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> bool | None:
        """Whether the outputs may pay the option; None for hashes, and signatures of contracts."""
        if option.method == DIRECT_METHOD:
            return direct.plausible(issued, outputs)
        return plausible(option, outputs)

    async def verify(
        self, option: Option, issued: Sequence[ResolvedBuild], outputs: Sequence[str]
    ) -> PayerKind:
        """Proves that the outputs (JSON texts) pay the option if submitted now; who answers.

        What a wallet sends by itself is proven by the chain alone, later.
        """
        if option.method == DIRECT_METHOD:
            await direct.check(self._node, self._chain, option, issued, outputs)
            return PayerKind.KEY
        return await self._signatures.verify(option, outputs)
