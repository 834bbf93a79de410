"""A JSON-RPC 2.0 client with one transport, single calls and batches, which checks every answer.

A failure to read an answer raises RailUnavailable: the connection, the time limit, the size limit,
or text that is not a JSON-RPC answer. A refusal by the node itself raises RpcError.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import orjson

from florin_server.rails.connection.settings import BATCH_MAX
from florin_server.rails.types import RailUnavailable

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
METHOD_NOT_FOUND = -32601
_RATE_LIMIT_STATUSES = frozenset({429, 503})  # statuses that can carry a time to retry
_DENIED_STATUSES = frozenset({401, 402, 403, 407})  # about our access, regardless of the body
_SINGLE_CALLS_MAX = 8  # in flight at a node that takes no batches
BATCH_RETRY_S = 600.0  # after this long, large batches are tried again at a node that refused them
# the same after a first answer that is no JSON-RPC, as of a proxy whose node is away for a moment
UNREADABLE_RETRY_S = 5.0
_BUSY_CODES = frozenset({-32005, 429})  # codes of a node that limits requests
_READ_BYTES = 64 * 1024
_REVERT_CODES = frozenset({3, -32015})
_REVERT = "revert"
_EXECUTION_FAILURES = (
    "execution failed",
    "out of gas",
    "invalid opcode",
    "invalid jump",
    "stack underflow",
    "stack limit",
    "write protection",
    "return data out of bounds",
    "evm error",
)

RpcCall: TypeAlias = tuple[str, Sequence[Any]]
"""A method and its parameters."""


# method names that are counted separately; the code uses fewer
_METHODS_MAX = 64
_OTHER_METHODS = "other"


class AnswerTooLarge(RailUnavailable):
    """The answer exceeds the size limit; a smaller request may succeed."""


class UnreadableAnswer(RailUnavailable):
    """The answer is not JSON-RPC, for example a proxy's error page, or empty."""


class NodeTimeout(RailUnavailable):
    """The node did not answer in time."""


class RateLimited(RailUnavailable):
    """The node asked us to wait, for `retry_s` seconds if it said for how long."""

    def __init__(self, message: str, retry_s: float | None) -> None:
        self.retry_s = retry_s
        super().__init__(message)


class RpcError(Exception):
    """A node's refusal of one call."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} ({code})")

    @property
    def is_revert(self) -> bool:
        """Return True if the call was executed and failed: the contract reverted or ran out of gas.

        Code 3 is the convention; other clients name it in the text. The contract itself may write
        the rest of the text, so the rest decides nothing.
        """
        text = self.message.lower()
        if self.code in _REVERT_CODES or _REVERT in text:
            return True
        if "fatalexternalerror" in text:
            return False  # the EVM itself failed: nothing was fully executed
        return any(word in text for word in _EXECUTION_FAILURES)


class ChainRpc(Protocol):
    """A connection to the nodes of one chain."""

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of one call; raise RpcError if the node refuses it."""

    async def batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Return the result or the RpcError of each call, in the order of the calls."""


class RpcTransport(Protocol):
    """A transport that carries one payload to a node and returns its answer."""

    async def send(self, payload: bytes) -> bytes:
        """Return the answer's bytes; raise RailUnavailable if there is no answer."""

    async def close(self) -> None:
        """Close the connections."""


