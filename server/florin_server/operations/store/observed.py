"""Observations of chains that outlive a process: pace, payment times, heads seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TypeAlias

from florin_server.db import installation
from florin_server.db.engine.query import Op, operation
from florin_server.domain.settlement.pace import ChainPace
from florin_server.domain.settlement.settle_times import SettleTimes, decode_times

# each is a small value per chain, which replaces the earlier value
_PACE = "pace:"
_TIMES = "settle_times:"
_SEEN = "heads_seen:"


# number, hash, Unix time, and when it was first seen in Unix µs
SeenHead: TypeAlias = tuple[int, str, int, int]


@operation
def get_pace(chain_id: str) -> Op[ChainPace | None]:
    """Return the last stored pace of a chain; None if none was stored."""
    text = yield from installation.find_value(_PACE + chain_id)
    return None if text is None else _decode_pace(text)


@operation
def list_paces() -> Op[dict[str, ChainPace]]:
    """Return the stored paces of all chains, by CAIP-2."""
    values = yield from installation.list_values(_PACE)
    return {chain_id: _decode_pace(text) for chain_id, text in values.items()}


@operation
def get_times(chain_id: str) -> Op[SettleTimes]:
    """Return the last stored durations of a chain's newest payments."""
    return decode_times((yield from installation.find_value(_TIMES + chain_id)))


@operation
def list_seen_heads(chain_id: str) -> Op[list[SeenHead]]:
    """Return when heads of a chain were first seen, the oldest first."""
    text = yield from installation.find_value(_SEEN + chain_id)
    return [(number, hash_, time, at_us) for number, hash_, time, at_us in json.loads(text or "[]")]


@operation
def save(
    chain_id: str,
    pace: ChainPace | None = None,
    times: SettleTimes | None = None,
    heads: Sequence[SeenHead] = (),
) -> Op[None]:
    """Store the given values in place of the earlier values; the others stay."""
    if pace is not None:
        yield from installation.put_value(_PACE + chain_id, json.dumps(asdict(pace)))
    if times is not None:
        yield from installation.put_value(_TIMES + chain_id, times.encode())
    if heads:
        yield from installation.put_value(_SEEN + chain_id, json.dumps(list(heads)))


def _decode_pace(text: str) -> ChainPace:
    return ChainPace(**json.loads(text))
