"""Methods that only a development chain has: test money, slots on demand, faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from florin_sandbox.devnet.dispatch import MethodEntry
from florin_sandbox.devnet.errors import invalid_params_fault
from florin_sandbox.devnet.fault_controller import (
    DELAY_MAX_MS,
    PLAN_FIELDS,
    TIMES_MAX,
    FaultController,
    parse_effect,
    parse_member,
)
from florin_sandbox.devnet.faults import FaultPlan, PlannedFault
from florin_sandbox.devnet.solana import faucet, params
from florin_sandbox.devnet.solana.genesis import SOLANA_DEVNET
from florin_sandbox.devnet.solana.history import SolanaHistory
from florin_sandbox.devnet.solana.machine import SolanaMachine
from florin_sandbox.devnet.solana.sending import TransactionIntake
from florin_sandbox.devnet.solana.slots import WINDOW, SlotClock

ACCOUNTS_MAX: Final = 256
SLOTS_MAX: Final = 10_000_000
_U64_MAX: Final = 2**64 - 1


class SolanaControlMethods:
    """The methods by which tests and the demo control the chain."""

    def __init__(
        self,
        history: SolanaHistory,
        slots: SlotClock,
        machine: SolanaMachine,
        sending: TransactionIntake,
        faults: FaultPlan,
    ) -> None:
        self._history = history
        self._slots = slots
        self._machine = machine
        self._intake = sending
        self._faults = faults
        kinds: Mapping[str, Callable[[Any], Any]] = {
            "answer": self._plan_fault,
            "slots": self._advance,
            "prune": self._prune,
            "landing": self._pause,
            "list": self._list_faults,
        }
        # each kind that lasts, and the function that ends it
        ends: Mapping[str, Callable[[], Any]] = {
            "answer": faults.clear_faults,
            "landing": sending.resume,
        }
        self.methods: Mapping[str, MethodEntry] = {
            "florin_faucet": (self._faucet, 1, 1),
            "florin_fault": (FaultController(kinds, ends, params.parse_fields).arm_fault, 1, 1),
        }

    # ---- test money

    def _faucet(self, options: Any) -> dict[str, Any]:
        names = ("accounts", "tokens", "lamports", "tokenUnits", "rarely")
        fields = params.parse_fields(options, names)
        accounts = params.parse_pubkeys(fields.get("accounts"), ACCOUNTS_MAX)
        tokens = {token.address: token for token in SOLANA_DEVNET.tokens}
        addresses = fields.get("tokens", list(tokens))
        if not isinstance(addresses, list) or any(address not in tokens for address in addresses):
            raise invalid_params_fault("the faucet has no such token")
        sent = faucet.top_up_accounts(
            self._machine,
            self._intake,
            accounts,
            [tokens[address] for address in dict.fromkeys(addresses)],
            _parse_amount(fields, "lamports"),
            _parse_amount(fields, "tokenUnits"),
            only_below_half=fields.get("rarely") is True,
        )
        return {"signatures": sent, "slot": self._slots.slot}

    # ---- faults

    def _plan_fault(self, options: Any) -> bool:
        fields = params.parse_fields(options, PLAN_FIELDS)
        method, effect = parse_effect(fields, "sendTransaction")
        fault = PlannedFault(
            effect=effect,
            times=_parse_number(fields, "times", 1, TIMES_MAX, 1),
            message=str(fields.get("message", "injected fault")),
            code=_parse_number(fields, "code", -(2**31), 2**31, -32000),
            delay_s=_parse_number(fields, "delayMs", 0, DELAY_MAX_MS, 1000) / 1000,
            result=fields.get("result"),
        )
        self._faults.add_fault(method, fault)
        return True

    def _advance(self, options: Any) -> int:
        fields = params.parse_fields(options, ("slots",))
        self._slots.advance_slots(_parse_number(fields, "slots", 0, SLOTS_MAX, 1))
        return self._slots.slot

    def _prune(self, options: Any) -> int:
        """Forget all but the newest slots; keep what could still land a second time."""
        fields = params.parse_fields(options, ("slots",))
        number = _parse_number(fields, "slots", WINDOW, SLOTS_MAX, WINDOW)
        self._history.forget_slots(max(0, self._slots.slot - number))
        return self._history.get_first_slot()

    def _pause(self, options: Any) -> bool:
        if parse_member(params.parse_fields(options, ("paused",)), "paused", params.parse_flag):
            self._intake.is_paused = True
        else:
            self._intake.resume()
        return True

    def _list_faults(self, options: Any) -> list[dict[str, Any]]:
        """Return the armed faults."""
        params.parse_fields(options, ())
        waits = [{"kind": "landing", "paused": True}] if self._intake.is_paused else []
        return [*self._faults.list_faults(), *waits]


def _parse_amount(options: Mapping[str, Any], name: str) -> int | None:
    return params.parse_number(options[name], 0, _U64_MAX) if name in options else None


def _parse_number(
    options: Mapping[str, Any], name: str, value_min: int, value_max: int, default: int
) -> int:
    return parse_member(
        options, name, lambda value: params.parse_number(value, value_min, value_max), default
    )
