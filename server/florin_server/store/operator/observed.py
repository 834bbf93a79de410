"""What was observed of chains and outlives a process: pace, times of payments, heads seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeAlias

from florin_server.domain.settlement.pace import ChainPace
from florin_server.domain.settlement.settle_times import SettleTimes, decode_times
from florin_server.store.engine.query import Op, operation
from florin_server.store.operator import installation

# each is a small value by chain, kept in place of the one before
_PACE = "pace:"
_TIMES = "settle_times:"
_SEEN = "heads_seen:"


# number, hash, Unix time, and when it was first seen in Unix µs
KeptHead: TypeAlias = tuple[int, str, int, int]


@operation
def get_pace(chain_id: str) -> Op[ChainPace | None]:
    """Return the pace of a chain as it was kept last."""
    text = yield from installation.get(_PACE + chain_id)
    return None if text is None else _decode_pace(text)


@operation
def list_paces() -> Op[dict[str, ChainPace]]:
    """Return the pace of every chain that one was kept of, by CAIP-2."""
    values = yield from installation.list_values(_PACE)
    return {chain_id: _decode_pace(text) for chain_id, text in values.items()}


@operation
def get_times(chain_id: str) -> Op[SettleTimes]:
    """Return how long the newest payments of a chain took, as kept last."""
    return decode_times((yield from installation.get(_TIMES + chain_id)))


@operation
def get_seen(chain_id: str) -> Op[list[KeptHead]]:
    """Return when heads of a chain were first seen, the oldest first."""
    text = yield from installation.get(_SEEN + chain_id)
    return [(number, hash_, time, at_us) for number, hash_, time, at_us in json.loads(text or "[]")]


@operation
def keep(
    chain_id: str,
    pace: ChainPace | None = None,
    times: SettleTimes | None = None,
    heads: Sequence[KeptHead] = (),
) -> Op[None]:
    """Keep what is given in place of what was kept before; the rest stays."""
    if pace is not None:
        yield from installation.put(_PACE + chain_id, json.dumps(asdict(pace)))
    if times is not None:
        yield from installation.put(_TIMES + chain_id, times.encode())
    if heads:
        yield from installation.put(_SEEN + chain_id, json.dumps(list(heads)))


def _decode_pace(text: str) -> ChainPace:
    return ChainPace(**json.loads(text))
