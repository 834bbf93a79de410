"""The calls that a partner makes about its merchants, told through REST and through gRPC.

Bodies and answers are those of REST; gRPC gets them as the messages that they stand for.
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
from florin_gateway.jsoncodec import Codec
from florin_gateway.profiles import Profile

from tests.support.api import Json, Refused, refused
from tests.support.desk import Desk, Tenant
from tests.support.json import plain

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
_CODEC = Codec()


@dataclass(frozen=True)
class Told:
    body: Json
    replayed: bool


class Account:
    """One partner's calls over one protocol."""

    def __init__(self, tenant: Tenant, protocol: str, **headers: str) -> None:
        self._desk: Desk = tenant.desk
        self._grpc = protocol == "gRPC"
        self._headers = {"Api-Key": tenant.secret, **headers}

    async def ask(
        self,
        name: str,
        body: Mapping[str, Any] | None = None,
        *,
        merchant: str = "",
        id: str = "",  # noqa: A002  (as the path has it)
        key: str | None = None,
    ) -> Told:
        """One call; Refused if it is. A creation always has a key, a new one if none is named."""
        if key is None and CALLS[name][0] == "POST":
            key = uuid4().hex
        headers = {**self._headers, **({} if key is None else {"Idempotency-Key": key})}
        ask = self._over_grpc if self._grpc else self._over_rest
        return await ask(name, dict(body or {}), {"merchant": merchant, "id": id}, headers)

    async def refused(
        self, name: str, body: Mapping[str, Any] | None = None, **where: str
    ) -> Refused:
        """How one call is refused."""
        with pytest.raises(Refused) as caught:
            await self.ask(name, body, **where)
        return caught.value

    async def create(self, *, key: str | None = None, **changes: Any) -> Json:
        """A new merchant."""
        created = await self.ask("CreateMerchant", {**CAFE, **changes}, key=key)
        merchant: Json = created.body["merchant"]
        return merchant

    async def _over_rest(
        self, name: str, body: Json, place: dict[str, str], headers: dict[str, str]
    ) -> Told:
        method, path, _ = CALLS[name]
        path = path.format(**{key: quote(text, safe="") for key, text in place.items()})
        if method == "GET":
            answer = await self._desk.ask(method, f"{path}?{urlencode(body)}", headers)
        else:
            sent = None if method == "DELETE" else body
            answer = await self._desk.ask(method, path, headers, sent)
        if answer.status >= 400:
            raise Refused(answer.status, answer.body)
        assert answer.status == (201 if method == "POST" else 200)
        return Told(answer.body, answer.headers.get("Idempotent-Replayed") == "true")

    async def _over_grpc(
        self, name: str, body: Json, place: dict[str, str], headers: dict[str, str]
    ) -> Told:
        _, _, kind = CALLS[name]
        request = kind()
        # what it finds wrong is for the server to say
        _CODEC.decoder(kind.DESCRIPTOR, Profile.SPEC)(body, request)
        if "merchant_id" in kind.DESCRIPTOR.fields_by_name:
            request.merchant_id = place["merchant"]
        if "id" in kind.DESCRIPTOR.fields_by_name:
            request.id = place["id"]
        stub = admin_pb2_grpc.AdminServiceStub(self._desk.channel)
        metadata = [(key.lower(), text) for key, text in headers.items()]
        call = getattr(stub, name)(request, metadata=metadata, timeout=30)
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            raise refused(error) from error
        trailing = dict(await call.trailing_metadata())
        return Told(plain(answer), trailing.get("idempotent-replayed") == "true")


def told(error: Refused) -> tuple[int, str]:
    """What a refusal comes down to."""
    return error.http, error.code