class LocalTransport:
    """A node in the same process."""

    def __init__(self, handler: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._handler = handler

    async def send(self, payload: bytes) -> bytes:
        """Return the handler's answer; raise RailUnavailable if the node fails in any way."""
        try:
            return await self._handler(payload)
        except Exception as fault:
            raise RailUnavailable(f"the node failed: {type(fault).__name__}") from fault

    async def close(self) -> None:
        """Do nothing: another owner closes the node."""


class HttpTransport:
    """A node behind a URL.

    The URL may contain the operator's access key, so only its host is ever named. Redirects are not
    followed: a node has no reason to redirect us, an attacker does.
    """

    def __init__(
        self, url: str, *, timeout_s: float = TIMEOUT_S, answer_bytes_max: int = ANSWER_BYTES_MAX
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("a node's address begins with http:// or https:// and has a host")
        self._url = url
        self._name = parts.hostname
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._answer_bytes_max = answer_bytes_max
        self._session: aiohttp.ClientSession | None = None

    async def send(self, payload: bytes) -> bytes:
        """Post the payload; read the answer of every status that may carry JSON-RPC."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=self._timeout,
                headers={"content-type": "application/json"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        try:
            async with self._session.post(
                self._url, data=payload, allow_redirects=False
            ) as response:
                if response.status in _RATE_LIMIT_STATUSES:
                    raise RateLimited(
                        f"{self._name} answered HTTP {response.status}",
                        _parse_retry_s(response.headers),
                    )
                if response.status in _DENIED_STATUSES:
                    raise RailUnavailable(f"{self._name} answered HTTP {response.status}")
                answer = await self._read(response)
                # nodes put the error object of a refused call into a 400 or a 500
                if response.status != 200 and not _is_envelope(answer):
                    raise UnreadableAnswer(f"{self._name} answered HTTP {response.status}")
                return answer
        except TimeoutError:
            raise NodeTimeout(f"{self._name} did not answer in time") from None
        except (aiohttp.ClientError, OSError) as fault:
            # the error's text may contain the URL
            raise RailUnavailable(f"{self._name}: {type(fault).__name__}") from None

    async def close(self) -> None:
        """Close the connections; a later send opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        answer = bytearray()
        async for piece in response.content.iter_chunked(_READ_BYTES):
            answer += piece
            if len(answer) > self._answer_bytes_max:
                response.close()
                raise AnswerTooLarge(f"the answer of {self._name} exceeds the size limit")
        return bytes(answer)


class JsonRpcClient:
    """A client that calls the methods of one node.

    A batch that the node refuses is sent in halves, in the end as single calls, and later batches
    are no larger for some minutes. After an unreadable answer that lasts for seconds at first, and
    twice as long whenever the next large batch is answered like that too. `calls` counts the
    methods called, `by_method` counts them by name, and `requests` counts the payloads sent.
    """

    def __init__(
        self,
        transport: RpcTransport,
        *,
        timeout_s: float = TIMEOUT_S,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        batch_max: int = BATCH_MAX,
    ) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._answer_bytes_max = answer_bytes_max
        self._batch_limit = batch_max
        self._batch_max = batch_max
        self._batch_retry_at = 0.0
        self._unreadable_size = 0  # of the last batch with an unreadable answer
        self._unreadable_pause_s = UNREADABLE_RETRY_S
        self._single_slots = asyncio.Semaphore(_SINGLE_CALLS_MAX)
        self._ids = itertools.count(1)
        self.call_count = 0
        self.request_count = 0
        self.calls_by_method: Counter[str] = Counter()

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of one call; raise RpcError if the node refuses it."""
        self._count_calls([(method, params)])
        answer = await self._call(method, params)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Return the result or the RpcError of each call, in the order of the calls.

        Calls up to the batch limit make a single payload; more payloads are sent concurrently.
        """
        self._count_calls(calls)
        return await self._send_batches(calls)

    async def close(self) -> None:
        """Close the transport's connections."""
        await self._transport.close()

    def _count_calls(self, calls: Sequence[RpcCall]) -> None:
        self.call_count += len(calls)
        for method, _ in calls:
            fits = method in self.calls_by_method or len(self.calls_by_method) < _METHODS_MAX
            self.calls_by_method[method if fits else _OTHER_METHODS] += 1

    async def _call(self, method: str, params: Sequence[Any]) -> Any:
        """Return the result of one call, or its RpcError."""
        number = next(self._ids)
        return _parse_answer(await self._send(_build_envelope(number, method, params)), number)

    async def _send_batches(self, calls: Sequence[RpcCall]) -> list[Any]:
        """Return an answer for each call, in payloads as large as the node accepts."""
        if self._batch_max < self._batch_limit and time.monotonic() > self._batch_retry_at:
            self._batch_max = self._batch_limit
            # until a batch as large as the unreadable one is answered
            self._unreadable_pause_s = min(2 * self._unreadable_pause_s, BATCH_RETRY_S)
        size = self._batch_max
        parts = [calls[i : i + size] for i in range(0, len(calls), size)]
        answers = await asyncio.gather(*(self._send_batch(part) for part in parts))
        return [answer for part in answers for answer in part]

    async def _send_batch(self, calls: Sequence[RpcCall]) -> list[Any]:
        if self._batch_max == 1:
            async with self._single_slots:
                return [await self._call(method, params) for method, params in calls]
        numbers = [next(self._ids) for _ in calls]
        numbered_calls = zip(numbers, calls, strict=True)
        try:
            answer = await self._send(
                [_build_envelope(n, method, params) for n, (method, params) in numbered_calls]
            )
        except UnreadableAnswer as unreadable:
            return await self._send_smaller(calls, unreadable)
        if (refusal := _find_batch_refusal(answer, len(calls))) is not None:
            fault = RailUnavailable(f"the node did not answer the batch: {refusal}")
            if refusal.code in _BUSY_CODES and "batch" not in refusal.message.lower():
                raise fault
            return await self._send_smaller(calls, fault, str(refusal))
        if len(calls) >= self._unreadable_size:
            self._unreadable_pause_s = UNREADABLE_RETRY_S
        by_number = {
            item["id"]: item
            for item in answer
            if isinstance(item, dict) and isinstance(item.get("id"), int)
        }
        return [_parse_answer(by_number.get(number), number) for number in numbers]

    async def _send_smaller(
        self, calls: Sequence[RpcCall], fault: RailUnavailable, refusal: str = ""
    ) -> list[Any]:
        """Return the answers to a refused batch in smaller batches, and keep the size that works.

        After an unreadable answer only a single call is tried. Raise `fault` if smaller batches
        fail too, or are refused with an equal message.
        """
        before = self._batch_max
        is_unreadable = isinstance(fault, UnreadableAnswer)
        if is_unreadable:
            self._unreadable_size = len(calls)
        size = 1 if is_unreadable else max(1, len(calls) // 2)
        pause_s = self._unreadable_pause_s if is_unreadable else BATCH_RETRY_S
        self._batch_max, self._batch_retry_at = min(before, size), time.monotonic() + pause_s
        try:
            first = await self._send_batch(calls[:size])
        except RailUnavailable:
            first = []
        if all(isinstance(answer, RpcError) and str(answer) == refusal for answer in first):
            # the size was not the reason
            self._batch_max = before
            raise fault from None
        return first + (await self._send_batches(calls[size:]) if calls[size:] else [])

    async def _send(self, question: Any) -> Any:
        self.request_count += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._transport.send(orjson.dumps(question))
        except TimeoutError:
            raise NodeTimeout("the node did not answer in time") from None
        if len(answer) > self._answer_bytes_max:
            raise AnswerTooLarge("the node's answer exceeds the size limit")
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError:
            raise UnreadableAnswer("the node did not answer in JSON") from None


def _parse_retry_s(headers: Mapping[str, str]) -> float | None:
    """Return for how many seconds a server asks us to wait; dates are not read."""
    text = headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else None


def _is_envelope(answer: bytes) -> bool:
    """Return whether bytes look like a JSON-RPC answer, regardless of their status."""
    try:
        decoded = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return False
    parts = decoded if isinstance(decoded, list) else [decoded]
    return bool(parts) and all(isinstance(part, dict) and "jsonrpc" in part for part in parts)


def _find_batch_refusal(answer: Any, count: int) -> RpcError | None:
    """Return why a node refused a whole batch; None if it answered each call."""
    if isinstance(answer, list):
        alone = answer[0] if len(answer) == 1 and count > 1 else None
        if not isinstance(alone, dict) or alone.get("id") is not None:
            return None
        answer = alone
    return _parse_error(answer.get("error") if isinstance(answer, dict) else None)


def _build_envelope(number: int, method: str, params: Sequence[Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def _parse_answer(answer: Any, number: int) -> Any:
    """Return an answer's result or RpcError; raise RailUnavailable if `number` is not its id."""
    if not isinstance(answer, dict):
        raise RailUnavailable("the node left a call unanswered")
    refusal = answer.get("error")
    # a refusal of the whole request may come without our number
    if answer.get("id") != number and not (refusal and answer.get("id") is None):
        raise RailUnavailable("the node answered another call")
    if refusal is not None:
        return _parse_error(refusal)
    if "result" not in answer:
        raise RailUnavailable("the node answered neither a result nor an error")
    return answer["result"]


def _parse_error(error: Any) -> RpcError:
    if not isinstance(error, dict):
        return RpcError(0, "no reason was given")
    code = error.get("code")
    message = error.get("message")
    return RpcError(
        code if isinstance(code, int) else 0,
        message[:500] if isinstance(message, str) else "no reason was given",
        error.get("data"),
    )
