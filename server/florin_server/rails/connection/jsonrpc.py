"""JSON-RPC 2.0 as a client: one transport, single calls and batches, and nothing believed blindly.

Whatever keeps an answer from being understood (the wire, the time limit, the size limit, text that
is no JSON-RPC answer) is RailUnavailable; what the node itself says against a call is RpcError.
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
_LIMITED = frozenset({429, 503})  # statuses that may say when to come again
_DENIED = frozenset({401, 402, 403, 407})  # whatever the body says, it is about our access
_SINGLE_CALLS_MAX = 8  # in flight at a node that takes no batches
_LARGER_AFTER_S = 600.0  # then a node that refused large batches is tried with them again
_BUSY = frozenset({-32005, 429})  # codes of a node that limits how much it is asked
_READ_BYTES = 64 * 1024
_REVERTED = frozenset({3, -32015})
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

Call: TypeAlias = tuple[str, Sequence[Any]]
"""A method and its parameters."""


# names of methods that are counted apart: the code knows fewer
_METHODS_MAX = 64
_OTHER_METHODS = "other"


class AnswerTooLarge(RailUnavailable):
    """The answer went over the size limit; a smaller question may be answered."""


class UnreadableAnswer(RailUnavailable):
    """The answer is no JSON-RPC: a page of a proxy, say, or nothing at all."""


class RateLimited(RailUnavailable):
    """The node asked us to wait; `retry_s` tells how long, if it said so."""

    def __init__(self, message: str, retry_s: float | None) -> None:
        self.retry_s = retry_s
        super().__init__(message)


class RpcError(Exception):
    """The node's own refusal of one call."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} ({code})")

    @property
    def is_revert(self) -> bool:
        """True if the call was executed and failed: the contract said no, or ran out of gas.

        Code 3 is the convention; clients that answer otherwise name it in the text. What follows
        that name may be the contract's own words, which decide nothing.
        """
        text = self.message.lower()
        if self.code in _REVERTED or _REVERT in text:
            return True
        if "fatalexternalerror" in text:
            return False  # the machine itself broke: nothing was executed to its end
        return any(word in text for word in _EXECUTION_FAILURES)


class Rpc(Protocol):
    """Asks about one chain, whoever answers."""

    async def call(self, method: str, *params: Any) -> Any:
        """Returns the result of one call; raises RpcError when the node refuses it."""

    async def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Returns for each call its result or its RpcError, in the order asked."""


class Transport(Protocol):
    """Carries one payload to a node and its answer back."""

    async def send(self, payload: bytes) -> bytes:
        """Returns the answer's bytes; raises RailUnavailable when there is none."""

    async def close(self) -> None:
        """Ends connections."""


