"""The health of chains for people: a pill, the last 48 hours of nodes, and the coin of keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final
from urllib.parse import quote

from florin.v1 import condition_pb2, system_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.conditions import ConditionName
from florin_server.domain.node_hours import HOUR_US, HOURS_KEPT
from florin_server.domain.settlement.runway import round_count
from florin_server.web.console.pills import StatePill, get_pill
from florin_server.web.console.refusals import ConsoleError
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.language import Translations

NODES_PATH: Final = "/console/nodes/{chain_id}"
_DOWN: Final = {
    ConditionName.CHAIN_UNUSABLE,
    ConditionName.CHAIN_STALLED,
    ConditionName.SETTLEMENT_FAILING,
}
_SHORT: Final = {ConditionName.RELAYER_FUNDS_LOW, ConditionName.RELAYER_EMPTY}
# shares of an hour in use from which a cell is good, or partly so
_GOOD_SHARE: Final = 0.99
_FAIR_SHARE: Final = 0.9
_HEIGHTS: Final = {"": 20, "s": 14, "x": 8, "n": 2}
# a full gauge, and less coin than worries
_GAUGE_S: Final = 7 * 86_400
_WARN_S: Final = 3 * 86_400
_BAD_S: Final = 86_400
_YEAR_S: Final = 365 * 86_400


@dataclass(frozen=True, slots=True)
class StripCell:
    """An hour of a node in a strip: its place in percent, and a class of the style sheet.

    Worse hours are lower, so that color is not the only sign.
    """

    x: str
    look: str

    @property
    def height(self) -> int:
        """Return the height in pixels, of 20."""
        return _HEIGHTS[self.look]


@dataclass(frozen=True, slots=True)
class NodeStrip:
    """The last 48 hours of a node; `label` says them in a sentence."""

    name: str
    label: str
    cells: Sequence[StripCell]


@dataclass(frozen=True, slots=True)
class CoinGauge:
    """The time that an account's coin lasts: `seconds` of `full_s`, None if it is not known."""

    text: str
    look: str = ""
    seconds: int | None = None
    full_s: int = _GAUGE_S


async def list_strips(console_request: ConsoleRequest) -> Mapping[str, Sequence[NodeStrip]]:
    """Return the strips of all nodes, by chain."""
    listed = await console_request.call(
        "OperatorService.ListNodeHistory", system_pb2.ListNodeHistoryRequest()
    )
    now_us = console_request.formatter.now_us()
    strips: dict[str, list[NodeStrip]] = {}
    for node in listed.nodes:
        strips.setdefault(node.chain_id, []).append(
            build_strip(console_request.texts, node, now_us)
        )
    return strips


async def show_nodes(console_request: ConsoleRequest) -> PlainResponse:
    """Show the figures of a chain's nodes by the hour, the newest first."""
    chain_id = console_request.get_path_variable("chain_id")
    listed = await console_request.call(
        "OperatorService.ListNodeHistory", system_pb2.ListNodeHistoryRequest()
    )
    nodes = [node for node in listed.nodes if node.chain_id == chain_id]
    if not nodes:
        raise ConsoleError(404, "fault.no_nodes")
    chain = console_request.formatter.chain(chain_id)
    title = console_request.texts.plain("nodes.of", chain=chain)
    return console_request.render_page("operator/nodes", title, nodes=nodes, chain_id=chain_id)


def build_nodes_path(chain_id: str) -> str:
    """Return the path of the page of a chain's nodes."""
    return NODES_PATH.format(chain_id=quote(chain_id, ""))


