"""`florin_fault`: what goes wrong on purpose is armed, listed and ended, on a chain of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from florin_server.devnet.errors import RpcFault, bad_params
from florin_server.devnet.faults import Effect

_T = TypeVar("_T")

TIMES_MAX: Final = 1_000_000
DELAY_MAX_MS: Final = 600_000

PLAN: Final = ("method", "effect", "times", "message", "code", "delayMs", "result")
"""What is told about an answer that is to go wrong."""


class Arming:
    """The method and its kinds.

    `kinds` does what is asked for by kind, `ends` ends those that last. `fields` reads an object
    as nodes of this kind do.
    """

    def __init__(
        self,
        kinds: Mapping[str, Callable[[Any], Any]],
        ends: Mapping[str, Callable[[], Any]],
        fields: Callable[[Any, Sequence[str]], Mapping[str, Any]],
    ) -> None:
        self._kinds = {**kinds, "clear": self._clear}
        self._ends = ends
        self._fields = fields

    def arm(self, options: Any) -> Any:
        """Does what one kind of fault is; RpcFault for one that the chain does not have."""
        if not isinstance(options, dict) or options.get("kind") not in self._kinds:
            raise bad_params(f"kind is one of {', '.join(self._kinds)}")
        rest = {name: one for name, one in options.items() if name != "kind"}
        return self._kinds[options["kind"]](rest)

    def _clear(self, options: Any) -> bool:
        """Ends all that is armed, or one kind of it."""
        only = self._fields(options, ("only",)).get("only")
        if only not in (None, *self._ends):
            raise bad_params(f"only is one of {', '.join(self._ends)}")
        for kind, end in self._ends.items():
            if only in (None, kind):
                end()
        return True


def wanted(given: Mapping[str, Any], sends: str) -> tuple[str, Effect]:
    """The method whose answers go wrong, and how; only `sends` has something to drop."""
    method = given.get("method")
    if not isinstance(method, str):
        raise bad_params("method is missing")
    try:
        effect = Effect(given.get("effect", ""))
    except ValueError as error:
        raise bad_params(f"effect is one of {', '.join(Effect)}") from error
    if effect is Effect.DROP and method != sends:
        raise bad_params(f"only {sends} can drop something")
    return method, effect


def member(
    given: Mapping[str, Any], name: str, read: Callable[[Any], _T], default: Any = None
) -> _T:
    """A member of what is to go wrong, as `read` takes it; RpcFault that names it."""
    value = given.get(name, default)
    if value is None:
        raise bad_params(f"{name} is missing")
    try:
        return read(value)
    except RpcFault as fault:
        # nodes begin with what kind of error it is
        why = fault.message.partition(": ")[2] or fault.message
        raise bad_params(f"{name}: {why}") from fault
