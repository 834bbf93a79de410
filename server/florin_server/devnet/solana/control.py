"""The methods that only a development chain has: test money, slots on demand, faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from solders.pubkey import Pubkey

from florin_server.devnet.dispatch import Method
from florin_server.devnet.errors import bad_params
from florin_server.devnet.faults import Effect, Fault, Faults
from florin_server.devnet.solana import params
from florin_server.devnet.solana.genesis import SOLNET, DevMint
from florin_server.devnet.solana.history import History
from florin_server.devnet.solana.machine import Machine
from florin_server.devnet.solana.sending import AIRDROP_MAX, Sending
from florin_server.devnet.solana.slots import WINDOW, Slots
from florin_server.domain import spl

GIFT_LAMPORTS: Final = spl.LAMPORTS_PER_SOL
GIFT_UNITS: Final = 10_000
ACCOUNTS_MAX: Final = 256
SLOTS_MAX: Final = 10_000_000
TIMES_MAX: Final = 1_000_000
DELAY_MAX_MS: Final = 600_000

_PLAN = ("method", "effect", "times", "message", "code", "delayMs", "result")


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
        self._kinds: Mapping[str, Callable[[Any], Any]] = {
            "answer": self._plan,
            "slots": self._advance,
            "prune": self._prune,
            "landing": self._pause,
            "clear": self._clear,
        }
        self.table: Mapping[str, Method] = {
            "florin_faucet": (self._faucet, 1, 1),
            "florin_fault": (self._fault, 1, 1),
        }

    # ---- test money

    def _faucet(self, options: Any) -> dict[str, Any]:
        """Sees to it that accounts have that much; without an amount, the usual gift.

        The usual gift comes once an account has less than half of it; with `rarely` that goes for
        amounts too.
        """
        names = ("accounts", "tokens", "lamports", "tokenUnits", "rarely")
        given = params.fields(options, names)
        rarely = given.get("rarely") is True
        accounts = params.pubkeys(given.get("accounts"), ACCOUNTS_MAX)
        known = {token.address: token for token in SOLNET.tokens}
        asked = given.get("tokens", list(known))
        if not isinstance(asked, list) or any(one not in known for one in asked):
            raise bad_params("the faucet has no such token")
        lamports = _amount(given, "lamports", AIRDROP_MAX)
        units = _amount(given, "tokenUnits", 2**63)
        sent = []
        for account in dict.fromkeys(accounts):
            instructions = []
            has = self._lamports(account)
            if coin := _missing(has, lamports, GIFT_LAMPORTS, rarely=rarely):
                instructions.append(self._sending.coin(account, coin))
            for token in (known[one] for one in asked):
                instructions += self._tokens(account, token, units, rarely=rarely)
            if instructions:
                sent.append(self._sending.give(instructions))
        return {"signatures": sent, "slot": self._slots.slot}

    def _lamports(self, account: Pubkey) -> int:
        found = self._machine.account(account)
        return found.lamports if found else 0

    def _tokens(
        self, account: Pubkey, token: DevMint, units: int | None, *, rarely: bool
    ) -> list[Any]:
        mint, program = spl.pubkey(token.address), spl.pubkey(token.program)
        place = spl.associated(account, mint, program)
        found = self._machine.account(place)
        held = spl.token_account(bytes(found.data)) if found else None
        gift = GIFT_UNITS * 10**token.decimals
        missing = _missing(held.amount if held else 0, units, gift, rarely=rarely)
        if not missing:
            return []
        faucet = self._sending.faucet.pubkey()
        return [
            spl.create_associated(faucet, account, mint, program),
            spl.mint_to(program, mint, place, faucet, missing),
        ]

    # ---- faults

    def _fault(self, options: Any) -> Any:
        if not isinstance(options, dict) or options.get("kind") not in self._kinds:
            raise bad_params(f"kind is one of {', '.join(self._kinds)}")
        rest = {name: one for name, one in options.items() if name != "kind"}
        return self._kinds[options["kind"]](rest)

    def _plan(self, options: Any) -> bool:
        given = params.fields(options, _PLAN)
        method = given.get("method")
        if not isinstance(method, str):
            raise bad_params("method is missing")
        try:
            effect = Effect(given.get("effect", ""))
        except ValueError as error:
            raise bad_params(f"effect is one of {', '.join(Effect)}") from error
        if effect is Effect.DROP and method != "sendTransaction":
            raise bad_params("only sendTransaction can drop something")
        fault = Fault(
            effect=effect,
            times=params.number(given.get("times", 1), 1, TIMES_MAX),
            message=str(given.get("message", "injected fault")),
            code=params.number(given.get("code", -32000), -(2**31), 2**31),
            delay_s=params.number(given.get("delayMs", 1000), 0, DELAY_MAX_MS) / 1000,
            result=given.get("result"),
        )
        self._faults.plan(method, fault)
        return True

    def _advance(self, options: Any) -> int:
        given = params.fields(options, ("slots",))
        self._slots.advance(params.number(given.get("slots", 1), 0, SLOTS_MAX))
        return self._slots.slot

    def _prune(self, options: Any) -> int:
        """Forgets all but the newest slots; what could still land a second time is kept."""
        given = params.fields(options, ("slots",))
        kept = params.number(given.get("slots", WINDOW), WINDOW, SLOTS_MAX)
        self._history.forget(max(0, self._slots.slot - kept))
        return self._history.first_slot()

    def _pause(self, options: Any) -> bool:
        if params.flag(params.fields(options, ("paused",)).get("paused")):
            self._sending.paused = True
        else:
            self._sending.resume()
        return True

    def _clear(self, options: Any) -> bool:
        params.fields(options, ())
        self._faults.clear()
        self._sending.resume()
        return True


def _amount(given: Mapping[str, Any], name: str, most: int) -> int | None:
    return params.number(given[name], 0, most) if name in given else None


def _missing(has: int, asked: int | None, gift: int, *, rarely: bool) -> int:
    wanted = gift if asked is None else asked
    if asked is None or rarely:
        return wanted - has if has < (wanted + 1) // 2 else 0
    return max(0, wanted - has)
