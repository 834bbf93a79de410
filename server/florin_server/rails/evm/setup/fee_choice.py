"""Choosing the token that a key pays fees with, on chains that charge fees in a token.

Tempo charges a transaction in the token that its account chose. Without a choice the token depends
on the call, so that a payout would be charged in what it pays out.
"""

from __future__ import annotations

from florin_server.chains.evm import abi
from florin_server.rails.evm.gas_money import (
    FEE_MANAGER,
    SET_USER_TOKEN,
    ask_choice,
    choice_problem,
)
from florin_server.rails.evm.setup.deployment import NotDeployed, Step, StepSender


class FeeChoice(StepSender):
    """The choice of one key on one chain that has a `fee_token`."""

    async def is_made(self) -> bool:
        """Return whether the key has chosen the chain's fee token."""
        return await self._problem() is None

    async def making(self) -> Step:
        """Return what makes the choice. NotDeployed if the key cannot afford it."""
        chosen = SET_USER_TOKEN + abi.address(self._chain.fee_token or "")
        return await self._affordable(FEE_MANAGER, chosen, 0)

    async def check(self) -> None:
        """Raise NotDeployed unless the choice is made."""
        if (problem := await self._problem()) is not None:
            raise NotDeployed(f"{self._chain.name}: {problem}")

    async def _problem(self) -> str | None:
        signer = self._signer.address
        (answer,) = await self._node.batch([ask_choice(signer)])
        return choice_problem(self._chain, signer, answer)
