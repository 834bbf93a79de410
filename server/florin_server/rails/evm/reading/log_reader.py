"""Logs of a range of blocks, read in calls of as many blocks as the nodes of a chain answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from florin_server.rails.connection.jsonrpc import AnswerTooLarge, RpcError
from florin_server.rails.evm.reading.log_range import LogRangeLimit
from florin_server.rails.evm.reading.node import EvmNode, parse_header, parse_objects
from florin_server.rails.types import RailUnavailable


class LogReader:
    """Reads logs, and remembers how many blocks a call may cover."""

    def __init__(self, chain_name: str) -> None:
        self._chain_name = chain_name
        self._range = LogRangeLimit()

    async def list_logs(
        self, node: EvmNode, log_filter: Mapping[str, Any], first: int, last: int
    ) -> list[Mapping[str, Any]]:
        """Return the logs that match addresses and topics, of all blocks up to and with `last`.

        Raise RailUnavailable if the node has not reached `last`, or refuses a single block.
        """
        logs: list[Mapping[str, Any]] = []
        while first <= last:
            size = self._range.get_size(last - first + 1)
            part = await self._find_logs(node, log_filter, first, first + size - 1)
            if part is not None:
                self._range.record_accepted(size)
                logs += part
                first += size
        return logs

    async def _find_logs(
        self, node: EvmNode, log_filter: Mapping[str, Any], first: int, last: int
    ) -> list[Mapping[str, Any]] | None:
        """Return the logs of one call; None if the node refuses that many blocks."""
        blocks = {"fromBlock": hex(first), "toBlock": hex(last)}
        try:
            # the block proves that the node has reached the end of the range
            logs, block = await node.batch(
                [
                    ("eth_getLogs", ({**blocks, **log_filter},)),
                    ("eth_getBlockByNumber", (hex(last), False)),
                ]
            )
        except AnswerTooLarge as fault:
            logs, block = fault, None
        if isinstance(logs, (RpcError, AnswerTooLarge)):
            self._range.record_refused(last - first + 1)
            if first == last:
                raise RailUnavailable(f"{self._chain_name}: {logs}") from logs
            return None
        if parse_header(block) is None:
            raise RailUnavailable(f"{self._chain_name}: the node lags behind its own head")
        return parse_objects(logs)
