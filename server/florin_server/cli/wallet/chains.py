"""The chains that a buyer has accounts on, and their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from florin_client.wallet import JsonRpc, Pause, Question, Wallet, WalletError
from florin_client.wallet.chains import Asking

from florin_server.cli.console import console, told_line
from florin_server.cli.operation import misused

T = TypeVar("T")
_SANDBOX = (
    ("FLORIN_EVM_CHAIN", "FLORIN_EVM_RPC_URL"),
    ("FLORIN_SOLANA_CHAIN", "FLORIN_SOLANA_RPC_URL"),
)


@dataclass(frozen=True, slots=True)
class Chains:
    """CAIP-2 ids, and JSON-RPC URLs of those that have one."""

    ids: Sequence[str]
    nodes: Mapping[str, str] = field(repr=False)  # they often hold a key

    @classmethod
    def of(cls, ids: Sequence[str], urls: Sequence[str], said: Callable[[str], str]) -> Chains:
        """Those that were named, else those that `said` tells of demo.env.

        Ends the program if there are none, or they are named wrongly.
        """
        nodes = {said(chain): said(url) for chain, url in _SANDBOX if said(chain) and said(url)}
        named = [*ids]
        for one in urls:
            chain, equals, url = one.partition("=")
            if not equals or ":" not in chain:
                misused("--rpc-url says of which chain it is: eip155:8453=https://…")
            nodes[chain] = url
            named.append(chain)
        chosen = [*dict.fromkeys(named)] or [*nodes]
        if not chosen:
            misused("which chains has the wallet accounts on? --chain eip155:8453")
        return cls(chosen, nodes)

    def accounts(self, wallet: Wallet) -> list[str]:
        """The wallet's accounts (CAIP-10) on those that it has a key for."""
        found = []
        why = ""
        for chain in self.ids:
            try:
                found.append(wallet.account(chain))
            except WalletError as error:
                why = str(error)
        if not found:
            raise WalletError(why)
        return found


class Shown(JsonRpc):
    """Nodes that are asked where it can be seen."""

    def run(self, asking: Asking[T]) -> T:
        """The same; each transaction that is sent is shown."""
        return super().run(_watched(asking))


def _watched(asking: Asking[T]) -> Asking[T]:
    answer: Any = None
    waits = False
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(question, Pause) and not waits:
            waits = True
            if not told_line({"step": "wait"}):
                console.print("waits until it is mined")
        answer = yield question
        if isinstance(question, Question) and question.method == "eth_sendRawTransaction":
            waits = False
            if not told_line({"step": "send", "chain": question.chain_id, "txId": answer}):
                console.print(f"sent  transaction {answer}")
