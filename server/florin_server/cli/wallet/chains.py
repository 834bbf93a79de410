"""The chains of a buyer's accounts, and their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from florin_client.wallet import JsonRpc, Pause, Question, Wallet, WalletError
from florin_client.wallet.chains import ChainProcedure

from florin_server.cli.console import console, print_json_line
from florin_server.cli.operation import usage_error

T = TypeVar("T")
_SANDBOX_VARIABLES = (
    ("FLORIN_EVM_CHAIN", "FLORIN_EVM_RPC_URL"),
    ("FLORIN_SOLANA_CHAIN", "FLORIN_SOLANA_RPC_URL"),
)


@dataclass(frozen=True, slots=True)
class BuyerChains:
    """CAIP-2 ids of chains, and the JSON-RPC URLs of those that have one."""

    ids: Sequence[str]
    nodes: Mapping[str, str] = field(repr=False)  # the URLs often contain a key

    @classmethod
    def from_options(
        cls, ids: Sequence[str], urls: Sequence[str], get_value: Callable[[str], str]
    ) -> BuyerChains:
        """Return the named chains, else those of the environment or demo.env.

        End the program if there are none, or an option is not valid.
        """
        nodes = {
            get_value(chain): get_value(url)
            for chain, url in _SANDBOX_VARIABLES
            if get_value(chain) and get_value(url)
        }
        named = [*ids]
        for each_url in urls:
            chain, equals, url = each_url.partition("=")
            if not equals or ":" not in chain:
                usage_error("--rpc-url needs the chain before the URL: eip155:8453=https://…")
            nodes[chain] = url
            named.append(chain)
        chosen = [*dict.fromkeys(named)] or [*nodes]
        if not chosen:
            usage_error("no chain is named: use --chain, e.g. --chain eip155:8453")
        return cls(chosen, nodes)

    def list_accounts(self, wallet: Wallet) -> list[str]:
        """Return the wallet's accounts (CAIP-10) on the chains for which it has a key."""
        accounts = []
        why = ""
        for chain in self.ids:
            try:
                accounts.append(wallet.account(chain))
            except WalletError as error:
                why = str(error)
        if not accounts:
            raise WalletError(why)
        return accounts


class TracingJsonRpc(JsonRpc):
    """A JSON-RPC client that shows the transactions it sends."""

    def run(self, calls: ChainProcedure[T]) -> T:
        """Run a procedure, and print each transaction that it sends."""
        return super().run(_print_transactions(calls))


def _print_transactions(calls: ChainProcedure[T]) -> ChainProcedure[T]:
    answer: Any = None
    waits = False
    while True:
        try:
            question = calls.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        if isinstance(question, Pause) and not waits:
            waits = True
            if not print_json_line({"step": "wait"}):
                console.print("waiting until the transaction is mined")
        answer = yield question
        if isinstance(question, Question) and question.method == "eth_sendRawTransaction":
            waits = False
            if not print_json_line({"step": "send", "chain": question.chain_id, "txId": answer}):
                console.print(f"sent  transaction {answer}")
