"""A wallet for links: shows the payment, asks its owner, signs, and waits for the final status.

`python examples/wallet.py LINK`. WALLET_KEY is a secret key in hex; without it the wallet creates a
new key, which the test chain funds.
"""

from __future__ import annotations

import os
import secrets
import sys
from decimal import Decimal

from florin.v1.gateway_pb2 import PaymentOption
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED, PaymentStatus
from florin_client import Client, FlorinError
from florin_client.wallet import Wallet, WalletError, plan_payment

# a server can lie about symbols and decimals: pay only with tokens that the wallet knows
TOKENS = {os.environ["FLORIN_EVM_ASSET"].lower(): ("tUSD", 6)}


def main(link: str) -> bool:
    """Pay a link; return True if it succeeds.

    Raise WalletError or FlorinError with the reason if not.
    """
    chain = os.environ["FLORIN_EVM_CHAIN"]
    wallet = Wallet(evm_key=os.environ.get("WALLET_KEY") or secrets.token_bytes(32))
    with Client(
        os.environ["FLORIN_GRPC_TARGET"],
        plaintext=True,  # for a Florin on this machine; omit it elsewhere, to use TLS
        app_id=os.environ["FLORIN_APP_ID"],
        client_id=os.environ["FLORIN_CLIENT_ID"],
    ) as client:
        gateway = client.gateway
        payment = gateway.get_payment(link)
        amount = payment.amount
        symbol, decimals = amount.display.asset_symbol, amount.display.decimals
        price = format_amount(amount.value, symbol, decimals)
        print(escape(f"{payment.merchant.name} asks for {price}"))
        if payment.is_final:
            raise WalletError(f"the payment is already {PaymentStatus.Name(payment.status)}")

        # options: what the accounts of this wallet can pay with
        account = wallet.account(chain)
        offered = gateway.get_payment_options(payment.payment_id, accounts=[account])
        own_options = [option for option in offered.options if option.account == account]
        options = [option for option in own_options if get_asset(option) in TOKENS]
        if not options:
            raise WalletError(f"{account} has no token that pays for it")
        option = options[0]
        if option.HasField("collect_data"):
            raise WalletError(f"the merchant needs more data: {option.collect_data.url}")

        # plan: refused unless the actions take exactly the amount of the option, and nothing else
        actions = gateway.executable_actions(payment.payment_id, option)
        plan = plan_payment(option, actions)
        symbol, decimals = TOKENS[get_asset(option)]
        for line in plan.describe(lambda value: format_amount(value, symbol, decimals)):
            print(escape(line))
        price = format_amount(plan.terms.amount, symbol, decimals)
        if input(f"Pay {price} from {account}? [y/N] ").strip().lower() != "y":
            raise WalletError("nothing was signed")

        # sign the plan as shown
        outputs = wallet.execute_plan(plan)

        # confirm, and wait: the chain decides
        gateway.confirm_payment(payment.payment_id, option_id=option.id, outputs=outputs)
        status = payment.status
        for update in gateway.watch_payment(payment.payment_id, timeout=600):
            status = update.payment.status
            print(PaymentStatus.Name(status), escape(update.payment.info.tx_id))
        return status == PAYMENT_STATUS_SUCCEEDED


def get_asset(option: PaymentOption) -> str:
    """Return the asset of an option in lower case: token addresses come in either case."""
    return option.amount.unit.removeprefix("caip19/").lower()


def format_amount(value: str | int, symbol: str, decimals: int) -> str:
    """Format an amount for people, exactly."""
    return f"{Decimal(f'{value}E-{decimals}'):f} {symbol}"


def escape(text: str) -> str:
    """Replace unprintable characters by `?`: foreign text must not control the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


if __name__ == "__main__":
    try:
        sys.exit(0 if main(sys.argv[1]) else 1)
    except (WalletError, FlorinError, EOFError) as error:
        sys.exit(escape(f"Not paid: {error}"))
