"""What the commands about chains share: which one is meant, and what a node serves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from florin_server.boot import stores
from florin_server.boot.home import Home, Refused, Secrets
from florin_server.chains.solana.spl import pubkey
from florin_server.config import Settings
from florin_server.domain.caip import checksum_address, evm_address
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc, RpcError
from florin_server.rails.evm.reading.node import quantity
from florin_server.rails.evm.setup.bytecode import bytecode
from florin_server.rails.evm.setup.deployment import Contract
from florin_server.rails.networks import registry
from florin_server.rails.networks.chain_files import Chain
from florin_server.rails.networks.network import Network
from florin_server.rails.types import RailUnavailable
from florin_server.store.engine.query import StoreError

_REFERENCE_MAX = 32  # what CAIP-2 takes of a Solana genesis hash


@dataclass(frozen=True, slots=True)
class Reached:
    """A node that answered, and the chain (CAIP-2) that it serves."""

    rpc: JsonRpc
    chain_id: str
    network: Network | None

    @property
    def is_solana(self) -> bool:
        """True for Solana clusters, False for EVM chains."""
        return self.chain_id.startswith("solana:")

    @property
    def number(self) -> int:
        """An EVM chain's id."""
        return int(self.chain_id.partition(":")[2])

    @property
    def title(self) -> str:
        """The chain for people."""
        return self.chain_id if self.network is None else f"{self.network.name} ({self.chain_id})"


def settlement_contract() -> Contract:
    """What `florin chain deploy` puts on a chain."""
    return _contract("PaySettler")


def opener_contract() -> Contract:
    """What it puts there for accounts that do not exist yet, if it is told to."""
    return _contract("Opener")


def _contract(name: str) -> Contract:
    made = bytecode(name)
    return Contract(made.init, made.runtime)


async def known_factories(rpc: JsonRpc, title: str, given: Iterable[str]) -> list[str]:
    """Factories of accounts, with their checksums. Refused if one is no contract on the chain."""
    found = []
    for one in given:
        try:
            address = evm_address(one)
        except ValueError as error:
            raise Refused(f"the factory {one} is no address") from error
        if await rpc.call("eth_getCode", address, "latest") in {"0x", None}:
            raise Refused(f"{title}: the factory {one} is no contract")
        found.append(checksum_address(address))
    if len(set(found)) != len(found):
        raise Refused("a factory is named twice")
    return found


async def own_secrets(settings: Settings, home: Home) -> Secrets:
    """The installation's secrets, whether it runs or not."""
    if home.addresses() is not None:
        return home.open().secrets()
    try:
        # they are made on first use, by one process at a time
        home.open()
        store = await stores.opened(settings)
    except StoreError as error:
        raise Refused(str(error)) from error
    try:
        home.keep_private()
        return home.secrets()
    finally:
        await store.close()


def named(settings: Settings, name: str) -> Chain:
    """The chain of a name, a CAIP-2 id or a file's name. Refused if there is none, or several."""
    wanted = name.casefold()
    configured: tuple[Chain, ...] = (*settings.chains, *settings.solana_chains)
    found = [
        chain
        for chain in configured
        if wanted in {chain.name.casefold(), chain.caip2.casefold(), slug(chain.name)}
    ]
    if not found:
        raise Refused(f"no chain is named {name}; `florin chain list` tells those that are")
    if len(found) > 1:
        raise Refused(f"several chains are named {name}: say which by its CAIP-2 id")
    return found[0]


def slug(name: str) -> str:
    """A name as a file may have it."""
    return "-".join("".join(one if one.isalnum() else " " for one in name.casefold()).split())


@asynccontextmanager
async def reach(url: str) -> AsyncIterator[Reached]:
    """Asks a node which chain it serves. Refused if it is no node."""
    try:
        rpc = JsonRpc(HttpTransport(url))
    except ValueError as error:
        raise Refused(str(error)) from error
    try:
        chain_id = await _served(rpc)
        yield Reached(rpc, chain_id, registry.network(chain_id))
    except RailUnavailable as fault:
        raise Refused(f"the node cannot be used: {fault}") from fault
    finally:
        await rpc.close()


async def _served(rpc: JsonRpc) -> str:
    try:
        return f"eip155:{quantity(await rpc.call('eth_chainId'))}"
    except RpcError:
        pass
    try:
        genesis = await rpc.call("getGenesisHash")
        return f"solana:{str(pubkey(str(genesis)))[:_REFERENCE_MAX]}"
    except (RpcError, ValueError):
        raise Refused("the node serves neither an EVM chain nor Solana") from None
