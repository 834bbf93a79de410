"""The check of a simulation's end: the judge of all runs, on what this one left behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from florin_server.devnet.solana import SOLNET
from florin_server.domain.ledger import accounts
from florin_server.flows.ledger import books
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.simulation.audit.blocks import EvmChain
from florin_server.simulation.audit.ground import ETHER, EUR, EVM, MINTS, SOL, USD, Ground, Since
from florin_server.simulation.audit.judge import Judge
from florin_server.simulation.stage import Stage
from florin_server.simulation.story import Story

_PAGE = 1_000


def ground_of(stage: Stage) -> Ground:
    """The installation, judged from its first day on."""
    service = stage.service
    kept = service.secrets
    return Ground(
        database=service.home.database,
        evm=stage.nodes["evm"].ask,
        solana=stage.nodes["solana"].ask,
        relayers=(Signer(kept.relayer_key).address,),
        solana_relayer=SolanaSigner(kept.solana_relayer_seed).address,
        treasuries=(
            Signer(kept.treasury_key).address,
            SolanaSigner(kept.solana_treasury_seed).address,
        ),
        paid_to=tuple(one for shop in stage.shops for one in (shop.evm, shop.solana) if one),
        confirmations=service.settings.embedded.confirmations,
    )


async def begin(stage: Stage) -> Ground:
    """The same, judged from now on; what was before is somebody else's."""
    ground = ground_of(stage)
    judge = Judge(ground, {})
    evm, solana = (f"{EVM}:{ground.treasuries[0]}", f"{SOLNET.chain_id}:{ground.treasuries[1]}")
    places = [
        (accounts.GAS, ETHER),
        *((one, SOL) for one in (accounts.GAS, accounts.RENT)),
        *((accounts.wallet(evm), asset) for asset in (USD, EUR, ETHER)),
        *((accounts.wallet(solana), asset) for asset in MINTS),
    ]
    since = Since(
        block=int(await ground.evm("eth_blockNumber"), 16),
        signatures=frozenset(await _signatures(ground)),
        booked={place: judge.balance(*place) for place in places},
    )
    return replace(ground, since=since)


async def _signatures(ground: Ground) -> list[str]:
    """The newest transactions of each of ours on Solana."""
    found = []
    for address in (ground.solana_relayer, ground.treasuries[1]):
        page = await ground.solana("getSignaturesForAddress", address, {"limit": _PAGE})
        found += [one["signature"] for one in page]
    return found


async def check(stage: Stage, ground: Ground, stories: Sequence[Story]) -> list[str]:
    """Everything that cannot be explained, one sentence each; nothing is on its way any more."""
    ground = replace(ground, paid_to=ground_of(stage).paid_to)
    told = {one.payment_id: [status for _, status in one.told] for one in stories}
    judge = Judge(ground, told)
    judge.payments()
    judge.refunded({one.payment_id for one in stories if one.refund == "succeeded"})
    judge.books()
    chain = EvmChain()
    await chain.read(ground)
    judge.events(chain)
    judge.returned()
    judge.journal(chain)
    await judge.nonces()
    await judge.evm_balances(chain)
    await judge.solana()
    return [*judge.bad, *await _wallets(stage)]


async def _wallets(stage: Stage) -> list[str]:
    """What the service itself says of its wallets: each holds what is booked."""
    found = await books.check(stage.service.app)
    wrong = [one for one in found.comparison.lines if one.verdict is not books.Verdict.EXACT]
    return [*found.problems, *map(books.describe, wrong)]