class LocalTransport:
    """A node in the same process."""

    def __init__(self, handler: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._handler = handler

    async def send(self, payload: bytes) -> bytes:
        """Returns the handler's answer; whatever breaks the node leaves us without one."""
        try:
            return await self._handler(payload)
        except Exception as fault:
            raise RailUnavailable(f"the node broke: {type(fault).__name__}") from fault

    async def close(self) -> None:
        """Nothing to end: the node is not ours."""


class HttpTransport:
    """A node behind a URL.

    The URL may hold the operator's access key, so only its host is ever named. Redirects are not
    followed: a node has no reason to send us elsewhere, an attacker has.
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
        """Posts the payload; every status that may carry a JSON-RPC answer is read."""
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
                if response.status in _LIMITED:
                    raise RateLimited(
                        f"{self._name} answered HTTP {response.status}", _retry_s(response.headers)
                    )
                if response.status in _DENIED:
                    raise RailUnavailable(f"{self._name} answered HTTP {response.status}")
                answer = await self._read(response)
                # nodes put the error object of a refused call into a 400 or a 500
                if response.status != 200 and not _is_envelope(answer):
                    raise UnreadableAnswer(f"{self._name} answered HTTP {response.status}")
                return answer
        except TimeoutError:
            raise RailUnavailable(f"{self._name} did not answer in time") from None
        except (aiohttp.ClientError, OSError) as fault:
            # the fault's text may hold the URL
            raise RailUnavailable(f"{self._name}: {type(fault).__name__}") from None

    async def close(self) -> None:
        """Ends connections; a later send opens new ones."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        answer = bytearray()
        async for piece in response.content.iter_chunked(_READ_BYTES):
            answer += piece
            if len(answer) > self._answer_bytes_max:
                response.close()
                raise AnswerTooLarge(f"{self._name} answered more than we read")
        return bytes(answer)


class JsonRpc:
    """Calls methods of one node.

    A batch that the node does not take is sent in halves, in the end as single calls, and later
    ones are no larger. `calls` counts the methods called, `by_method` each of them by its name, and
    `requests` the payloads sent.
    """

    def __init__(
        self,
        transport: Transport,
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
        self._refused_at = 0.0
        self._single = asyncio.Semaphore(_SINGLE_CALLS_MAX)
        self._ids = itertools.count(1)
        self.calls = 0
        self.requests = 0
        self.by_method: Counter[str] = Counter()

    async def call(self, method: str, *params: Any) -> Any:
        """Returns the result of one call; raises RpcError when the node refuses it."""
        self._count([(method, params)])
        answer = await self._call(method, params)
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def batch(self, calls: Sequence[Call]) -> list[Any]:
        """Returns for each call its result or its RpcError, in the order asked.

        One payload up to the batch limit; more are sent side by side.
        """
        self._count(calls)
        return await self._batches(calls)

    async def close(self) -> None:
        """Ends the transport's connections."""
        await self._transport.close()

    def _count(self, calls: Sequence[Call]) -> None:
        self.calls += len(calls)
        for method, _ in calls:
            fits = method in self.by_method or len(self.by_method) < _METHODS_MAX
            self.by_method[method if fits else _OTHER_METHODS] += 1

    async def _call(self, method: str, params: Sequence[Any]) -> Any:
        """Return the result of one call, or its RpcError."""
        number = next(self._ids)
        return _outcome(await self._ask(_envelope(number, method, params)), number)

    async def _batches(self, calls: Sequence[Call]) -> list[Any]:
        """Return an answer for each call; payloads are as large as the node takes them."""
        if (
            self._batch_max < self._batch_limit
            and time.monotonic() > self._refused_at + _LARGER_AFTER_S
        ):
            self._batch_max = self._batch_limit
        size = self._batch_max
        parts = [calls[i : i + size] for i in range(0, len(calls), size)]
        answers = await asyncio.gather(*(self._batch(part) for part in parts))
        return [answer for part in answers for answer in part]

    async def _batch(self, calls: Sequence[Call]) -> list[Any]:
        if self._batch_max == 1:
            async with self._single:
                return [await self._call(method, params) for method, params in calls]
        numbers = [next(self._ids) for _ in calls]
        asked = zip(numbers, calls, strict=True)
        try:
            answer = await self._ask(
                [_envelope(n, method, params) for n, (method, params) in asked]
            )
        except UnreadableAnswer as unreadable:
            return await self._smaller(calls, unreadable)
        if (refusal := _refusal_of_batch(answer, len(calls))) is not None:
            fault = RailUnavailable(f"the node did not answer the batch: {refusal}")
            if refusal.code in _BUSY and "batch" not in refusal.message.lower():
                raise fault
            return await self._smaller(calls, fault, str(refusal))
        by_number = {
            one["id"]: one
            for one in answer
            if isinstance(one, dict) and isinstance(one.get("id"), int)
        }
        return [_outcome(by_number.get(number), number) for number in numbers]

    async def _smaller(
        self, calls: Sequence[Call], fault: RailUnavailable, refusal: str = ""
    ) -> list[Any]:
        """Return the answers to a refused batch in smaller ones; the size that works is kept.

        Of a node that does not answer at all, only one call is tried. Raises `fault` if smaller
        ones fail too, or are refused in the same words.
        """
        before = self._batch_max
        size = 1 if isinstance(fault, UnreadableAnswer) else max(1, len(calls) // 2)
        self._batch_max, self._refused_at = min(before, size), time.monotonic()
        try:
            first = await self._batch(calls[:size])
        except RailUnavailable:
            first = []
        if all(isinstance(answer, RpcError) and str(answer) == refusal for answer in first):
            # it was not the size
            self._batch_max = before
            raise fault from None
        return first + (await self._batches(calls[size:]) if calls[size:] else [])

    async def _ask(self, question: Any) -> Any:
        self.requests += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._transport.send(orjson.dumps(question))
        except TimeoutError:
            raise RailUnavailable("the node did not answer in time") from None
        if len(answer) > self._answer_bytes_max:
            raise AnswerTooLarge("the node answered more than we read")
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError:
            raise UnreadableAnswer("the node did not answer in JSON") from None


def _retry_s(headers: Mapping[str, str]) -> float | None:
    """How long a server asks us to wait; only seconds are read, as limits are told in them."""
    text = headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII) else None


def _is_envelope(answer: bytes) -> bool:
    """Return whether bytes look like a JSON-RPC answer, whatever the status they came with."""
    try:
        decoded = orjson.loads(answer)
    except orjson.JSONDecodeError:
        return False
    parts = decoded if isinstance(decoded, list) else [decoded]
    return bool(parts) and all(isinstance(part, dict) and "jsonrpc" in part for part in parts)


def _refusal_of_batch(answer: Any, count: int) -> RpcError | None:
    """Return why a node refused a batch as a whole; None if it answered call by call."""
    if isinstance(answer, list):
        alone = answer[0] if len(answer) == 1 and count > 1 else None
        if not isinstance(alone, dict) or alone.get("id") is not None:
            return None
        answer = alone
    return _refusal(answer.get("error") if isinstance(answer, dict) else None)


def _envelope(number: int, method: str, params: Sequence[Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


def _outcome(answer: Any, number: int) -> Any:
    """The result or RpcError in an answer; RailUnavailable if it is not the answer to `number`."""
    if not isinstance(answer, dict):
        raise RailUnavailable("the node left a call unanswered")
    refusal = answer.get("error")
    # a refusal of the whole request may come without our number
    if answer.get("id") != number and not (refusal and answer.get("id") is None):
        raise RailUnavailable("the node answered another call")
    if refusal is not None:
        return _refusal(refusal)
    if "result" not in answer:
        raise RailUnavailable("the node answered neither a result nor an error")
    return answer["result"]


def _refusal(error: Any) -> RpcError:
    if not isinstance(error, dict):
        return RpcError(0, "no reason was given")
    code = error.get("code")
    message = error.get("message")
    return RpcError(
        code if isinstance(code, int) else 0,
        message[:500] if isinstance(message, str) else "no reason was given",
        error.get("data"),
    )
