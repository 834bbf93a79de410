"""Calls about receipts, and about the keys that sign them."""

from __future__ import annotations

from typing import Any

from florin.v1 import receipt_pb2

from florin_server.domain.receipts.keys import ReceiptKey, signer
from florin_server.flows.app import App
from florin_server.flows.payments.load import find
from florin_server.flows.receipts import keys
from florin_server.flows.receipts.receipt import signed
from florin_server.rpc.server.call import caller
from florin_server.rpc.server.timestamps import timestamp


class ReceiptCalls:
    """What merchants ask."""

    _app: App

    async def GetReceipt(
        self, request: receipt_pb2.GetReceiptRequest, context: Any
    ) -> receipt_pb2.GetReceiptResponse:
        """Tells what was paid, signed."""
        payment = await find(self._app, caller(), request.payment_id)
        found = await signed(self._app, payment, public=False)
        return receipt_pb2.GetReceiptResponse(
            receipt=found.jws,
            key_id=found.key_id,
            issued_at=timestamp(found.receipt.iat * 1_000_000),
            page_url=found.page_url,
        )


class ReceiptKeyCalls:
    """What the operator does with keys."""

    _app: App

    async def ListReceiptKeys(
        self, request: receipt_pb2.ListReceiptKeysRequest, context: Any
    ) -> receipt_pb2.ListReceiptKeysResponse:
        """Lists the keys."""
        found = await keys.listed(self._app)
        signs = signer(found, self._app.clock.now_us())
        told = [_key(one, signs=one is signs) for one in found]
        return receipt_pb2.ListReceiptKeysResponse(keys=told)

    async def RotateReceiptKey(
        self, request: receipt_pb2.RotateReceiptKeyRequest, context: Any
    ) -> receipt_pb2.RotateReceiptKeyResponse:
        """Makes a key that signs from soon on."""
        return receipt_pb2.RotateReceiptKeyResponse(key=_key(await keys.rotate(self._app)))

    async def RevokeReceiptKey(
        self, request: receipt_pb2.RevokeReceiptKeyRequest, context: Any
    ) -> receipt_pb2.RevokeReceiptKeyResponse:
        """Takes a key out of the published ones."""
        revoked = await keys.revoke(self._app, request.key_id)
        return receipt_pb2.RevokeReceiptKeyResponse(key=_key(revoked))


def _key(one: ReceiptKey, *, signs: bool = False) -> receipt_pb2.ReceiptKey:
    revoked_at_us = one.revoked_at_us
    return receipt_pb2.ReceiptKey(
        key_id=one.id,
        created_at=timestamp(one.created_at_us),
        signs=signs,
        revoked_at=None if revoked_at_us is None else timestamp(revoked_at_us),
    )
