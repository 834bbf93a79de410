"""The operator of a running service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from florin.v1 import operator_pb2_grpc
from florin_server.boot.service import Service
from google.protobuf.message import Message

from tests.support.api import refused


class Operator:
    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self._stub = operator_pb2_grpc.OperatorServiceStub(channel)
        self._metadata = (("authorization", f"Bearer {token}"),)

    async def ask(self, method: str, request: Message) -> Any:
        """The answer; Refused, as REST would tell it, if there is none."""
        try:
            return await getattr(self._stub, method)(request, metadata=self._metadata, timeout=30)
        except grpc.aio.AioRpcError as error:
            raise refused(error) from error


@asynccontextmanager
async def operator_of(service: Service) -> AsyncIterator[Operator]:
    async with grpc.aio.insecure_channel(service.grpc.operator_target) as channel:
        yield Operator(channel, service.secrets.operator_token)
