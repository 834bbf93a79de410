"""Operator of a running service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from florin.v1 import operator_pb2_grpc
from florin_server.app.service import FlorinService
from google.protobuf.message import Message

from tests.support.api import to_api_call_error


class OperatorStub:
    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._stub = operator_pb2_grpc.OperatorServiceStub(channel)
        self._metadata = (("authorization", f"Bearer {token}"),)

    async def call(self, method: str, request: Message) -> Any:
        """Return the answer; on an error, raise the refusal that REST would return."""
        try:
            return await getattr(self._stub, method)(request, metadata=self._metadata, timeout=120)
        except grpc.aio.AioRpcError as error:
            raise to_api_call_error(error) from error


@asynccontextmanager
async def open_operator(service: FlorinService) -> AsyncIterator[OperatorStub]:
    async with grpc.aio.insecure_channel(service.grpc.operator_target) as channel:
        yield OperatorStub(channel, service.secrets.operator_token)
