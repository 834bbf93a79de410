"""Where spans go: nowhere, unless the operator wants traces.

A request is a span of its own trace, or of its caller's if that is believed. What happens to a
payment is told once more in the trace of the payment, whose id follows from the payment's: every
process knows it without being told, and whoever calls cannot choose it.
"""

from __future__ import annotations

from typing import Protocol

Told = str | int | bool


class Span(Protocol):
    """What takes time, from its making on."""

    @property
    def traceparent(self) -> str:
        """What a callee is told (W3C Trace Context); empty if nothing is recorded."""

    def end(self, name: str = "", /, **told: Told) -> None:
        """It is over; `told` are its attributes, `name` is a better one if there is."""


class Traces(Protocol):
    """Takes spans. Times are microseconds since the Unix epoch."""

    @property
    def on(self) -> bool:
        """False if whatever is told is lost."""

    def request(self, name: str, parent: str = "", *, believed: bool = False) -> Span:
        """Begins a request; `parent` is the traceparent that came with it.

        One that is not believed is linked: it neither chooses the trace nor has it recorded. Within
        another request of this process it is a part of that.
        """

    def step(self, subject: str, name: str, began_us: int, ended_us: int, **told: Told) -> None:
        """Tells a step of a payment or payout, by its id."""

    def whole(self, subject: str, name: str, began_us: int, ended_us: int, **told: Told) -> None:
        """Tells what all its steps are a part of, when it is over."""


class _NoSpan:
    """Recorded nowhere."""

    __slots__ = ()
    traceparent = ""

    def end(self, _name: str = "", /, **_told: Told) -> None:
        """Nothing to end."""


NO_SPAN = _NoSpan()


class _NoTraces:
    """Takes spans and forgets them."""

    __slots__ = ()
    on = False

    def request(self, _name: str, _parent: str = "", *, believed: bool = False) -> Span:  # noqa: ARG002
        return NO_SPAN

    def step(self, *_told: object, **_more: Told) -> None:
        pass

    def whole(self, *_told: object, **_more: Told) -> None:
        pass


NO_TRACES: Traces = _NoTraces()
