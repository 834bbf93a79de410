"""Money that comes when nobody waits for it, and what goes back."""

from __future__ import annotations

from typing import Any

from florin.v1 import payout_pb2
from florin_server.devnet.evm import DEVNET

from tests.support.desk import Desk
from tests.support.installation import operator_of
from tests.support.payout_shop import CHAIN, DOLLAR, USD, Shop, filled
from tests.support.until import until
from tests.support.wallet import MUTE, Wallet

DOLLARS = f"{CHAIN}/erc20:{DOLLAR}"


async def mute(desk: Desk) -> Wallet:
    """A wallet whose account cannot sign for a token: it sends by itself."""
    wallet = Wallet()
    await filled(desk, wallet)
    await wallet.delegate(desk.chain, MUTE)
    return wallet


async def told_to_send(shop: Shop, *wallets: Wallet) -> tuple[str, list[list[dict[str, Any]]]]:
    """A payment, and what each wallet is told to send for it."""
    rest = shop.desk.rest
    made = await rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": USD})
    payment_id = made["paymentId"]
    accounts = [wallet.account for wallet in wallets]
    options = (await rest.options(payment_id, accounts))["options"]
    fetched = []
    for account in accounts:
        (option,) = [one for one in options if one["account"] == account]
        data = option["actions"][0]["data"]["data"]
        fetched.append((await rest.fetch(payment_id, option["id"], data))["actions"])
    return payment_id, fetched


async def payouts_of(desk: Desk, payment_id: str) -> list[Any]:
    async with operator_of(desk.service) as operator:
        found = await operator.ask("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
    return [one for one in found.payouts if one.payment_id == payment_id]


async def returned(desk: Desk, payment_id: str) -> Any:
    """The payout that returns the money of a payment, once it is done."""

    async def statuses() -> list[int]:
        return [one.status for one in await payouts_of(desk, payment_id)]

    await until(statuses, [payout_pb2.PAYOUT_STATUS_DONE])
    (one,) = await payouts_of(desk, payment_id)
    return one


async def submit(desk: Desk, stranger: Wallet, wallet: Wallet, offer: Any) -> str:
    """Settles what a buyer signed, past Florin; the hash of the transaction."""
    from florin_server.rails.evm import settler
    from florin_server.rails.evm.paying.terms import Terms
    from florin_server.rails.evm.sending.fees import KEY_GAS
    from florin_server.store.payments import payments

    found = await desk.service.app.store.read(payments.option(offer.payment_id, offer.option_id))
    assert found is not None
    signature = bytes.fromhex(offer.outputs[0][2:])
    call = settler.settle([Terms.of(found).pay(wallet.address.lower(), signature, KEY_GAS)])
    receipt = await stranger.transact(
        desk.chain, gas=500_000, to=bytes.fromhex(DEVNET.settler[2:]), data="0x" + call.hex()
    )
    return str(receipt["transactionHash"])