def build_strip(texts: Translations, node: system_pb2.NodeHistory, now_us: int) -> NodeStrip:
    """Return the strip of a node; the current hour is last."""
    by_hour = {hour.start.ToMicroseconds() // HOUR_US: hour for hour in node.hours}
    first = now_us // HOUR_US - HOURS_KEPT + 1
    hours = [by_hour.get(first + place) for place in range(HOURS_KEPT)]
    looks = [_get_look(hour) for hour in hours]
    observed = sum(look != "n" for look in looks)
    good = looks.count("")
    label = texts.plain("health.good_hours", node=node.name, good=good, observed=observed)
    if not observed:
        label = texts.plain("health.not_observed", node=node.name)
    cells = [
        StripCell(f"{place * 100 / HOURS_KEPT:.2f}%", look) for place, look in enumerate(looks)
    ]
    return NodeStrip(node.name, label, cells)


def _get_look(hour: system_pb2.NodeHour | None) -> str:
    if hour is None or not hour.checks:
        return "n"
    share = hour.healthy_checks / hour.checks
    if share >= _GOOD_SHARE:
        return ""
    return "s" if share >= _FAIR_SHARE else "x"


def find_chain_pill(
    texts: Translations,
    chain: system_pb2.ChainStatus,
    executors: Iterable[system_pb2.Executor],
) -> StatePill:
    """Return the state of a chain, the worst that applies."""
    names = {
        condition.name
        for condition in chain.conditions
        if condition.state != condition_pb2.CONDITION_STATE_OK
    }
    relayers = [executor for executor in executors if _is_relayer(chain, executor.id)]
    used_lags = [node.lag for node in chain.nodes if not node.problem]
    if names & _DOWN or (chain.nodes and not used_lags):
        word = "down"
    elif relayers and all(executor.paused for executor in relayers):
        word = "paused"
    elif names & _SHORT:
        word = "low_coin"
    elif ConditionName.BLOCKS_UNREAD in names or (used_lags and min(used_lags) > 0):
        word = "behind"
    else:
        word = "healthy" if chain.healthy else "check_it"
    return get_pill(texts, f"chain.{word}")


def build_gauges(
    texts: Translations,
    system: system_pb2.GetSystemStatusResponse,
    executors: Iterable[system_pb2.Executor],
) -> dict[str, CoinGauge]:
    """Return the gauges of executors, by id."""
    chains = {chain.chain_id: chain for chain in system.chains}
    gauges: dict[str, CoinGauge] = {}
    for executor in executors:
        chain = chains.get(executor.id.rpartition(":")[0])
        items = "payments" if chain and _is_relayer(chain, executor.id) else "payouts"
        gauges[executor.id] = _build_gauge(texts, executor, items)
    return gauges


def _build_gauge(texts: Translations, executor: system_pb2.Executor, items: str) -> CoinGauge:
    if not executor.HasField("runway"):
        return CoinGauge(texts.plain("health.not_known"))
    runway = executor.runway
    seconds = runway.seconds_left if runway.HasField("seconds_left") else None
    text = _describe_runway(texts, runway, items)
    if seconds is None:
        return CoinGauge(text)
    look = "bad" if seconds < _BAD_S else "warn" if seconds < _WARN_S else "good"
    return CoinGauge(text, look, min(seconds, _GAUGE_S))


def _describe_runway(texts: Translations, runway: system_pb2.ExecutorRunway, items: str) -> str:
    """Return how long the coin lasts, as `florin executors` says it; "not known" if so."""
    if not runway.transactions:
        return texts.plain("health.no_transactions")
    parts = []
    if runway.HasField("items_left"):
        number = texts.format_number(Decimal(round_count(runway.items_left)))
        parts.append(texts.plain(f"health.{items}_left", number=number))
    if runway.HasField("seconds_left"):
        is_long = runway.seconds_left >= _YEAR_S
        time = (
            texts.plain("health.more_than_year")
            if is_long
            else texts.format_duration(runway.seconds_left)
        )
        parts.append(texts.plain("health.time_left", time=time))
    return " · ".join(parts) or texts.plain("health.not_known")


def _is_relayer(chain: system_pb2.ChainStatus, executor_id: str) -> bool:
    addresses = chain.relayer.split(", ")
    return executor_id in {f"{chain.chain_id}:{address}" for address in addresses}
