"""Calls that a partner makes about its merchants, over REST and over gRPC.

Bodies and answers use the REST form; for gRPC they are converted to and from the messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import grpc
import pytest
from florin.v1 import account_pb2, admin_pb2_grpc
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.profiles import JsonProfile

from tests.support.api import ApiCallError, Json, to_api_call_error
from tests.support.json import to_json
from tests.support.service_harness import PartnerTenant, ServiceHarness

PROTOCOLS = ("REST", "gRPC")

CAFE = {
    "merchantName": "Café Zürich",
    "merchantEmail": "owner@cafe.example",
    "iconUrl": "https://cafe.example/logo.png",
}

_MERCHANT = "/v1/merchants/{merchant}"
_CRYPTO = f"{_MERCHANT}/settlements/crypto"
# name: method, path, request; the name is the RPC's
CALLS: dict[str, tuple[str, str, Any]] = {
    "CreateMerchant": ("POST", "/v1/merchants", account_pb2.CreateMerchantRequest),
    "ListMerchants": ("GET", "/v1/merchants", account_pb2.ListMerchantsRequest),
    "GetMerchant": ("GET", _MERCHANT, account_pb2.GetMerchantRequest),
    "UpdateMerchant": ("PATCH", _MERCHANT, account_pb2.UpdateMerchantRequest),
    "DeleteMerchant": ("DELETE", _MERCHANT, account_pb2.DeleteMerchantRequest),
    "ListSettlements": ("GET", f"{_MERCHANT}/settlements", account_pb2.ListSettlementsRequest),
    "CreateCryptoSettlements": ("POST", _CRYPTO, account_pb2.CreateCryptoSettlementsRequest),
    "UpdateCryptoSettlement": (
        "PUT",
        _CRYPTO + "/{id}",
        account_pb2.UpdateCryptoSettlementRequest,
    ),
    "DeleteCryptoSettlement": (
        "DELETE",
        _CRYPTO + "/{id}",
        account_pb2.DeleteCryptoSettlementRequest,
    ),
}
_CODEC = JsonCodec()


@dataclass(frozen=True)
class AccountResponse:
    body: Json
    replayed: bool


class PartnerAccount:
    """One partner's calls over one protocol."""

    def __init__(self, tenant: PartnerTenant, protocol: str, **headers: str) -> None:
        self._service: ServiceHarness = tenant.service
        self._grpc = protocol == "gRPC"
        self._headers = {"Api-Key": tenant.secret, **headers}

    async def ask(
        self,
        name: str,
        body: Mapping[str, Any] | None = None,
        *,
        merchant: str = "",
        id: str = "",  # noqa: A002  (the path calls it id)
        key: str | None = None,
    ) -> AccountResponse:
        """Make a call; raise ApiCallError on refusal.

        A creation gets a new key if none is named.
        """
        if key is None and CALLS[name][0] == "POST":
            key = uuid4().hex
        headers = {**self._headers, **({} if key is None else {"Idempotency-Key": key})}
        ask = self._call_grpc if self._grpc else self._call_rest
        return await ask(name, dict(body or {}), {"merchant": merchant, "id": id}, headers)

    async def get_refusal(
        self, name: str, body: Mapping[str, Any] | None = None, **where: str
    ) -> ApiCallError:
        """Return the refusal of a call."""
        with pytest.raises(ApiCallError) as caught:
            await self.ask(name, body, **where)
        return caught.value

    async def create(self, *, key: str | None = None, **changes: Any) -> Json:
        """Create a merchant."""
        created = await self.ask("CreateMerchant", {**CAFE, **changes}, key=key)
        merchant: Json = created.body["merchant"]
        return merchant

    async def _call_rest(
        self, name: str, body: Json, place: dict[str, str], headers: dict[str, str]
    ) -> AccountResponse:
        method, path, _ = CALLS[name]
        path = path.format(**{key: quote(text, safe="") for key, text in place.items()})
        if method == "GET":
            answer = await self._service.ask(method, f"{path}?{urlencode(body)}", headers)
        else:
            sent = None if method == "DELETE" else body
            answer = await self._service.ask(method, path, headers, sent)
        if answer.status >= 400:
            raise ApiCallError(answer.status, answer.body)
        assert answer.status == (201 if method == "POST" else 200)
        return AccountResponse(answer.body, answer.headers.get("Idempotent-Replayed") == "true")

    async def _call_grpc(
        self, name: str, body: Json, place: dict[str, str], headers: dict[str, str]
    ) -> AccountResponse:
        _, _, kind = CALLS[name]
        request = kind()
        # the server validates it
        _CODEC.get_decoder(kind.DESCRIPTOR, JsonProfile.SPEC)(body, request)
        if "merchant_id" in kind.DESCRIPTOR.fields_by_name:
            request.merchant_id = place["merchant"]
        if "id" in kind.DESCRIPTOR.fields_by_name:
            request.id = place["id"]
        stub = admin_pb2_grpc.AdminServiceStub(self._service.channel)
        metadata = [(key.lower(), text) for key, text in headers.items()]
        call = getattr(stub, name)(request, metadata=metadata, timeout=120)
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            raise to_api_call_error(error) from error
        trailing = dict(await call.trailing_metadata())
        return AccountResponse(to_json(answer), trailing.get("idempotent-replayed") == "true")


def to_refusal(error: ApiCallError) -> tuple[int, str]:
    """Return the HTTP status and the code of a refusal."""
    return error.http, error.code
