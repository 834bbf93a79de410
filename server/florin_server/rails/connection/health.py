"""How well one endpoint of a chain answers, and whether it is asked. Times are in seconds."""

from __future__ import annotations

from dataclasses import dataclass

from florin_server.rails.types import NodeState

PROBE_S = 15.0  # how often a good endpoint is looked at: which chain it serves, how far it is
BACKOFF_S = 1.0  # of the first failure; each one doubles it
BACKOFF_MAX_S = 60.0  # an endpoint that came back is not missed for longer
SHORT_S = 5.0  # at most, while too few endpoints are good for anything to end
RETRY_MAX_S = 300.0  # whatever a server asks for
# a share of failures above which others are asked first, and how slow an answer must be for that
ERRORS_MAX = 0.3
SLOW_S = 1.0
_SLOWER = 4  # times slower than the fastest
_WEIGHT = 0.2  # of the newest answer in the averages: some ten answers are remembered


@dataclass(slots=True)
class EndpointHealth:
    """What is known of an endpoint.

    It is `proven` once it said that it serves our chain, until it fails; `foreign` if it serves
    another one. One that is `left_out` is asked only if nobody else is there.
    """

    name: str
    proven: bool = False
    foreign: bool = False
    left_out: bool = False
    problem: str = ""
    head: int = 0
    lag: int = 0
    still_s: float = 0.0  # for how long it had told no new block when it was looked at last
    latency_s: float = 0.0
    error_rate: float = 0.0
    probe_at: float = 0.0
    limited_until: float = 0.0
    _top: int = -1
    _top_at: float = 0.0
    _failures: int = 0  # in a row
    _left_out_at: float = 0.0

    def answered(self, seconds: float) -> None:
        """It answered; only a probe takes back one that was left out."""
        self.latency_s += (seconds - self.latency_s) * (_WEIGHT if self.latency_s else 1)
        self.error_rate -= self.error_rate * _WEIGHT

    def kept_waiting(self, seconds: float) -> None:
        """Nobody waited for its answer any longer; others are asked first from now on."""
        if seconds > SLOW_S:
            self.latency_s = max(self.latency_s, seconds)

    def stumbled(self) -> None:
        """It answered, and said that it could not find out."""
        self.error_rate += (1 - self.error_rate) * _WEIGHT

    def misled(self) -> None:
        """Record an answer that could not be used: others are asked first for some answers."""
        self.error_rate = max(self.error_rate, 2 * ERRORS_MAX)

    def failed(self, now: float, problem: str, retry_s: float | None = None) -> None:
        """It did not answer; `retry_s` tells that it asked us to wait."""
        self.stumbled()
        self.proven = False
        self._leave_out(now, problem)
        if retry_s is not None:
            self.limited_until = now + min(retry_s, RETRY_MAX_S)
            self.probe_at = max(self.probe_at, self.limited_until)

    def belongs(self, now: float) -> None:
        """It serves our chain."""
        self.proven, self.foreign = True, False
        self.probe_at = now + PROBE_S

    def is_foreign(self, now: float, problem: str) -> None:
        """It serves another chain: what it says is about something else."""
        self.proven, self.foreign = False, True
        self._leave_out(now, problem)

    def at(self, now: float, head: int, best: int, lag_max: int) -> None:
        """It is as far as `head` while the best is as far as `best`."""
        self.head, self.lag = head, max(0, best - head)
        # an address may lead to nodes that differ by some blocks: back and forth is nothing new
        if head > self._top or head < self._top - lag_max:
            self._top, self._top_at = head, now
        self.still_s = now - self._top_at
        if self.lag > lag_max:
            self._leave_out(now, f"is {self.lag} blocks behind")
        else:
            self.left_out, self.problem, self._failures = False, "", 0

    def due(self, now: float, *, short: bool) -> bool:
        """True if it is time to look at it; `short` tells that too few endpoints are good."""
        if short and self.left_out and not self.foreign and self.limited_until <= now:
            return now >= min(self.probe_at, self._left_out_at + SHORT_S)
        return self.probe_at <= now

    def usable(self, now: float) -> bool:
        """True if it may be asked at all."""
        return not self.foreign and self.limited_until <= now

    def poor(self, fastest_s: float) -> bool:
        """True if others are asked first."""
        slow = self.latency_s > SLOW_S and self.latency_s > _SLOWER * fastest_s
        return slow or self.error_rate > ERRORS_MAX

    def state(self) -> NodeState:
        """As others see it."""
        return NodeState(
            name=self.name,
            head=self.head,
            lag=self.lag,
            latency_ms=round(self.latency_s * 1000, 1),
            error_rate=round(self.error_rate, 3),
            problem=self.problem,
        )

    def _leave_out(self, now: float, problem: str) -> None:
        self.left_out, self.problem, self._left_out_at = True, problem, now
        # its exponent is bounded as the time is
        self.probe_at = now + min(BACKOFF_S * 2 ** min(self._failures, 10), BACKOFF_MAX_S)
        self._failures += 1
