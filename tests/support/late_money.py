"""Money that arrives late for a payment, and its return."""

from __future__ import annotations

from typing import Any

from florin.v1 import payout_pb2
from florin_sandbox.devnet.evm import DEVNET

from tests.support.installation import open_operator
from tests.support.payout_merchant import CHAIN, DOLLAR, USD, PayoutMerchant, wait_faucet_booked
from tests.support.service_harness import ServiceHarness
from tests.support.until import wait_until
from tests.support.wallet import NON_SIGNING_ADDRESS, EvmTestWallet

DOLLARS = f"{CHAIN}/erc20:{DOLLAR}"


async def make_non_signing_wallet(desk: ServiceHarness) -> EvmTestWallet:
    """Return a wallet whose account cannot sign for a token: it sends transactions itself."""
    wallet = EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    await wallet.delegate(desk.chain, NON_SIGNING_ADDRESS)
    return wallet


async def get_send_actions(
    shop: PayoutMerchant, *wallets: EvmTestWallet
) -> tuple[str, list[list[dict[str, Any]]]]:
    """Create a payment; return its id and the actions that each wallet has to send."""
    rest = shop.service.rest
    created = await rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    payment_id = created["paymentId"]
    accounts = [wallet.account for wallet in wallets]
    options = (await rest.options(payment_id, accounts))["options"]
    fetched = []
    for account in accounts:
        (option,) = [each_option for each_option in options if each_option["account"] == account]
        data = option["actions"][0]["data"]["data"]
        fetched.append((await rest.fetch(payment_id, option["id"], data))["actions"])
    return payment_id, fetched


async def list_payouts(desk: ServiceHarness, payment_id: str) -> list[Any]:
    async with open_operator(desk.service) as operator:
        result = await operator.call("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
    return [payout for payout in result.payouts if payout.payment_id == payment_id]


async def wait_returned(desk: ServiceHarness, payment_id: str) -> Any:
    """Return the payout that returns the money of a payment, once it is done."""

    async def statuses() -> list[int]:
        return [payout.status for payout in await list_payouts(desk, payment_id)]

    await wait_until(statuses, [payout_pb2.PAYOUT_STATUS_DONE])
    (item,) = await list_payouts(desk, payment_id)
    return item


async def submit_authorization(
    desk: ServiceHarness, stranger: EvmTestWallet, wallet: EvmTestWallet, offer: Any
) -> str:
    """Settle a buyer's authorization without Florin; return the hash of the transaction."""
    from florin_server.money.payments.store import payments
    from florin_server.rails.evm import settler
    from florin_server.rails.evm.paying.terms import EvmOptionTerms
    from florin_server.rails.evm.sending.fees import KEY_GAS

    option = await desk.service.app.store.read(
        payments.find_option(offer.payment_id, offer.option_id)
    )
    assert option is not None
    signature = bytes.fromhex(offer.outputs[0][2:])
    call = settler.encode_settle(
        [
            EvmOptionTerms.from_option(option).build_pay_arguments(
                wallet.address.lower(), signature, KEY_GAS
            )
        ]
    )
    receipt = await stranger.transact(
        desk.chain, gas=500_000, to=bytes.fromhex(DEVNET.settler[2:]), data="0x" + call.hex()
    )
    return str(receipt["transactionHash"])
