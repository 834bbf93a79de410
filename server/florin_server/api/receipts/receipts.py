"""Calls about receipts, and about the keys that sign them."""

from __future__ import annotations

from typing import Any

from florin.v1 import receipt_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.call import get_caller
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.receipts.keys import ReceiptKey, find_signing_key
from florin_server.features.receipts.service import keys
from florin_server.features.receipts.service.receipt import sign_receipt
from florin_server.money.payments.service.load import get_payment


class ReceiptCalls:
    """Receipts for merchants."""

    _app: ApiContext

    async def GetReceipt(
        self, request: receipt_pb2.GetReceiptRequest, context: Any
    ) -> receipt_pb2.GetReceiptResponse:
        """Return the signed receipt of a payment."""
        payment = await get_payment(self._app, get_caller(), request.payment_id)
        signed_receipt = await sign_receipt(self._app, payment, is_public=False)
        return receipt_pb2.GetReceiptResponse(
            receipt=signed_receipt.jws,
            key_id=signed_receipt.key_id,
            issued_at=to_timestamp(signed_receipt.receipt.iat * 1_000_000),
            page_url=signed_receipt.page_url,
        )


class ReceiptKeyCalls:
    """The operator's calls about receipt keys."""

    _app: ApiContext

    async def ListReceiptKeys(
        self, request: receipt_pb2.ListReceiptKeysRequest, context: Any
    ) -> receipt_pb2.ListReceiptKeysResponse:
        """List the keys."""
        found_keys = await keys.list_keys(self._app)
        signs = find_signing_key(found_keys, self._app.clock.now_us())
        receipt_keys = [_to_receipt_key(key, signs=key is signs) for key in found_keys]
        return receipt_pb2.ListReceiptKeysResponse(keys=receipt_keys)

    async def RotateReceiptKey(
        self, request: receipt_pb2.RotateReceiptKeyRequest, context: Any
    ) -> receipt_pb2.RotateReceiptKeyResponse:
        """Create a key, which signs after it has been published for a while."""
        return receipt_pb2.RotateReceiptKeyResponse(
            key=_to_receipt_key(await keys.rotate(self._app))
        )

    async def RevokeReceiptKey(
        self, request: receipt_pb2.RevokeReceiptKeyRequest, context: Any
    ) -> receipt_pb2.RevokeReceiptKeyResponse:
        """Remove a key from the published keys."""
        revoked = await keys.revoke(self._app, request.key_id)
        return receipt_pb2.RevokeReceiptKeyResponse(key=_to_receipt_key(revoked))


def _to_receipt_key(key: ReceiptKey, *, signs: bool = False) -> receipt_pb2.ReceiptKey:
    revoked_at_us = key.revoked_at_us
    return receipt_pb2.ReceiptKey(
        key_id=key.id,
        created_at=to_timestamp(key.created_at_us),
        signs=signs,
        revoked_at=None if revoked_at_us is None else to_timestamp(revoked_at_us),
    )
