"""`florin chain deploy`: puts Florin's contracts on a chain, once and at one address each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from florin_server.boot.chains.keys import Keyring
from florin_server.boot.chains.setup import (
    known_factories,
    named,
    opener_contract,
    own_secrets,
    settlement_contract,
)
from florin_server.boot.home import Home, Refused, private
from florin_server.cli.console import console, fail, note, told_line
from florin_server.cli.prompt import Prompt
from florin_server.cli.settings import settings_of
from florin_server.clock import SystemClock
from florin_server.config import Settings
from florin_server.domain.caip import checksum_address
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc, RpcError
from florin_server.rails.evm.gas_money import name_of
from florin_server.rails.evm.reading.node import Node
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.setup.deployment import (
    DEPLOYER_WEI,
    Contract,
    Deployment,
    NotDeployed,
    Step,
    coins,
)
from florin_server.rails.evm.setup.discovery import find_settler_fault
from florin_server.rails.evm.setup.fee_choice import FeeChoice
from florin_server.rails.networks import chain_files, chain_writer
from florin_server.rails.types import RailUnavailable


@dataclass(frozen=True, slots=True)
class Wanted:
    """A contract that a chain is to have, and what it is called."""

    title: str
    contract: Contract

    async def is_there(self, chain: EvmChain, signer: Signer) -> bool:
        """True if the chain has it. NotDeployed if it has another in its place."""
        async with _work(chain, signer, self.contract) as work:
            return await work.there()

    async def ensure(self, chain: EvmChain, signer: Signer, prompt: Prompt) -> None:
        """Puts it there unless it is, and prints its address."""
        async with _work(chain, signer, self.contract) as work:
            if await work.there():
                note(f"{chain.name} has the {self.title} already, and it is Florin's.")
            else:
                await _put(work, chain, self, prompt)
        address = checksum_address(self.contract.address)
        if not told_line({"contract": self.title, "address": address}):
            console.print(address)


def wanted(chain: EvmChain) -> tuple[Wanted, ...]:
    """What a chain's settings take of Florin's contracts. NotDeployed if they settle elsewhere."""
    settlement = settlement_contract()
    if chain.settler != settlement.address:
        raise NotDeployed(
            f"{chain.name} settles through {chain.settler}, which is not where this puts Florin's "
            f"contract: {settlement.address}. With --replace new payments use the new one, and the "
            "other is still followed"
        )
    opener = opener_contract()
    more = (Wanted("opener", opener),) if chain.opener == opener.address else ()
    return (Wanted("settlement contract", settlement), *more)


def run(
    given: dict[str, Any],
    name: str,
    *,
    opener: bool,
    factories: tuple[str, ...],
    replace: bool,
    yes: bool,
) -> None:
    """Prints each contract's address; ends the program if one is not there afterwards."""
    wishes = Wishes(opener or bool(factories), factories, replace)
    try:
        asyncio.run(_run(settings_of(given), name, wishes, Prompt(quiet=yes)))
    except (Refused, NotDeployed, RailUnavailable, RpcError, OSError) as error:
        fail("Not deployed", error)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Whether accounts are to be created on first use, and by which factories.

    `replace` puts this release's settlement contract in place of another one, which becomes former.
    """

    opener: bool
    factories: tuple[str, ...]
    replace: bool = False


async def _run(settings: Settings, name: str, wishes: Wishes, prompt: Prompt) -> None:
    home = Home(settings.home)
    if home.addresses() is not None:
        raise Refused("Florin runs and may use the relayer's key: stop it first")
    chain = named(settings, name)
    if not isinstance(chain, EvmChain):
        raise Refused(f"{chain.name} needs no settlement contract")
    keys = Keyring(settings, await own_secrets(settings, home))
    signer = keys.relayers(chain)[0]
    changed = chain
    if wishes.opener:
        async with _node(chain) as rpc:
            more = await known_factories(rpc, chain.name, wishes.factories)
        lower = (*chain.factories, *(one.lower() for one in more))
        update = {"opener": opener_contract().address, "factories": tuple(dict.fromkeys(lower))}
        changed = chain.model_copy(update=update)
    if wishes.replace:
        changed = await replace_settler(changed)
    for one in wanted(changed):
        await one.ensure(changed, signer, prompt)
    treasury = keys.treasury(chain)
    for key in (*keys.relayers(chain), *((treasury,) if treasury else ())):
        await choose_fee_token(changed, key, prompt)
    if changed != chain:
        _write_down(settings, chain, changed)


async def replace_settler(chain: EvmChain) -> EvmChain:
    """Return the chain with this release's contract, and its present one among the former.

    NotDeployed if the present one is of another version: what is paid through it would not be seen.
    """
    new = settlement_contract().address
    if chain.settler == new:
        return chain
    async with _node(chain) as rpc:
        fault = await find_settler_fault(Node(rpc), chain)
    if fault is not None:
        raise NotDeployed(
            f"{fault}: it cannot be followed beside the new one. Wait until no payment is open, "
            "then name the new one in the chain's file"
        )
    former = dict.fromkeys(one for one in (*chain.former_settlers, chain.settler) if one != new)
    return chain.model_copy(update={"settler": new, "former_settlers": tuple(former)})


def _write_down(settings: Settings, before: EvmChain, chain: EvmChain) -> None:
    """Put what changed into the chain's file, or print what florin.toml lacks."""
    said: dict[str, Any] = {}
    if chain.settler != before.settler:
        said["settler"] = checksum_address(chain.settler)
        said["former_settlers"] = [checksum_address(one) for one in chain.former_settlers]
    if (chain.opener, chain.factories) != (before.opener, before.factories):
        said["opener"] = checksum_address(chain.opener or "")
        said["factories"] = [checksum_address(one) for one in chain.factories]
    path = chain_files.path_of(settings.home, chain.caip2)
    if path is None:
        note(f"{chain.name} is in your florin.toml. Write into its table yourself:")
        for line in chain_writer.lines(said):
            note(line)
        return
    private(path, chain_writer.changed(path.read_text(), said)).close()
    note(f"Wrote {' and '.join(said)} to {path}.")


