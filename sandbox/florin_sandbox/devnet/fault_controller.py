"""`florin_fault`: arms, lists and ends deliberate faults on a chain of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from florin_sandbox.devnet.errors import RpcFault, invalid_params_fault
from florin_sandbox.devnet.faults import FaultEffect

_T = TypeVar("_T")

TIMES_MAX: Final = 1_000_000
DELAY_MAX_MS: Final = 600_000

PLAN_FIELDS: Final = ("method", "effect", "times", "message", "code", "delayMs", "result")
"""The fields of a planned fault of an answer."""


class FaultController:
    """The method `florin_fault` and its kinds of faults.

    `handlers` arms a fault by kind, `clearers` ends the kinds that last. `parse_fields` parses an
    object like nodes of this kind.
    """

    def __init__(
        self,
        handlers: Mapping[str, Callable[[Any], Any]],
        clearers: Mapping[str, Callable[[], Any]],
        parse_fields: Callable[[Any, Sequence[str]], Mapping[str, Any]],
    ) -> None:
        self._handlers = {**handlers, "clear": self._clear}
        self._clearers = clearers
        self._parse_fields = parse_fields

    def arm_fault(self, options: Any) -> Any:
        """Arm a fault of one kind; raise RpcFault if the chain does not have the kind."""
        if not isinstance(options, dict) or options.get("kind") not in self._handlers:
            raise invalid_params_fault(f"kind is one of {', '.join(self._handlers)}")
        rest = {name: option for name, option in options.items() if name != "kind"}
        return self._handlers[options["kind"]](rest)

    def _clear(self, options: Any) -> bool:
        """End all armed faults, or those of one kind."""
        only = self._parse_fields(options, ("only",)).get("only")
        if only not in (None, *self._clearers):
            raise invalid_params_fault(f"only is one of {', '.join(self._clearers)}")
        for kind, end in self._clearers.items():
            if only in (None, kind):
                end()
        return True


def parse_effect(options: Mapping[str, Any], send_method: str) -> tuple[str, FaultEffect]:
    """Parse the method and the effect of a fault; only `send_method` can drop something."""
    method = options.get("method")
    if not isinstance(method, str):
        raise invalid_params_fault("method is missing")
    try:
        effect = FaultEffect(options.get("effect", ""))
    except ValueError as error:
        raise invalid_params_fault(f"effect is one of {', '.join(FaultEffect)}") from error
    if effect is FaultEffect.DROP and method != send_method:
        raise invalid_params_fault(f"only {send_method} can drop something")
    return method, effect


def parse_member(
    options: Mapping[str, Any], name: str, read: Callable[[Any], _T], default: Any = None
) -> _T:
    """Parse a member with `read`; raise an RpcFault that names it."""
    value = options.get(name, default)
    if value is None:
        raise invalid_params_fault(f"{name} is missing")
    try:
        return read(value)
    except RpcFault as fault:
        # nodes put the kind of the error first
        why = fault.message.partition(": ")[2] or fault.message
        raise invalid_params_fault(f"{name}: {why}") from fault
