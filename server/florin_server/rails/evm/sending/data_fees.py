"""The fee by which rollups charge for a transaction's data on another chain, on top of gas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.reading.node import EvmNode, build_call, parse_data

# a signed transaction has these bytes besides its call
_ENVELOPE_BYTES: Final = 120
_CACHED_S: Final = 30.0


class _DataFeeOracle(NamedTuple):
    """A contract that a kind of rollup has at a fixed address; `word` of its answer is the price.

    With `is_per_byte` that is the price of a byte, otherwise the fee of the given bytes, in wei.
    """

    address: str
    signature: str
    word: int = 0
    is_per_byte: bool = False


# the OP stack, Scroll, and Arbitrum
_ORACLES: Final = (
    _DataFeeOracle("0x420000000000000000000000000000000000000f", "getL1Fee(bytes)"),
    _DataFeeOracle("0x5300000000000000000000000000000000000002", "getL1Fee(bytes)"),
    _DataFeeOracle(
        "0x000000000000000000000000000000000000006c", "getPricesInWei()", 1, is_per_byte=True
    ),
)


class DataFeeReader:
    """The data fees of one chain, read at most once in some seconds; 0 on chains without them.

    `now` returns monotonic seconds.
    """

    def __init__(self, node: EvmNode, now: Callable[[], float]) -> None:
        self._node = node
        self._now = now
        self._cached: dict[bytes, tuple[float, int]] = {}

    async def get_recent(self, call: bytes) -> int:
        """Return the fee of a transaction with the call's data, in wei.

        Raise RailUnavailable if the node does not answer.
        """
        now, entry = self._now(), self._cached.get(call)
        if entry is None or now - entry[0] > _CACHED_S:
            # callers ask about few typical calls
            self._cached[call] = entry = now, await self._read(call)
        return entry[1]

    async def _read(self, call: bytes) -> int:
        # keys sign bytes that cannot be compressed
        sample = call + bytes(range(1, _ENVELOPE_BYTES + 1))
        answers = await self._node.batch(
            [build_call(oracle.address, _encode_question(oracle, sample)) for oracle in _ORACLES]
        )
        return max(
            _parse_fee(oracle, answer, len(sample))
            for oracle, answer in zip(_ORACLES, answers, strict=True)
        )


def _encode_question(oracle: _DataFeeOracle, sample: bytes) -> bytes:
    selector = abi.encode_selector(oracle.signature)
    if oracle.is_per_byte:
        return selector
    return selector + abi.encode_uint256(abi.WORD) + abi.encode_bytes(sample)


def _parse_fee(oracle: _DataFeeOracle, answer: Any, size: int) -> int:
    """Return the fee; 0 if the chain has no such contract, in whatever way its node says so."""
    data = b"" if isinstance(answer, RpcError) else parse_data(answer)
    first = oracle.word * abi.WORD
    if len(data) < first + abi.WORD:
        return 0
    price = int.from_bytes(data[first : first + abi.WORD])
    return price * size if oracle.is_per_byte else price
