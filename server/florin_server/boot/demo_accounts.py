"""The demo accounts of an empty installation, and the file that tells them."""

from __future__ import annotations

from florin_server.boot.service import Service
from florin_server.devnet.genesis import DEVNET
from florin_server.flows import demo
from florin_server.rails.evm.transactions import Signer

CLIENT_ID = "florin-demo-client"
_CHAIN = f"eip155:{DEVNET.chain_id}"


async def ensure_demo(service: Service) -> str | None:
    """Makes the accounts in an empty store; refreshes the addresses in demo.env otherwise.

    Returns the checkout link of a first payment, if the accounts were made now.

    The file is written before the accounts are stored: whatever happens in between, no stored
    account has credentials that nobody knows.
    """
    if service.evm is None:
        return None
    home, app = service.home, service.app
    if await demo.is_empty(app):
        made = demo.make(app, service.secrets.pepper, *_destination(service))
        home.write_demo_env({**_credentials(made), **_addresses(service)})
        await demo.store(app, made)
        return app.links.of((await demo.first_payment(app, made)).id)
    if known := home.read_demo_env():
        home.write_demo_env({**known, **_addresses(service)})
    return None


def _destination(service: Service) -> tuple[str, str]:
    """Where the demo merchant is paid, and in which asset."""
    address = Signer(service.secrets.demo_destination_key).address
    return f"{_CHAIN}:{address}", f"{_CHAIN}/erc20:{DEVNET.token.address}"


def _credentials(made: demo.DemoAccounts) -> dict[str, str]:
    return {
        "FLORIN_PARTNER_KEY": made.partner_key,
        "FLORIN_MERCHANT_ID": made.merchant.id,
        "FLORIN_WALLET_KEY": made.wallet_key,
        "FLORIN_APP_ID": made.wallet.app_id,
        "FLORIN_CLIENT_ID": CLIENT_ID,
        "FLORIN_EVM_CHAIN": _CHAIN,
        "FLORIN_EVM_ASSET": made.destination.asset,
        "FLORIN_MERCHANT_DESTINATION": made.destination.account,
    }


def _addresses(service: Service) -> dict[str, str]:
    return {
        "FLORIN_BASE_URL": service.http_url,
        "FLORIN_GRPC_TARGET": service.grpc.target,
        "FLORIN_EVM_RPC_URL": service.evm_rpc_url,
    }
