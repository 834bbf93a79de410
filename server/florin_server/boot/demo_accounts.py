"""The demo accounts of an empty installation, and the file that tells them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from florin_server.boot.home import Refused
from florin_server.boot.service import Service
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.solana import SOLNET
from florin_server.domain.accounts.credentials import hash_key, parse_key
from florin_server.domain.errors import FlorinError
from florin_server.domain.payments.payment import Destination
from florin_server.flows.accounts import demo
from florin_server.flows.accounts.own_accounts import reserved
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.store.accounts import keys

_log = logging.getLogger(__name__)

CLIENT_ID = "florin-demo-client"
_CHAIN = f"eip155:{DEVNET.chain_id}"
# what the file tells, of the chains that run; the references are made of it
VARIABLES: Mapping[str, str] = {
    "FLORIN_BASE_URL": "where REST is served",
    "FLORIN_GRPC_TARGET": "where gRPC is served, `host:port`",
    "FLORIN_PARTNER_KEY": "API key of the test partner, for a merchant's back end",
    "FLORIN_MERCHANT_ID": "the test merchant of that partner",
    "FLORIN_WALLET_KEY": "API key of a wallet with a back end",
    "FLORIN_APP_ID": "public id of a wallet app without one",
    "FLORIN_CLIENT_ID": "a device of that wallet app",
    "FLORIN_EVM_RPC_URL": "JSON-RPC of the embedded EVM chain",
    "FLORIN_EVM_CHAIN": "its CAIP-2 id",
    "FLORIN_EVM_ASSET": "CAIP-19 id of a token on it",
    "FLORIN_MERCHANT_DESTINATION": "CAIP-10 account on it where the test merchant is paid",
    "FLORIN_SOLANA_RPC_URL": "JSON-RPC of the embedded Solana chain",
    "FLORIN_SOLANA_CHAIN": "its CAIP-2 id",
    "FLORIN_SOLANA_ASSET": "CAIP-19 id of a token on it",
    "FLORIN_SOLANA_DESTINATION": "CAIP-10 account on it where the test merchant is paid",
}


async def ensure_demo(service: Service) -> str | None:
    """Makes the accounts in an empty store; refreshes the addresses in demo.env otherwise.

    Returns the checkout link of a first payment, if the accounts were made now.

    What goes into the file is written aside before the accounts are stored, and put in place after
    it: there is no demo.env whose keys do not work, and no stored account whose credentials nobody
    knows, whatever happens in between. Refused if the demo merchant would be one of us.
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
        home.prepare_demo_env({**_credentials(made), **_addresses(service)})
        await demo.store(app, made)
        home.publish_demo_env()
        try:
            return app.links.of((await demo.first_payment(app, made)).id)
        except FlorinError as refused:
            # settings may leave dollars out, or let nothing tell what the least amount is in them
            _log.warning("there is no first payment to look at: %s", refused)
            return None
    await _recover(service)
    if known := home.read_demo_env():
        home.write_demo_env({**known, **_addresses(service)})
    return None


async def _recover(service: Service) -> None:
    """Puts credentials in place that a start which died had stored already; drops any others."""
    text = service.home.prepared_demo_env().get("FLORIN_PARTNER_KEY", "")
    parsed = parse_key(text)
    if parsed is not None:
        found = await service.app.store.read(keys.key_by_id(parsed.key_id))
        if found is not None and found.hash == hash_key(service.secrets.pepper, text):
            service.home.publish_demo_env()
    service.home.drop_demo_env()


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
