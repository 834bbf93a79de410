"""The embedded Solana chain: a JSON-RPC server whose transactions are executed by LiteSVM.

Importing this package is cheap; the machine is imported when a chain is opened.
"""

from florin_sandbox.devnet.errors import DevChainError
from florin_sandbox.devnet.solana.genesis import SOLANA_DEVNET
from florin_sandbox.devnet.solana.server import SolanaDevChain, SolanaDevSettings

__all__ = ["SOLANA_DEVNET", "DevChainError", "SolanaDevChain", "SolanaDevSettings"]
