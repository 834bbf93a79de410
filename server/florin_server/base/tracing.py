"""The interface of tracing: spans go nowhere unless the operator wants traces.

A request is a span of its own trace, or of its caller's if that is trusted. The steps of a payment
are also recorded in the trace of the payment, whose id follows from the payment's: every process
can compute it, and callers cannot choose it.
"""

from __future__ import annotations

from typing import Protocol

AttributeValue = str | int | bool


class Span(Protocol):
    """A period of time, from its creation on."""

    @property
    def traceparent(self) -> str:
        """Return the traceparent for a callee (W3C Trace Context); empty if nothing is recorded."""

    def end(self, name: str = "", /, **attributes: AttributeValue) -> None:
        """End the span with its attributes; `name` is a better name if there is one."""


class Tracer(Protocol):
    """Takes spans. Times are microseconds since the Unix epoch."""

    @property
    def is_enabled(self) -> bool:
        """Return False if nothing is recorded."""

    def start_request(self, name: str, parent: str = "", *, trusted: bool = False) -> Span:
        """Start a request; `parent` is the traceparent that came with it.

        An untrusted parent is linked: it neither chooses the trace nor causes recording. Within
        another request of this process it is a part of that.
        """

    def record_step(
        self, subject: str, name: str, began_us: int, ended_us: int, **attributes: AttributeValue
    ) -> None:
        """Record a step of a payment or payout, by its id."""

    def record_root(
        self, subject: str, name: str, began_us: int, ended_us: int, **attributes: AttributeValue
    ) -> None:
        """Record the whole of which all its steps are parts, when it has ended."""


class _NullSpan:
    """Recorded nowhere."""

    __slots__ = ()
    traceparent = ""

    def end(self, _name: str = "", /, **_attributes: AttributeValue) -> None:
        """Do nothing: no span is open."""


NULL_SPAN = _NullSpan()


class _NullTracer:
    """Takes spans and forgets them."""

    __slots__ = ()
    is_enabled = False

    def start_request(self, _name: str, _parent: str = "", *, trusted: bool = False) -> Span:  # noqa: ARG002
        return NULL_SPAN

    def record_step(self, *_step: object, **_attributes: AttributeValue) -> None:
        pass

    def record_root(self, *_step: object, **_attributes: AttributeValue) -> None:
        pass


NULL_TRACER: Tracer = _NullTracer()
