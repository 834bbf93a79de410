"""The choice of the token in which a key pays fees, on chains that charge fees in a token.

Tempo charges a transaction in the token that its account chose. Without a choice the token depends
on the call, so that a payout would be charged in the token that it pays out.
"""

from __future__ import annotations

from florin_server.domain.chains.evm import abi
from florin_server.rails.evm.gas_money import (
    FEE_MANAGER,
    SET_USER_TOKEN,
    build_fee_token_call,
    find_fee_token_problem,
)
from florin_server.rails.evm.setup.deployment import DeploymentFailed, SetupStep, SetupStepSender


class FeeTokenChoice(SetupStepSender):
    """The choice of one key on one chain that has a `fee_token`."""

    async def is_made(self) -> bool:
        """Return whether the key has chosen the chain's fee token."""
        return await self._find_problem() is None

    async def build_choice_step(self) -> SetupStep:
        """Return the step that makes the choice; raise DeploymentFailed if it is not affordable."""
        chosen = SET_USER_TOKEN + abi.encode_address(self._chain.fee_token or "")
        return await self._build_affordable_step(FEE_MANAGER, chosen, 0)

    async def require_made(self) -> None:
        """Raise DeploymentFailed unless the choice is made."""
        if (problem := await self._find_problem()) is not None:
            raise DeploymentFailed(f"{self._chain.name}: {problem}")

    async def _find_problem(self) -> str | None:
        signer = self._signer.address
        (answer,) = await self._node.batch([build_fee_token_call(signer)])
        return find_fee_token_problem(self._chain, signer, answer)
