"""The demo accounts of an empty installation, and the file that tells them."""

from __future__ import annotations

from florin_server.boot.home import Refused
from florin_server.boot.service import Service
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.payment import Destination
from florin_server.flows import demo
from florin_server.flows.destinations import reserved
from florin_server.rails.evm.transactions import Signer
from florin_server.rails.solana.signer import SolanaSigner

CLIENT_ID = "florin-demo-client"
_CHAIN = f"eip155:{DEVNET.chain_id}"


async def ensure_demo(service: Service) -> str | None:
    """Makes the accounts in an empty store; refreshes the addresses in demo.env otherwise.

    Returns the checkout link of a first payment, if the accounts were made now.

    The file is written before the accounts are stored: whatever happens in between, no stored
    account has credentials that nobody knows. Refused if the demo merchant would be one of us.
    """
    if service.evm is None and service.solana is None:
        return None
    home, app = service.home, service.app
    if await demo.is_empty(app):
        paid_to = _destinations(service)
        for account in paid_to.values():
            if what := reserved(app.rails.values(), account):
                raise Refused(f"demo_destination_key in secrets.json is the key of {what}")
        made = demo.make(app, service.secrets.pepper, paid_to)
        home.write_demo_env({**_credentials(made), **_addresses(service)})
        await demo.store(app, made)
        return app.links.of((await demo.first_payment(app, made)).id)
    if known := home.read_demo_env():
        home.write_demo_env({**known, **_addresses(service)})
    return None


def _destinations(service: Service) -> dict[str, str]:
    """Where the demo merchant is paid, by asset."""
    found = {}
    if service.evm is not None:
        address = Signer(service.secrets.demo_destination_key).address
        found[f"{_CHAIN}/erc20:{DEVNET.token.address}"] = f"{_CHAIN}:{address}"
    if service.solana is not None:
        owner = SolanaSigner(service.secrets.solana_destination_seed).address
        for token in SOLNET.tokens:
            found[f"{SOLNET.chain_id}/token:{token.address}"] = f"{SOLNET.chain_id}:{owner}"
    return found


def _credentials(made: demo.DemoAccounts) -> dict[str, str]:
    return {
        "FLORIN_PARTNER_KEY": made.partner_key,
        "FLORIN_MERCHANT_ID": made.merchant.id,
        "FLORIN_WALLET_KEY": made.wallet_key,
        "FLORIN_APP_ID": made.wallet.app_id,
        "FLORIN_CLIENT_ID": CLIENT_ID,
        **_evm(made),
        **_solana(made),
    }


def _evm(made: demo.DemoAccounts) -> dict[str, str]:
    if (place := _first(made, "eip155:")) is None:
        return {}
    return {
        "FLORIN_EVM_CHAIN": _CHAIN,
        "FLORIN_EVM_ASSET": place.asset,
        "FLORIN_MERCHANT_DESTINATION": place.account,
    }


def _solana(made: demo.DemoAccounts) -> dict[str, str]:
    if (place := _first(made, "solana:")) is None:
        return {}
    return {
        "FLORIN_SOLANA_CHAIN": SOLNET.chain_id,
        "FLORIN_SOLANA_ASSET": place.asset,
        "FLORIN_SOLANA_DESTINATION": place.account,
    }


def _first(made: demo.DemoAccounts, namespace: str) -> Destination | None:
    """The first place on a kind of chain where the demo merchant is paid."""
    return next((place for place in made.destinations if place.asset.startswith(namespace)), None)


def _addresses(service: Service) -> dict[str, str]:
    solana = {"FLORIN_SOLANA_RPC_URL": service.solana_rpc_url} if service.solana else {}
    return {
        "FLORIN_BASE_URL": service.http_url,
        "FLORIN_GRPC_TARGET": service.grpc.target,
        "FLORIN_EVM_RPC_URL": service.evm_rpc_url,
        **solana,
    }
