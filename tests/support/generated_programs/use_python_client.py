"""Use the client of openapi-python-client."""

import importlib
import os
import pkgutil

import florin_client
from florin_client import AuthenticatedClient
from florin_client.api.payments import cancel_payment, create_payment, create_refund, get_payment
from florin_client.models import (
    AmountValueInput,
    CheckoutUrlsInput,
    CreatePaymentRequest,
    CreateRefundRequest,
)

for module in pkgutil.walk_packages(florin_client.__path__, "florin_client."):
    importlib.import_module(module.name)
client = AuthenticatedClient(
    base_url=os.environ["FLORIN_BASE_URL"],
    token=os.environ["FLORIN_PARTNER_KEY"],
    prefix="",
    auth_header_name="Api-Key",
)
merchant_id = os.environ["FLORIN_MERCHANT_ID"]
urls = CheckoutUrlsInput(success_url="https://shop.example/ok", error_url="https://shop.example/no")
amount = AmountValueInput(unit="iso4217/USD", value="1250")
order = CreatePaymentRequest(amount=amount, checkout=urls)
created = create_payment.sync(client=client, merchant_id=merchant_id, body=order)
payment_id = created.payment_id
read = get_payment.sync(payment_id, client=client, merchant_id=merchant_id)
cancelled = cancel_payment.sync(payment_id, client=client, merchant_id=merchant_id)
request = CreateRefundRequest(payment_id=payment_id)
refused = create_refund.sync(client=client, merchant_id=merchant_id, body=request)
print(read.checkout.success_url, cancelled.status, refused.code)
