"""`florin chain deploy`: deploy Florin's contracts on a chain, each once, at fixed addresses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from florin_server.app.chains.keys import ChainKeyring
from florin_server.app.chains.setup import (
    check_factories,
    get_chain,
    load_forwarder_contract,
    load_opener_contract,
    load_settlement_contract,
    read_secrets,
)
from florin_server.app.home import SetupError, StateFolder, replace_private_file
from florin_server.base.clock import SystemClock
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json_line,
)
from florin_server.cli.prompt import OperatorPrompt
from florin_server.cli.settings import get_settings
from florin_server.domain.caip import format_checksum_address
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient, RpcError
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.gas_money import get_gas_money_name
from florin_server.rails.evm.reading.node import EvmNode
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.setup.deployment import (
    DEPLOYER_WEI,
    ContractDeployment,
    DeployableContract,
    DeploymentFailed,
    SetupStep,
    format_coins,
)
from florin_server.rails.evm.setup.discovery import find_settler_fault
from florin_server.rails.evm.setup.fee_choice import FeeTokenChoice
from florin_server.rails.evm.setup.forwarder import find_forwarder_fault
from florin_server.rails.networks import chain_files, chain_writer
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings


@dataclass(frozen=True, slots=True)
class PlannedContract:
    """A contract that a chain needs, and its title."""

    title: str
    contract: DeployableContract

    async def is_deployed(self, chain: EvmChainSettings, signer: EvmSigner) -> bool:
        """Return True if the contract is deployed. DeploymentFailed if other code is there."""
        async with _open_deployment(chain, signer, self.contract) as work:
            return await work.is_deployed()

    async def ensure_deployed(
        self, chain: EvmChainSettings, signer: EvmSigner, prompt: OperatorPrompt
    ) -> None:
        """Deploy the contract if it is missing, and print its address."""
        async with _open_deployment(chain, signer, self.contract) as work:
            if await work.is_deployed():
                print_hint(f"{chain.name} already has Florin's {self.title}.")
            else:
                await _deploy_contract(work, chain, self, prompt)
        address = format_checksum_address(self.contract.address)
        if not print_json_line({"contract": self.title, "address": address}):
            console.print(address)


def list_planned_contracts(chain: EvmChainSettings) -> tuple[PlannedContract, ...]:
    """Return Florin's contracts that a chain needs. DeploymentFailed if it uses another settler."""
    settlement = load_settlement_contract()
    if chain.settler != settlement.address:
        raise DeploymentFailed(
            f"{chain.name} settles through {chain.settler}, but this release deploys its contract "
            f"at {settlement.address}: use --replace to settle new payments through the new "
            "contract; Florin still follows the old one"
        )
    opener = load_opener_contract()
    more = (PlannedContract("opener", opener),) if chain.opener == opener.address else ()
    return (PlannedContract("settlement contract", settlement), *more)


def deploy_contracts(
    overrides: dict[str, Any], name: str, options: DeployOptions, *, yes: bool
) -> None:
    """Deploy the contracts, and print their addresses; end the program if one is missing."""
    try:
        asyncio.run(_deploy(get_settings(overrides), name, options, OperatorPrompt(is_quiet=yes)))
    except (SetupError, DeploymentFailed, RailUnavailable, RpcError, OSError) as error:
        fail("Not deployed", error)


@dataclass(frozen=True, slots=True)
class DeployOptions:
    """The options of the command.

    With `takes_opener`, accounts are created at first use, by `factories`. With `takes_forwarder`,
    the contract of payments to addresses is deployed too. With `replace`, this release's settlement
    contract replaces the present one, which becomes a former one.
    """

    takes_opener: bool = False
    takes_forwarder: bool = False
    factories: tuple[str, ...] = ()
    replace: bool = False


async def _deploy(
    settings: Settings, name: str, options: DeployOptions, prompt: OperatorPrompt
) -> None:
    home = StateFolder(settings.home)
    if home.find_addresses() is not None:
        raise SetupError("Florin runs and can use the relayer's key: stop Florin first")
    chain = get_chain(settings, name)
    if not isinstance(chain, EvmChainSettings):
        raise SetupError(f"{chain.name} is not an EVM chain and needs no settlement contract")
    keys = ChainKeyring(settings, await read_secrets(settings, home))
    signer = keys.get_relayers(chain)[0]
    changed = chain
    if options.takes_opener:
        async with _open_node(chain) as rpc:
            more = await check_factories(rpc, chain.name, options.factories)
        lower = (*chain.factories, *(factory.lower() for factory in more))
        update = {
            "opener": load_opener_contract().address,
            "factories": tuple(dict.fromkeys(lower)),
        }
        changed = chain.model_copy(update=update)
    if options.replace:
        changed = await replace_settler(changed)
    for planned_contract in list_planned_contracts(changed):
        await planned_contract.ensure_deployed(changed, signer, prompt)
    if options.takes_forwarder:
        changed = await _deploy_forwarder(changed, signer, prompt)
    treasury = keys.find_treasury(chain)
    for key in (*keys.get_relayers(chain), *((treasury,) if treasury else ())):
        await choose_fee_token(changed, key, prompt)
    if changed != chain:
        _record_in_settings(settings, chain, changed)


async def _deploy_forwarder(
    chain: EvmChainSettings, signer: EvmSigner, prompt: OperatorPrompt
) -> EvmChainSettings:
    """Deploy the forwarder if it is missing; return the chain with it.

    DeploymentFailed if its addresses are not ours.
    """
    contract = load_forwarder_contract()
    await PlannedContract("forwarder", contract).ensure_deployed(chain, signer, prompt)
    async with _open_node(chain) as rpc:
        fault = await find_forwarder_fault(EvmNode(rpc), chain, contract.address)
    if fault is not None:
        raise DeploymentFailed(fault)
    if chain.forwarder is not None and chain.forwarder.address == contract.address:
        return chain
    forwarder = ForwarderSettings(
        **{**(dict(chain.forwarder) if chain.forwarder else {}), "address": contract.address}
    )
    return chain.model_copy(update={"forwarder": forwarder})


