"""The demo accounts of an empty installation, and the file that tells them."""

from __future__ import annotations

from florin_server.boot.service import Service
from florin_server.devnet.genesis import DEVNET
from florin_server.flows import demo
from florin_server.rails.evm.transactions import Signer

CLIENT_ID = "florin-demo-client"


async def ensure_demo(service: Service) -> None:
    """Makes the accounts in an empty store; refreshes the addresses in demo.env otherwise."""
    if service.evm is None:
        return
    home, app = service.home, service.app
    chain = f"eip155:{DEVNET.chain_id}"
    asset = f"{chain}/erc20:{DEVNET.token.address}"
    destination = f"{chain}:{Signer(service.secrets.demo_destination_key).address}"
    known = home.read_demo_env()
    if await demo.is_empty(app):
        made = await demo.create_accounts(app, service.secrets.pepper, destination, asset)
        known = {
            "FLORIN_PARTNER_KEY": made.partner_key,
            "FLORIN_MERCHANT_ID": made.merchant_id,
            "FLORIN_WALLET_KEY": made.wallet_key,
            "FLORIN_APP_ID": made.app_id,
            "FLORIN_CLIENT_ID": CLIENT_ID,
            "FLORIN_EVM_CHAIN": chain,
            "FLORIN_EVM_ASSET": asset,
            "FLORIN_MERCHANT_DESTINATION": destination,
        }
    if known:
        addresses = {
            "FLORIN_BASE_URL": service.http_url,
            "FLORIN_GRPC_TARGET": service.grpc.target,
            "FLORIN_EVM_RPC_URL": service.evm_rpc_url,
        }
        home.write_demo_env({**known, **addresses})
