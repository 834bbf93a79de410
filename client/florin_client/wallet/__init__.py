"""A small wallet with local keys, for tests, demos and back ends that make payments.

It executes the actions of an option of the gateway, and refuses actions that do not match the
option. It also sends to a payment's own address, or signs a transfer to it (x402), if the address
follows from its route. Keys stay in memory: store keys of large sums elsewhere. The wallet needs
the extra `wallet`.
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
from florin_client.wallet.plan import PaymentPlan, plan_payment, plan_transfer
from florin_client.wallet.transfers import FORWARDER
from florin_client.wallet.wallet import Wallet, wait_mined
from florin_client.wallet.x402 import (
    X402Answer,
    X402Way,
    encode_x402_header,
    list_x402_ways,
    request_x402,
)
from florin_client.wallet.x402_plan import (
    plan_x402,
    plan_x402_transfer,
    read_blockhash,
    read_permit2_allowance,
)

__all__ = [
    "FORWARDER",
    "JsonRpc",
    "Pause",
    "PaymentPlan",
    "Question",
    "Step",
    "Wallet",
    "WalletError",
    "X402Answer",
    "X402Way",
    "default_max_fee",
    "encode_x402_header",
    "list_x402_ways",
    "plan_payment",
    "plan_transfer",
    "plan_x402",
    "plan_x402_transfer",
    "read_blockhash",
    "read_permit2_allowance",
    "request_x402",
    "steps_of",
    "wait_mined",
]

del _eth_account, _solders
