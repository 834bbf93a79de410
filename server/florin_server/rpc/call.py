"""The call that is being answered: who makes it and what its answer carries."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from florin_server.flows.app import Caller


@dataclass(slots=True)
class Call:
    """One call. `replayed` is set by a servicer whose answer repeats a stored one."""

    caller: Caller
    request_id: str
    replayed: bool = False

    def trailing(self) -> tuple[tuple[str, str], ...]:
        """The metadata that goes with the answer."""
        entries = [("request-id", self.request_id)]
        if self.caller.version:
            entries.append(("pay-version", self.caller.version))
        if self.replayed:
            entries.append(("idempotent-replayed", "true"))
        return tuple(entries)


CALL: ContextVar[Call] = ContextVar("florin_call")


def caller() -> Caller:
    """Who makes the call that is being answered."""
    return CALL.get().caller
