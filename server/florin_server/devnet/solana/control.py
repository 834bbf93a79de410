"""The methods that only a development chain has: test money, slots on demand, faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from florin_server.devnet.arming import DELAY_MAX_MS, PLAN, TIMES_MAX, Arming, member, wanted
from florin_server.devnet.dispatch import Method
from florin_server.devnet.errors import bad_params
from florin_server.devnet.faults import Fault, Faults
from florin_server.devnet.solana import faucet, params
from florin_server.devnet.solana.genesis import SOLNET
from florin_server.devnet.solana.history import History
from florin_server.devnet.solana.machine import Machine
from florin_server.devnet.solana.sending import Sending
from florin_server.devnet.solana.slots import WINDOW, Slots

ACCOUNTS_MAX: Final = 256
SLOTS_MAX: Final = 10_000_000
_U64_MAX: Final = 2**64 - 1


class ControlMethods:
    """What tests and the demo do to the chain."""

    def __init__(
        self,
        history: History,
        slots: Slots,
        machine: Machine,
        sending: Sending,
        faults: Faults,
    ) -> None:
        self._history = history
        self._slots = slots
        self._machine = machine
        self._sending = sending
        self._faults = faults
        kinds: Mapping[str, Callable[[Any], Any]] = {
            "answer": self._plan,
            "slots": self._advance,
            "prune": self._prune,
            "landing": self._pause,
            "list": self._list,
        }
        # each kind that lasts, and what ends it
        ends: Mapping[str, Callable[[], Any]] = {
            "answer": faults.clear,
            "landing": sending.resume,
        }
        self.table: Mapping[str, Method] = {
            "florin_faucet": (self._faucet, 1, 1),
            "florin_fault": (Arming(kinds, ends, params.fields).arm, 1, 1),
        }

    # ---- test money

    def _faucet(self, options: Any) -> dict[str, Any]:
        names = ("accounts", "tokens", "lamports", "tokenUnits", "rarely")
        given = params.fields(options, names)
        accounts = params.pubkeys(given.get("accounts"), ACCOUNTS_MAX)
        known = {token.address: token for token in SOLNET.tokens}
        asked = given.get("tokens", list(known))
        if not isinstance(asked, list) or any(one not in known for one in asked):
            raise bad_params("the faucet has no such token")
        sent = faucet.top_up(
            self._machine,
            self._sending,
            accounts,
            [known[one] for one in dict.fromkeys(asked)],
            _amount(given, "lamports"),
            _amount(given, "tokenUnits"),
            rarely=given.get("rarely") is True,
        )
        return {"signatures": sent, "slot": self._slots.slot}

    # ---- faults

    def _plan(self, options: Any) -> bool:
        given = params.fields(options, PLAN)
        method, effect = wanted(given, "sendTransaction")
        fault = Fault(
            effect=effect,
            times=_number(given, "times", 1, TIMES_MAX, 1),
            message=str(given.get("message", "injected fault")),
            code=_number(given, "code", -(2**31), 2**31, -32000),
            delay_s=_number(given, "delayMs", 0, DELAY_MAX_MS, 1000) / 1000,
            result=given.get("result"),
        )
        self._faults.plan(method, fault)
        return True

    def _advance(self, options: Any) -> int:
        given = params.fields(options, ("slots",))
        self._slots.advance(_number(given, "slots", 0, SLOTS_MAX, 1))
        return self._slots.slot

    def _prune(self, options: Any) -> int:
        """Forgets all but the newest slots; what could still land a second time is kept."""
        given = params.fields(options, ("slots",))
        kept = _number(given, "slots", WINDOW, SLOTS_MAX, WINDOW)
        self._history.forget(max(0, self._slots.slot - kept))
        return self._history.first_slot()

    def _pause(self, options: Any) -> bool:
        if member(params.fields(options, ("paused",)), "paused", params.flag):
            self._sending.paused = True
        else:
            self._sending.resume()
        return True

    def _list(self, options: Any) -> list[dict[str, Any]]:
        """What is armed now."""
        params.fields(options, ())
        waits = [{"kind": "landing", "paused": True}] if self._sending.paused else []
        return [*self._faults.listed(), *waits]


def _amount(given: Mapping[str, Any], name: str) -> int | None:
    return params.number(given[name], 0, _U64_MAX) if name in given else None


def _number(given: Mapping[str, Any], name: str, least: int, most: int, default: int) -> int:
    return member(given, name, lambda value: params.number(value, least, most), default)
