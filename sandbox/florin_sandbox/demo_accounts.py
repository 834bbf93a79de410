"""The demo accounts of an empty installation, and the file that lists them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from florin_server.accounts.service.own_accounts import find_reserved_role
from florin_server.accounts.store import keys
from florin_server.app.home import SetupError
from florin_server.app.sandbox import SandboxService
from florin_server.domain.accounts.credentials import hash_key, parse_key
from florin_server.domain.errors import ApiError
from florin_server.domain.payments.payment import Destination
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.solana.sending.signer import SolanaSigner

from florin_sandbox import demo
from florin_sandbox.devnet.genesis import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET

_log = logging.getLogger(__name__)

CLIENT_ID = "florin-demo-client"
_CHAIN = f"eip155:{DEVNET.chain_id}"
# the content of the file, for the running chains; the references are generated from it
DEMO_VARIABLES: Mapping[str, str] = {
    "FLORIN_BASE_URL": "address of REST",
    "FLORIN_GRPC_TARGET": "address of gRPC, `host:port`",
    "FLORIN_PARTNER_KEY": "API key of the test partner, for a merchant's back end",
    "FLORIN_MERCHANT_ID": "the test merchant of that partner",
    "FLORIN_WALLET_KEY": "API key of a wallet with a back end",
    "FLORIN_APP_ID": "public id of a wallet app without a back end",
    "FLORIN_CLIENT_ID": "a device of that wallet app",
    "FLORIN_EVM_RPC_URL": "JSON-RPC of the embedded EVM chain",
    "FLORIN_EVM_CHAIN": "its CAIP-2 id",
    "FLORIN_EVM_ASSET": "CAIP-19 id of a token on it",
    "FLORIN_MERCHANT_DESTINATION": "CAIP-10 account on it that receives the test merchant's money",
    "FLORIN_SOLANA_RPC_URL": "JSON-RPC of the embedded Solana chain",
    "FLORIN_SOLANA_CHAIN": "its CAIP-2 id",
    "FLORIN_SOLANA_ASSET": "CAIP-19 id of a token on it",
    "FLORIN_SOLANA_DESTINATION": "CAIP-10 account on it that receives the test merchant's money",
}


async def ensure_demo_accounts(service: SandboxService) -> str | None:
    """Create the accounts in an empty store; otherwise refresh the addresses in demo.env.

    Return the checkout link of a first payment, if the accounts were created now.

    The content of the file is written aside before the accounts are stored, and put in place after
    it: demo.env never has keys that do not work, and no account is stored whose credentials are
    lost, even after an interruption. SetupError if the demo merchant would be an account of Florin.
    """
    if service.evm_chain is None and service.solana_chain is None:
        return None
    home, app = service.home, service.app
    if await demo.is_empty(app):
        paid_to = _get_destinations(service)
        for account in paid_to.values():
            if what := find_reserved_role(app.rails.values(), account):
                raise SetupError(f"demo_destination_key in secrets.json is the key of {what}")
        accounts = demo.build(app, service.secrets.pepper, paid_to)
        home.prepare_demo_env({**_format_credentials(accounts), **_get_addresses(service)})
        await demo.store(app, accounts)
        home.publish_demo_env()
        try:
            return app.links.get_url((await demo.create_first_payment(app, accounts)).id)
        except ApiError as refused:
            # the settings can leave out dollars, or have no price for the minimum amount in them
            _log.warning("the first demo payment could not be created: %s", refused)
            return None
    await _recover_credentials(service)
    if demo_env := home.read_demo_env():
        home.write_demo_env({**demo_env, **_get_addresses(service)})
    return None


async def _recover_credentials(service: SandboxService) -> None:
    """Put credentials in place that an interrupted start had stored; drop any others."""
    text = service.home.read_prepared_demo_env().get("FLORIN_PARTNER_KEY", "")
    parsed = parse_key(text)
    if parsed is not None:
        key = await service.app.store.read(keys.find_key(parsed.key_id))
        if key is not None and key.hash == hash_key(service.secrets.pepper, text):
            service.home.publish_demo_env()
    service.home.drop_demo_env()


def _get_destinations(service: SandboxService) -> dict[str, str]:
    """Return the destinations of the demo merchant, by asset."""
    destinations = {}
    if service.evm_chain is not None:
        address = EvmSigner(service.secrets.demo_destination_key).address
        destinations[f"{_CHAIN}/erc20:{DEVNET.token.address}"] = f"{_CHAIN}:{address}"
    if service.solana_chain is not None:
        owner = SolanaSigner(service.secrets.solana_destination_seed).address
        for token in SOLANA_DEVNET.tokens:
            destinations[f"{SOLANA_DEVNET.chain_id}/token:{token.address}"] = (
                f"{SOLANA_DEVNET.chain_id}:{owner}"
            )
    return destinations


def _format_credentials(accounts: demo.DemoAccounts) -> dict[str, str]:
    return {
        "FLORIN_PARTNER_KEY": accounts.partner_key,
        "FLORIN_MERCHANT_ID": accounts.merchant.id,
        "FLORIN_WALLET_KEY": accounts.wallet_key,
        "FLORIN_APP_ID": accounts.wallet.app_id,
        "FLORIN_CLIENT_ID": CLIENT_ID,
        **_format_evm_credentials(accounts),
        **_format_solana_credentials(accounts),
    }


def _format_evm_credentials(accounts: demo.DemoAccounts) -> dict[str, str]:
    if (place := _find_first_destination(accounts, "eip155:")) is None:
        return {}
    return {
        "FLORIN_EVM_CHAIN": _CHAIN,
        "FLORIN_EVM_ASSET": place.asset,
        "FLORIN_MERCHANT_DESTINATION": place.account,
    }


def _format_solana_credentials(accounts: demo.DemoAccounts) -> dict[str, str]:
    if (place := _find_first_destination(accounts, "solana:")) is None:
        return {}
    return {
        "FLORIN_SOLANA_CHAIN": SOLANA_DEVNET.chain_id,
        "FLORIN_SOLANA_ASSET": place.asset,
        "FLORIN_SOLANA_DESTINATION": place.account,
    }


def _find_first_destination(accounts: demo.DemoAccounts, namespace: str) -> Destination | None:
    """Return the demo merchant's first destination on a kind of chain."""
    return next(
        (place for place in accounts.destinations if place.asset.startswith(namespace)), None
    )


def _get_addresses(service: SandboxService) -> dict[str, str]:
    chain, cluster = service.evm_chain, service.solana_chain
    solana = {"FLORIN_SOLANA_RPC_URL": cluster.rpc_url} if cluster else {}
    return {
        "FLORIN_BASE_URL": service.http_url,
        "FLORIN_GRPC_TARGET": service.grpc.target,
        "FLORIN_EVM_RPC_URL": chain.rpc_url if chain else "",
        **solana,
    }
