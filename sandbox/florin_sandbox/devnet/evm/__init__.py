"""The embedded EVM chain: a JSON-RPC server whose blocks are executed by py-evm.

Importing this package is cheap; py-evm is imported when a chain is opened.
"""

from florin_sandbox.devnet.errors import DevChainError
from florin_sandbox.devnet.evm.server import EvmDevChain, EvmDevSettings
from florin_sandbox.devnet.genesis import DEVNET

__all__ = ["DEVNET", "DevChainError", "EvmDevChain", "EvmDevSettings"]
