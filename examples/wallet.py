"""A wallet for links: shows what is asked for, lets its owner agree, signs, and waits for the end.

`python examples/wallet.py LINK`. WALLET_KEY is a secret key in hex; without one there is a new key,
to which the test chain gives money.
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

# a server may lie about symbols and decimals: only what the wallet itself knows is paid with
TOKENS = {os.environ["FLORIN_EVM_ASSET"].lower(): ("tUSD", 6)}


def main(link: str) -> bool:
    """Pays a link; True if it is paid. WalletError or FlorinError tell why it is not."""
    chain = os.environ["FLORIN_EVM_CHAIN"]
    wallet = Wallet(evm_key=os.environ.get("WALLET_KEY") or secrets.token_bytes(32))
    with Client(
        os.environ["FLORIN_GRPC_TARGET"],
        plaintext=True,  # on this machine; elsewhere leave it out, and TLS is spoken
        app_id=os.environ["FLORIN_APP_ID"],
        client_id=os.environ["FLORIN_CLIENT_ID"],
    ) as client:
        gateway = client.gateway
        payment = gateway.get_payment(link)
        asked = payment.amount
        symbol, decimals = asked.display.asset_symbol, asked.display.decimals
        price = shown(asked.value, symbol, decimals)
        print(visible(f"{payment.merchant.name} asks for {price}"))
        if payment.is_final:
            raise WalletError(f"it is {PaymentStatus.Name(payment.status)} already")

        # options: what the accounts of this wallet can pay with
        account = wallet.account(chain)
        offered = gateway.get_payment_options(payment.payment_id, accounts=[account])
        own = [one for one in offered.options if one.account == account]
        options = [one for one in own if asset_of(one) in TOKENS]
        if not options:
            raise WalletError(f"nothing that {account} has pays for it")
        option = options[0]
        if option.HasField("collect_data"):
            raise WalletError(f"the merchant wants to know more: {option.collect_data.url}")

        # plan: refused unless the actions take exactly what the option says, and nothing else
        actions = gateway.executable_actions(payment.payment_id, option)
        plan = plan_payment(option, actions)
        symbol, decimals = TOKENS[asset_of(option)]
        for line in plan.describe(lambda value: shown(value, symbol, decimals)):
            print(visible(line))
        price = shown(plan.terms.amount, symbol, decimals)
        if input(f"Pay {price} from {account}? [y/N] ").strip().lower() != "y":
            raise WalletError("nothing was signed")

        # sign the plan as it was shown
        outputs = wallet.execute_plan(plan)

        # confirm, and wait: the chain decides
        gateway.confirm_payment(payment.payment_id, option_id=option.id, outputs=outputs)
        status = payment.status
        for update in gateway.watch_payment(payment.payment_id, timeout=600):
            status = update.payment.status
            print(PaymentStatus.Name(status), visible(update.payment.info.tx_id))
        return status == PAYMENT_STATUS_SUCCEEDED


def asset_of(option: PaymentOption) -> str:
    """What an option costs, in lower case: a token's address may be written in either."""
    return option.amount.unit.removeprefix("caip19/").lower()


def shown(value: str | int, symbol: str, decimals: int) -> str:
    """An amount for people, exactly."""
    return f"{Decimal(f'{value}E-{decimals}'):f} {symbol}"


def visible(text: str) -> str:
    """Text of others in which nothing steers the terminal: `?` stands for what cannot be shown."""
    return "".join(char if char.isprintable() else "?" for char in text)


if __name__ == "__main__":
    try:
        sys.exit(0 if main(sys.argv[1]) else 1)
    except (WalletError, FlorinError, EOFError) as error:
        sys.exit(visible(f"Not paid: {error}"))
