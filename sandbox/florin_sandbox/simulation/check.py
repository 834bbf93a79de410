"""Audit the state that a simulation leaves behind, with the same auditor as the chaos runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from florin_server.domain.ledger import accounts
from florin_server.money.ledger.service import books
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.solana.sending.signer import SolanaSigner

from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_sandbox.simulation.audit.auditor import Auditor
from florin_sandbox.simulation.audit.blocks import AuditedEvmChain
from florin_sandbox.simulation.audit.facts import SqliteAuditedStore
from florin_sandbox.simulation.audit.target import (
    ETHER,
    EUR,
    EVM,
    MINTS,
    SOL,
    USD,
    AuditBaseline,
    AuditTarget,
)
from florin_sandbox.simulation.environment import SimulationEnvironment
from florin_sandbox.simulation.scenario import PaymentScenario

_PAGE = 1_000


def build_target(stage: SimulationEnvironment) -> AuditTarget:
    """Return the installation as an audit target, from its first day on."""
    service = stage.service
    installation_secrets = service.secrets
    return AuditTarget(
        store=SqliteAuditedStore(service.home.database_path),
        evm=stage.nodes["evm"].call,
        solana=stage.nodes["solana"].call,
        relayers=(EvmSigner(installation_secrets.relayer_key).address,),
        solana_relayer=SolanaSigner(installation_secrets.solana_relayer_seed).address,
        treasuries=(
            EvmSigner(installation_secrets.treasury_key).address,
            SolanaSigner(installation_secrets.solana_treasury_seed).address,
        ),
        merchant_accounts=tuple(
            account
            for shop in stage.merchants
            for account in (shop.evm_account, shop.solana_account)
            if account
        ),
        confirmations=service.settings.embedded.confirmations,
    )


async def start_audit(stage: SimulationEnvironment) -> AuditTarget:
    """Return the installation as an audit target, with a baseline that excludes earlier use."""
    ground = build_target(stage)
    judge = Auditor(ground, {})
    evm, solana = (
        f"{EVM}:{ground.treasuries[0]}",
        f"{SOLANA_DEVNET.chain_id}:{ground.treasuries[1]}",
    )
    places = [
        (accounts.GAS, ETHER),
        *((account, SOL) for account in (accounts.GAS, accounts.RENT)),
        *((accounts.wallet(evm), asset) for asset in (USD, EUR, ETHER)),
        *((accounts.wallet(solana), asset) for asset in MINTS),
    ]
    since = AuditBaseline(
        block=int(await ground.evm("eth_blockNumber"), 16),
        signatures=frozenset(await _read_signatures(ground)),
        booked_amounts={place: judge.get_balance(*place) for place in places},
    )
    return replace(ground, baseline=since)


async def _read_signatures(ground: AuditTarget) -> list[str]:
    """Return the newest signatures of Florin's own accounts on Solana."""
    signatures = []
    for address in (ground.solana_relayer, ground.treasuries[1]):
        page = await ground.solana("getSignaturesForAddress", address, {"limit": _PAGE})
        signatures += [entry["signature"] for entry in page]
    return signatures


async def run_audit(
    stage: SimulationEnvironment, ground: AuditTarget, stories: Sequence[PaymentScenario]
) -> list[str]:
    """Return everything that the audit cannot explain, one sentence each.

    Call it only when nothing is in progress any more.
    """
    ground = replace(ground, merchant_accounts=build_target(stage).merchant_accounts)
    report = {
        scenario.payment_id: [status for _, status in scenario.seen_statuses]
        for scenario in stories
    }
    judge = Auditor(ground, report)
    judge.check_payments()
    judge.check_refunds(
        {scenario.payment_id for scenario in stories if scenario.refund_status == "succeeded"}
    )
    judge.check_books()
    chain = AuditedEvmChain(addresses=judge.addresses)
    await chain.read(ground)
    judge.check_events(chain)
    judge.check_returned()
    await judge.check_addresses(chain)
    judge.check_journal(chain)
    await judge.check_nonces()
    await judge.check_evm_balances(chain)
    await judge.check_solana()
    return [*judge.problems, *await _check_wallets(stage)]


async def _check_wallets(stage: SimulationEnvironment) -> list[str]:
    """Return the problems of the service's own ledger check, which must match all wallets."""
    check = await books.check(stage.service.app)
    wrong = [
        line
        for line in check.reconciliation.lines
        if line.status is not books.ReconciliationStatus.EXACT
    ]
    return [*check.problems, *map(books.describe, wrong)]