async def replace_settler(chain: EvmChainSettings) -> EvmChainSettings:
    """Return the chain with this release's contract, and its present one among the former ones.

    DeploymentFailed if the present one has another version: payments through it would be missed.
    """
    new = load_settlement_contract().address
    if chain.settler == new:
        return chain
    async with _open_node(chain) as rpc:
        fault = await find_settler_fault(EvmNode(rpc), chain)
    if fault is not None:
        raise DeploymentFailed(
            f"{fault}: Florin cannot follow it beside the new contract. Wait until no payment is "
            "open, then set the new contract in the chain's file"
        )
    former = dict.fromkeys(
        settler for settler in (*chain.former_settlers, chain.settler) if settler != new
    )
    return chain.model_copy(update={"settler": new, "former_settlers": tuple(former)})


def _record_in_settings(
    settings: Settings, before: EvmChainSettings, chain: EvmChainSettings
) -> None:
    """Write the changes into the chain's file, or print the lines to add to florin.toml."""
    changes: dict[str, Any] = {}
    if chain.settler != before.settler:
        changes["settler"] = format_checksum_address(chain.settler)
        changes["former_settlers"] = [
            format_checksum_address(former_settler) for former_settler in chain.former_settlers
        ]
    if (chain.opener, chain.factories) != (before.opener, before.factories):
        changes["opener"] = format_checksum_address(chain.opener or "")
        changes["factories"] = [format_checksum_address(factory) for factory in chain.factories]
    if chain.forwarder is not None and chain.forwarder != before.forwarder:
        changes["forwarder"] = _format_forwarder(chain.forwarder)
    path = chain_files.find_path(settings.home, chain.caip2)
    if path is None:
        print_hint(f"{chain.name} is in your florin.toml. Add these lines to its table:")
        for line in chain_writer.format_lines(changes):
            print_hint(line)
        return
    replace_private_file(path, chain_writer.update_file(path.read_text(), changes)).close()
    print_hint(f"Wrote {' and '.join(changes)} to {path}.")


def _format_forwarder(forwarder: ForwarderSettings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, with the address in its usual form."""
    changed = forwarder.model_dump(exclude_defaults=True)
    return changed | {"address": format_checksum_address(forwarder.address)}


@asynccontextmanager
async def _open_node(chain: EvmChainSettings) -> AsyncIterator[JsonRpcClient]:
    if not chain.rpc_urls:
        raise DeploymentFailed(f"chain {chain.name} has no rpc_url: set it in the chain's settings")
    rpc = JsonRpcClient(HttpTransport(chain.rpc_urls[0]), batch_max=chain.batch_max)
    try:
        yield rpc
    except RpcError as refusal:
        raise DeploymentFailed(f"{chain.name}: the node refused a call: {refusal}") from refusal
    finally:
        await rpc.close()


@asynccontextmanager
async def _open_deployment(
    chain: EvmChainSettings, signer: EvmSigner, contract: DeployableContract
) -> AsyncIterator[ContractDeployment]:
    async with _open_node(chain) as rpc:
        yield ContractDeployment(EvmNode(rpc), chain, signer, contract, SystemClock())


async def _deploy_contract(
    deployment: ContractDeployment,
    chain: EvmChainSettings,
    planned_contract: PlannedContract,
    prompt: OperatorPrompt,
) -> None:
    await deployment.require_transient_storage()
    if not await deployment.has_deployer():
        print_hint(
            f"{chain.name} has no deterministic deployer yet: creating it costs "
            f"{format_coins(DEPLOYER_WEI)} of the native coin."
        )
        funding = await deployment.find_funding_step()
        if funding is not None:
            _confirm_cost(prompt, chain, "Pay for the deployer", funding)
            await deployment.perform_step(funding)
        await deployment.deploy_deployer()
    await deployment.require_common_address()
    making = await deployment.build_deployment_step()
    print_hint(
        f"The {planned_contract.title} will be at "
        f"{format_checksum_address(planned_contract.contract.address)}."
    )
    _confirm_cost(prompt, chain, f"Deploy the {planned_contract.title}", making)
    tx_hash = await deployment.perform_step(making)
    if not await deployment.is_deployed():
        raise DeploymentFailed(
            f"{chain.name}: transaction {tx_hash} succeeded, but the contract is missing"
        )
    print_hint(f"Deployed by transaction {tx_hash}.")


async def choose_fee_token(
    chain: EvmChainSettings, signer: EvmSigner, prompt: OperatorPrompt
) -> None:
    """Choose the chain's fee token for a key; do nothing if gas is paid in a native coin."""
    if chain.fee_token is None:
        return
    async with _open_node(chain) as rpc:
        choice = FeeTokenChoice(EvmNode(rpc), chain, signer, SystemClock())
        if await choice.is_made():
            return
        making = await choice.build_choice_step()
        what = f"Let {format_checksum_address(signer.address)} pay fees in {chain.fee_token}"
        _confirm_cost(prompt, chain, what, making)
        await choice.perform_step(making)
        await choice.require_made()


def _confirm_cost(
    prompt: OperatorPrompt, chain: EvmChainSettings, action: str, step: SetupStep
) -> None:
    cost = f"at most {format_coins(step.cost)} of {get_gas_money_name(chain)} ({step.gas} gas)"
    if not prompt.ask_yes_no(f"{action} for {cost}?", default=True):
        raise DeploymentFailed("you answered no")
    print_hint(f"{action}: {cost}.")
