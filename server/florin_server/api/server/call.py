"""The active call: its caller, and the metadata of its response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass

from grpc_rest_gateway.jsonignored import IGNORED_KEY

from florin_server.domain.accounts.caller import Caller
from florin_server.limits.service.limit import RateQuota


@dataclass(slots=True)
class ActiveCall:
    """One call.

    `quota` is the remaining rate of its credential, if limited. `ignored_members` names members of
    the request that its response reports. A servicer sets `is_replay` if its
    response repeats a stored response. A servicer can accept a stream with `is_accepted` and then
    stay silent for long: proxies of the stream must know that no error follows.
    """

    caller: Caller
    request_id: str
    quota: RateQuota | None = None
    is_replay: bool = False
    ignored_members: str = ""
    send_initial_metadata: Callable[[], Awaitable[None]] | None = None
    is_accepted: bool = False

    async def accept(self) -> None:
        """Send ahead the headers that otherwise come with the first message of a stream."""
        if self.send_initial_metadata is not None and not self.is_accepted:
            self.is_accepted = True
            await self.send_initial_metadata()

    def build_trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata of the response."""
        entries = [("request-id", self.request_id)]
        if self.caller.version:
            entries.append(("pay-version", self.caller.version))
        if (quota := self.quota) is not None:
            # as in draft-ietf-httpapi-ratelimit-headers-10, where t is the time until more is
            # available, not until the full quota is
            entries.append(("ratelimit-policy", f'"key";q={quota.per_minute};w=60'))
            entries.append(("ratelimit", f'"key";r={quota.remaining};t={quota.wait_s}'))
        if self.is_replay:
            entries.append(("idempotent-replayed", "true"))
        if self.ignored_members:
            entries.append((IGNORED_KEY, self.ignored_members))
        return tuple(entries)


current_call: ContextVar[ActiveCall] = ContextVar("florin_call")


def get_caller() -> Caller:
    """Return the caller of the active call."""
    return current_call.get().caller
