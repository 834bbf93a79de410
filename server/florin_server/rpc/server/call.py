"""The call that is being answered: who makes it and what its answer carries."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass

from florin_server.flows.app import Caller
from florin_server.flows.limits.limit import Quota


@dataclass(slots=True)
class Call:
    """One call.

    `quota` is what its credential has left, where that is limited. `replayed` is set by a servicer
    whose answer repeats a stored one. A stream is `taken` up by its servicer, which may then stay
    silent for long: whoever passes the stream on must know that no refusal is to come.
    """

    caller: Caller
    request_id: str
    quota: Quota | None = None
    replayed: bool = False
    say: Callable[[], Awaitable[None]] | None = None
    taken: bool = False

    async def take_up(self) -> None:
        """Sends ahead what would else come with the first message of a stream."""
        if self.say is not None and not self.taken:
            self.taken = True
            await self.say()

    def trailing(self) -> tuple[tuple[str, str], ...]:
        """The metadata that goes with the answer."""
        entries = [("request-id", self.request_id)]
        if self.caller.version:
            entries.append(("pay-version", self.caller.version))
        if (quota := self.quota) is not None:
            # in the words of draft-ietf-httpapi-ratelimit-headers-10, where t is the time until
            # more is available, not until all is
            entries.append(("ratelimit-policy", f'"key";q={quota.per_minute};w=60'))
            entries.append(("ratelimit", f'"key";r={quota.left};t={quota.wait_s}'))
        if self.replayed:
            entries.append(("idempotent-replayed", "true"))
        return tuple(entries)


CALL: ContextVar[Call] = ContextVar("florin_call")


def caller() -> Caller:
    """Who makes the call that is being answered."""
    return CALL.get().caller
