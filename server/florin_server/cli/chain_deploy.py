"""`florin chain deploy`: puts Florin's contracts on a chain, once and at one address each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from florin_server.boot.chain_setup import named, opener_contract, own_secrets, settlement_contract
from florin_server.boot.home import Home, Refused
from florin_server.boot.keys import Keyring
from florin_server.cli.console import console, fail, note, settings_of
from florin_server.cli.talk import Talk
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.caip import checksum_address
from florin_server.rails.base import RailUnavailable
from florin_server.rails.evm.deployment import (
    DEPLOYER_WEI,
    Contract,
    Deployment,
    NotDeployed,
    Step,
    coins,
)
from florin_server.rails.evm.node import Node
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.transactions import Signer
from florin_server.rails.jsonrpc import HttpTransport, JsonRpc, RpcError


def run(given: dict[str, Any], name: str, *, opener: bool, yes: bool) -> None:
    """Prints each contract's address; ends the program if one is not there afterwards."""
    try:
        asyncio.run(_run(settings_of(given), name, Talk(quiet=yes), opener=opener))
    except (Refused, NotDeployed, RailUnavailable, OSError) as error:
        fail("Not deployed", error)


async def _run(settings: Settings, name: str, talk: Talk, *, opener: bool) -> None:
    home = Home(settings.home)
    if home.addresses() is not None:
        raise Refused("Florin runs and may use the relayer's key: stop it first")
    chain = named(settings, name)
    if not isinstance(chain, EvmChain):
        raise Refused(f"{chain.name} needs no settlement contract")
    keys = Keyring(settings, await own_secrets(home))
    signer = keys.relayers(chain)[0]
    await deploy(chain, signer, talk)
    if opener:
        await _ensure(chain, signer, opener_contract(), "opener", talk)


async def deploy(chain: EvmChain, signer: Signer, talk: Talk) -> None:
    """Puts the contract there unless it is, and prints its address."""
    contract = settlement_contract()
    if chain.settler != contract.address:
        raise NotDeployed(
            f"{chain.name} settles through {chain.settler}, which is not where this puts Florin's "
            f"contract: {contract.address}"
        )
    await _ensure(chain, signer, contract, "settlement contract", talk)


async def _ensure(
    chain: EvmChain, signer: Signer, contract: Contract, title: str, talk: Talk
) -> None:
    async with _work(chain, signer, contract) as work:
        if await work.there():
            note(f"{chain.name} has the {title} already, and it is Florin's.")
        else:
            await _put(work, chain, contract, title, talk)
    console.print(checksum_address(contract.address))


async def is_there(chain: EvmChain, signer: Signer) -> bool:
    """True if the chain has Florin's contract. NotDeployed if it has another in its place."""
    async with _work(chain, signer, settlement_contract()) as work:
        return await work.there()


@asynccontextmanager
async def _work(chain: EvmChain, signer: Signer, contract: Contract) -> AsyncIterator[Deployment]:
    if not chain.rpc_urls:
        raise NotDeployed(f"the chain {chain.name} has no rpc_url")
    rpc = JsonRpc(HttpTransport(chain.rpc_urls[0]), batch_max=chain.batch_max)
    try:
        yield Deployment(Node(rpc), chain, signer, contract, SystemClock())
    except RpcError as refusal:
        raise NotDeployed(f"{chain.name}: the node refused: {refusal}") from refusal
    finally:
        await rpc.close()


async def _put(
    work: Deployment, chain: EvmChain, contract: Contract, title: str, talk: Talk
) -> None:
    if not await work.has_deployer():
        note(
            f"{chain.name} has no deterministic deployer yet: making it takes "
            f"{coins(DEPLOYER_WEI)} of the coin."
        )
        funding = await work.funding()
        if funding is not None:
            _agree(talk, "Pay for it", funding)
            await work.perform(funding)
        await work.put_deployer()
    making = await work.making()
    note(f"The {title} will be at {checksum_address(contract.address)}.")
    _agree(talk, "Deploy it", making)
    tx_hash = await work.perform(making)
    if not await work.there():
        raise NotDeployed(f"{chain.name}: {tx_hash} worked, but the contract is not there")
    note(f"Deployed in {tx_hash}.")


def _agree(talk: Talk, what: str, step: Step) -> None:
    cost = f"at most {coins(step.cost)} of the coin ({step.gas} gas)"
    if not talk.sure(f"{what} for {cost}?", usual=True):
        raise NotDeployed("you said no")
    note(f"{what}: {cost}.")
