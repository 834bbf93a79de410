"""The health of one endpoint of a chain, and whether it is asked. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_server.domain.node_hours import NodeActivity, NodeErrorKind
from florin_server.rails.types import NodeState

PROBE_S = 15.0  # between two probes of a good endpoint: which chain it serves, and its head
BACKOFF_S = 1.0  # after the first failure; each further failure doubles it
BACKOFF_MAX_S = 60.0  # a recovered endpoint is used again after this long at the latest
SHORT_S = 5.0  # at most, while fewer endpoints are good than must agree
RETRY_MAX_S = 300.0  # even if a server asks for more
# above this share of failures other endpoints are asked first, and above this time per answer
ERRORS_MAX = 0.3
SLOW_S = 1.0
_SLOW_FACTOR = 4  # times slower than the fastest endpoint
_WEIGHT = 0.2  # of the newest answer in the averages, which cover about ten answers


@dataclass(slots=True)
class EndpointHealth:
    """The health of one endpoint.

    It is `is_proven` once it confirmed that it serves our chain, until it fails; `is_wrong_chain`
    if it serves another chain. An endpoint that is `is_excluded` is asked only if no other
    endpoint is available.
    """

    name: str
    is_proven: bool = False
    is_wrong_chain: bool = False
    is_excluded: bool = False
    problem: str = ""
    head: int = 0
    lag: int = 0
    stall_s: float = 0.0  # without a new block, at the last probe
    latency_s: float = 0.0
    error_rate: float = 0.0
    probe_at: float = 0.0
    rate_limited_until: float = 0.0
    activity: NodeActivity = field(default_factory=NodeActivity)  # since it was last taken
    _top: int = -1
    _top_at: float = 0.0
    _failures: int = 0  # in a row
    _excluded_at: float = 0.0

    def record_answer(self, seconds: float) -> None:
        """Record an answer; only a probe brings back an endpoint that is left out."""
        self.activity.record_answer(seconds)
        self.latency_s += (seconds - self.latency_s) * (_WEIGHT if self.latency_s else 1)
        self.error_rate -= self.error_rate * _WEIGHT

    def record_abandoned(self, seconds: float) -> None:
        """Record that the caller stopped waiting; other endpoints are asked first from now on."""
        if seconds > SLOW_S:
            self.latency_s = max(self.latency_s, seconds)

    def record_error(self) -> None:
        """Record an answer that reports a failure of the node."""
        self.activity.errors[NodeErrorKind.REFUSED] += 1
        self._raise_error_rate()

    def record_unusable_answer(self) -> None:
        """Record an answer that could not be used, so that other endpoints are asked first."""
        self.activity.errors[NodeErrorKind.REFUSED] += 1
        self.error_rate = max(self.error_rate, 2 * ERRORS_MAX)

    def record_timeout(self, now: float) -> None:
        """Record that the endpoint did not answer in time."""
        self.record_failure(now, "does not answer in time", NodeErrorKind.TIMEOUTS)

    def record_failure(
        self, now: float, problem: str, kind: NodeErrorKind, retry_s: float | None = None
    ) -> None:
        """Record that the endpoint did not answer; `retry_s` is the pause that it asked for."""
        self.activity.errors[kind] += 1
        self._raise_error_rate()
        self.is_proven = False
        self._exclude(now, problem)
        if retry_s is not None:
            self.rate_limited_until = now + min(retry_s, RETRY_MAX_S)
            self.probe_at = max(self.probe_at, self.rate_limited_until)

    def record_chain_match(self, now: float) -> None:
        """Record that the endpoint serves our chain."""
        self.is_proven, self.is_wrong_chain = True, False
        self.probe_at = now + PROBE_S

    def record_wrong_chain(self, now: float, problem: str) -> None:
        """Record that the endpoint serves another chain, so that its answers are not used."""
        self.activity.errors[NodeErrorKind.WRONG_CHAIN] += 1
        self.is_proven, self.is_wrong_chain = False, True
        self._exclude(now, problem)

    def record_head(self, now: float, head: int, best: int, lag_max: int) -> None:
        """Record the endpoint's head and how far it is behind the best head."""
        self.head, self.lag = head, max(0, best - head)
        self.activity.record_lag(self.lag)
        # a URL may lead to nodes that differ by some blocks, so small steps back are not news
        if head > self._top or head < self._top - lag_max:
            self._top, self._top_at = head, now
        self.stall_s = now - self._top_at
        if self.lag > lag_max:
            self._exclude(now, f"is {self.lag} blocks behind")
        else:
            self.is_excluded, self.problem, self._failures = False, "", 0

    def record_stale_answer(self) -> None:
        """Record an answer that was older than data already seen."""
        self.activity.errors[NodeErrorKind.STALE] += 1

    def record_check(self) -> None:
        """Count whether it is in use now; nothing before anything is known of it."""
        if self.is_proven or self.is_excluded:
            self.activity.record_check(is_healthy=not self.is_excluded)

    def take_activity(self) -> NodeActivity:
        """Return what was observed since the last time."""
        activity, self.activity = self.activity, NodeActivity()
        return activity

    def is_due(self, now: float, *, is_short: bool) -> bool:
        """Return True if a probe is due; `is_short` means that too few endpoints are good."""
        if (
            is_short
            and self.is_excluded
            and not self.is_wrong_chain
            and self.rate_limited_until <= now
        ):
            return now >= min(self.probe_at, self._excluded_at + SHORT_S)
        return self.probe_at <= now

    def is_usable(self, now: float) -> bool:
        """Return True if the endpoint can be asked at all."""
        return not self.is_wrong_chain and self.rate_limited_until <= now

    def is_deprioritized(self, fastest_s: float) -> bool:
        """Return True if other endpoints are asked first."""
        slow = self.latency_s > SLOW_S and self.latency_s > _SLOW_FACTOR * fastest_s
        return slow or self.error_rate > ERRORS_MAX

    def to_state(self) -> NodeState:
        """Return the state that other modules see."""
        return NodeState(
            name=self.name,
            head=self.head,
            lag=self.lag,
            latency_ms=round(self.latency_s * 1000, 1),
            error_rate=round(self.error_rate, 3),
            problem=self.problem,
        )

    def _raise_error_rate(self) -> None:
        self.error_rate += (1 - self.error_rate) * _WEIGHT

    def _exclude(self, now: float, problem: str) -> None:
        self.is_excluded, self.problem, self._excluded_at = True, problem, now
        # the exponent is bounded like the time
        self.probe_at = now + min(BACKOFF_S * 2 ** min(self._failures, 10), BACKOFF_MAX_S)
        self._failures += 1
