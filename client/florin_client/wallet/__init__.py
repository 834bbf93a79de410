"""A small wallet with local keys, for tests, demos and back ends that pay by themselves.

It executes what the gateway asks of a wallet, and knows nothing of payments. Keys stay in memory;
whoever holds much money has them elsewhere. It needs the extra `wallet`.
"""

try:
    import eth_account as _eth_account
    import solders as _solders
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"florin_client.wallet needs {error.name}; install it with: "
        "pip install 'florin-client[wallet]'",
        name=error.name,
    ) from None

from florin_client.wallet.actions import Step, WalletError, steps_of
from florin_client.wallet.chains import JsonRpc, Pause, Question
from florin_client.wallet.wallet import Wallet

__all__ = ["JsonRpc", "Pause", "Question", "Step", "Wallet", "WalletError", "steps_of"]

del _eth_account, _solders
