"""The chain calls of a wallet, and how they are answered: by JSON-RPC, or by the caller.

Wallets that send transactions are generators: they yield calls and receive results, and do no I/O,
so that they run in threads, under asyncio and in tests alike.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from florin_client.wallet.actions import WalletError, parse_json

T = TypeVar("T")
_RESPONSE_TIMEOUT_S = 30
_RESPONSE_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Question:
    """A JSON-RPC call to a node of a chain (CAIP-2); its result is sent back."""

    chain_id: str
    method: str
    params: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait of some seconds; nothing is sent back."""

    seconds: float


ChainProcedure: TypeAlias = Generator[Question | Pause, Any, T]


@dataclass
class JsonRpc:
    """Nodes by the CAIP-2 id of their chain; calls run in sequence."""

    urls: Mapping[str, str] = field(repr=False)  # they often contain a key

    def run(self, asking: ChainProcedure[T]) -> T:
        """Run a procedure and return its result.

        Raise WalletError if a node refuses or does not answer.
        """
        answer = None
        while True:
            try:
                question = asking.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            if isinstance(question, Pause):
                time.sleep(question.seconds)
                answer = None
            else:
                answer = self._call_node(question)

    def _call_node(self, question: Question) -> Any:
        url = self.urls.get(question.chain_id)
        if url is None:
            raise WalletError(f"no JSON-RPC URL for {question.chain_id}: add it to rpc_urls")
        what = f"{question.method} on {question.chain_id}"
        body = {"jsonrpc": "2.0", "id": 1, "method": question.method, "params": question.params}
        if not url.startswith(("http://", "https://")):
            raise WalletError(f"the JSON-RPC URL of {question.chain_id} must start with http")
        request = urllib.request.Request(  # noqa: S310  (looked at above)
            url, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_RESPONSE_TIMEOUT_S) as answer:  # noqa: S310
                text = answer.read(_RESPONSE_BYTES_MAX + 1)
            if len(text) > _RESPONSE_BYTES_MAX:
                raise WalletError(f"{what}: the response is too large")
            content = parse_json(text)
        except (OSError, ValueError, http.client.HTTPException) as error:
            # a URL with an access key must not get into a log
            raise WalletError(f"{what}: no response ({type(error).__name__})") from None
        if not isinstance(content, dict) or content.get("error") is not None:
            answered = content.get("error") if isinstance(content, dict) else content
            raise WalletError(f"{what}: {str(answered)[:300]}")
        return content.get("result")
