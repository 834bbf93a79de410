"""Shared parts of the chain commands: the chain of an argument, and the chain of a node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from florin_server.app import stores
from florin_server.app.home import InstallationSecrets, SetupError, StateFolder
from florin_server.db.engine.query import StoreError
from florin_server.domain.caip import format_checksum_address, parse_evm_address
from florin_server.domain.chains.solana.spl import parse_pubkey
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient, RpcError
from florin_server.rails.evm.reading.node import parse_quantity
from florin_server.rails.evm.setup.bytecode import load_bytecode
from florin_server.rails.evm.setup.deployment import DeployableContract
from florin_server.rails.networks import registry
from florin_server.rails.networks.chain_files import AnyChainSettings
from florin_server.rails.networks.network import PublicNetwork
from florin_server.rails.types import RailUnavailable
from florin_server.settings import Settings

_REFERENCE_MAX = 32  # the part of a Solana genesis hash in CAIP-2


@dataclass(frozen=True, slots=True)
class ProbedNode:
    """A node that answered, and the chain (CAIP-2) that it serves."""

    rpc: JsonRpcClient
    chain_id: str
    network: PublicNetwork | None

    @property
    def is_solana(self) -> bool:
        """Return True for Solana clusters, False for EVM chains."""
        return self.chain_id.startswith("solana:")

    @property
    def evm_chain_id(self) -> int:
        """Return the id of an EVM chain."""
        return int(self.chain_id.partition(":")[2])

    @property
    def title(self) -> str:
        """Return the chain for people."""
        return self.chain_id if self.network is None else f"{self.network.name} ({self.chain_id})"


def load_settlement_contract() -> DeployableContract:
    """Return the contract that `florin chain deploy` deploys on a chain."""
    return _load_contract("PaySettler")


def load_opener_contract() -> DeployableContract:
    """Return the contract for accounts that do not exist yet, deployed on request."""
    return _load_contract("Opener")


def load_forwarder_contract() -> DeployableContract:
    """Return the contract of payments to addresses of their own, deployed on request."""
    return _load_contract("PayForwarder")


def _load_contract(name: str) -> DeployableContract:
    bytecode = load_bytecode(name)
    return DeployableContract(bytecode.init, bytecode.runtime)


async def check_factories(rpc: JsonRpcClient, title: str, addresses: Iterable[str]) -> list[str]:
    """Return factories of accounts, with their checksums. SetupError if one is not a contract."""
    factories = []
    for text in addresses:
        try:
            address = parse_evm_address(text)
        except ValueError as error:
            raise SetupError(f"the factory {text} is not a valid address") from error
        if await rpc.call("eth_getCode", address, "latest") in {"0x", None}:
            raise SetupError(f"{title}: the factory {text} is not a contract")
        factories.append(format_checksum_address(address))
    if len(set(factories)) != len(factories):
        raise SetupError("a factory is named twice")
    return factories


async def read_secrets(settings: Settings, home: StateFolder) -> InstallationSecrets:
    """Return the installation's secrets, whether it runs or not."""
    if home.find_addresses() is not None:
        return home.open().get_or_create_secrets()
    try:
        # they are made on first use, by one process at a time
        home.open()
        store = await stores.open_configured_store(settings)
    except StoreError as error:
        raise SetupError(str(error)) from error
    try:
        home.keep_private()
        return home.get_or_create_secrets()
    finally:
        await store.close()


def get_chain(settings: Settings, name: str) -> AnyChainSettings:
    """Return the chain of a name, a CAIP-2 id or a file's name.

    SetupError if none or several match.
    """
    folded_name = name.casefold()
    configured: tuple[AnyChainSettings, ...] = (*settings.chains, *settings.solana_chains)
    chains = [
        chain
        for chain in configured
        if folded_name in {chain.name.casefold(), chain.caip2.casefold(), to_file_name(chain.name)}
    ]
    if not chains:
        raise SetupError(f"no chain has the name {name}; list the chains with `florin chain list`")
    if len(chains) > 1:
        raise SetupError(f"several chains have the name {name}: use the CAIP-2 id")
    return chains[0]


def to_file_name(name: str) -> str:
    """Return a name in the form of a file name."""
    return "-".join(
        "".join(character if character.isalnum() else " " for character in name.casefold()).split()
    )


@asynccontextmanager
async def probe_node(url: str) -> AsyncIterator[ProbedNode]:
    """Ask a node which chain it serves. SetupError if it is not a node."""
    try:
        rpc = JsonRpcClient(HttpTransport(url))
    except ValueError as error:
        raise SetupError(str(error)) from error
    try:
        chain_id = await _read_chain_id(rpc)
        yield ProbedNode(rpc, chain_id, registry.find_network(chain_id))
    except RailUnavailable as fault:
        raise SetupError(f"the node cannot be used: {fault}") from fault
    finally:
        await rpc.close()


async def _read_chain_id(rpc: JsonRpcClient) -> str:
    try:
        return f"eip155:{parse_quantity(await rpc.call('eth_chainId'))}"
    except RpcError:
        pass
    try:
        genesis = await rpc.call("getGenesisHash")
        return f"solana:{str(parse_pubkey(str(genesis)))[:_REFERENCE_MAX]}"
    except (RpcError, ValueError):
        raise SetupError("the node serves neither an EVM chain nor Solana") from None