@asynccontextmanager
async def _node(chain: EvmChain) -> AsyncIterator[JsonRpc]:
    if not chain.rpc_urls:
        raise NotDeployed(f"the chain {chain.name} has no rpc_url")
    rpc = JsonRpc(HttpTransport(chain.rpc_urls[0]), batch_max=chain.batch_max)
    try:
        yield rpc
    except RpcError as refusal:
        raise NotDeployed(f"{chain.name}: the node refused: {refusal}") from refusal
    finally:
        await rpc.close()


@asynccontextmanager
async def _work(chain: EvmChain, signer: Signer, contract: Contract) -> AsyncIterator[Deployment]:
    async with _node(chain) as rpc:
        yield Deployment(Node(rpc), chain, signer, contract, SystemClock())


async def _put(work: Deployment, chain: EvmChain, one: Wanted, prompt: Prompt) -> None:
    if not await work.has_deployer():
        note(
            f"{chain.name} has no deterministic deployer yet: making it takes "
            f"{coins(DEPLOYER_WEI)} of the coin."
        )
        funding = await work.funding()
        if funding is not None:
            _agree(prompt, chain, "Pay for it", funding)
            await work.perform(funding)
        await work.put_deployer()
    making = await work.making()
    note(f"The {one.title} will be at {checksum_address(one.contract.address)}.")
    _agree(prompt, chain, "Deploy it", making)
    tx_hash = await work.perform(making)
    if not await work.there():
        raise NotDeployed(f"{chain.name}: {tx_hash} worked, but the contract is not there")
    note(f"Deployed in {tx_hash}.")


async def choose_fee_token(chain: EvmChain, signer: Signer, prompt: Prompt) -> None:
    """Has a key pay fees in the chain's fee token; does nothing where gas is paid in a coin."""
    if chain.fee_token is None:
        return
    async with _node(chain) as rpc:
        choice = FeeChoice(Node(rpc), chain, signer, SystemClock())
        if await choice.is_made():
            return
        making = await choice.making()
        what = f"Have {checksum_address(signer.address)} pay fees in {chain.fee_token}"
        _agree(prompt, chain, what, making)
        await choice.perform(making)
        await choice.check()


def _agree(prompt: Prompt, chain: EvmChain, what: str, step: Step) -> None:
    cost = f"at most {coins(step.cost)} of {name_of(chain)} ({step.gas} gas)"
    if not prompt.sure(f"{what} for {cost}?", usual=True):
        raise NotDeployed("you said no")
    note(f"{what}: {cost}.")
