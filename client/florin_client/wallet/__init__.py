"""A small wallet with local keys, for tests, demos and back ends that make payments.

It executes the actions of an option of the gateway, and refuses actions that do not match the
option. Keys stay in memory: store keys of large sums elsewhere. The wallet needs the extra
`wallet`.
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
from florin_client.wallet.evm import default_max_fee
from florin_client.wallet.plan import PaymentPlan, plan_payment
from florin_client.wallet.wallet import Wallet

__all__ = [
    "JsonRpc",
    "Pause",
    "PaymentPlan",
    "Question",
    "Step",
    "Wallet",
    "WalletError",
    "default_max_fee",
    "plan_payment",
    "steps_of",
]

del _eth_account, _solders
