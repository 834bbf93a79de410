"""`florin verify-receipt`: signature and chain are checked here, and the issuer is not asked.

It needs no state folder and no settings. Every check is told by its name; those that come after a
false signature are not made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from florin_server.cli.console import console, fail, note, told
from florin_server.cli.exits import Exit
from florin_server.cli.receipts import known_keys
from florin_server.domain.money import spelled
from florin_server.domain.receipts import signature
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import GENUINE, Check, NotGenuine, Outcome, Result
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc
from florin_server.rails.evm.reading import examine as evm
from florin_server.rails.networks.registry import network
from florin_server.rails.solana.reading import examine as solana
from florin_server.rails.types import RailUnavailable

# of a chain that the registry does not know
_CONFIRMATIONS = 12
_WORDS = {Outcome.PASSED: "ok", Outcome.FAILED: "FAILED", Outcome.UNKNOWN: "?"}


class Status(IntEnum):
    """What the command ends with."""

    VERIFIED = Exit.DONE
    NOT_GENUINE = Exit.REFUSED
    NOT_ON_CHAIN = Exit.NOT_FOUND
    UNDECIDED = Exit.UNREACHABLE


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which receipt is to be checked, with what."""

    file: Path
    rpc_url: str
    jwks: str | None = None
    issuer: str | None = None
    key: str | None = None
    confirmations: int | None = None


@dataclass(slots=True)
class Verdict:
    """What was found; without a receipt its signature is not proven."""

    results: list[Result] = field(default_factory=list)
    receipt: Receipt | None = None

    @property
    def status(self) -> Status:
        """What all of it comes to."""
        failed = {one.check for one in self.results if one.outcome is Outcome.FAILED}
        if failed & GENUINE:
            return Status.NOT_GENUINE
        if failed:
            return Status.NOT_ON_CHAIN
        passed = all(one.outcome is Outcome.PASSED for one in self.results)
        return Status.VERIFIED if passed and self.receipt is not None else Status.UNDECIDED


def run(wanted: Wanted) -> None:
    """Checks a receipt, tells what was found, and ends the program with what it comes to."""
    try:
        rpc = JsonRpc(HttpTransport(wanted.rpc_url))
    except ValueError as fault:
        fail("Not checked", fault, Exit.MISUSED)
    verdict = asyncio.run(judged(wanted, _text(wanted.file), rpc))
    if not told(_object(verdict)):
        _print(verdict)
    raise SystemExit(int(verdict.status))


def _text(file: Path) -> str:
    """The receipt in a file, whose last line may have an end."""
    try:
        with file.open("rb") as opened:
            content = opened.read(signature.RECEIPT_BYTES_MAX + 2)
    except OSError as fault:
        fail("Not checked", f"{file}: {fault.strerror}", Exit.MISUSED)
    return content.decode("latin-1").removesuffix("\n").removesuffix("\r")


async def judged(wanted: Wanted, text: str, rpc: JsonRpc) -> Verdict:
    """What comes of every check that can be made."""
    verdict = Verdict()
    try:
        verdict.receipt = await _genuine(wanted, text, verdict.results)
        verdict.results += await _on_chain(wanted, verdict.receipt, rpc)
    except NotGenuine as refused:
        verdict.results.append(refused.result)
    except known_keys.NoKeys as fault:
        verdict.results.append(Result(Check.KEY, Outcome.UNKNOWN, str(fault)))
    except RailUnavailable as fault:
        verdict.results.append(Result(Check.CHAIN, Outcome.UNKNOWN, str(fault)))
    finally:
        await rpc.close()
    return verdict


async def _genuine(wanted: Wanted, text: str, results: list[Result]) -> Receipt:
    """What the receipt says, once it is proven who says so; NotGenuine otherwise."""
    key_id = signature.key_id_of(text)
    results.append(Result(Check.FORM, Outcome.PASSED, "it is a receipt"))
    if wanted.key is not None and key_id != wanted.key:
        raise NotGenuine(Check.KEY, f"{key_id} signed it, and not {wanted.key}")
    place = wanted.jwks
    if place is None:
        base = signature.issuer_of(text) if wanted.issuer is None else wanted.issuer
        place = base.rstrip("/") + known_keys.PUBLISHED
    known = await known_keys.of_place(place)
    said = signature.verified(text, known)
    results.append(Result(Check.KEY, Outcome.PASSED, f"{key_id}, of {place}"))
    results.append(Result(Check.SIGNATURE, Outcome.PASSED, "its key signed exactly this"))
    if wanted.issuer is not None and said.iss != wanted.issuer.rstrip("/"):
        raise NotGenuine(Check.ISSUER, f"it is of another installation, {said.iss}")
    results.append(Result(Check.ISSUER, Outcome.PASSED, said.iss))
    return said


async def _on_chain(wanted: Wanted, said: Receipt, rpc: JsonRpc) -> list[Result]:
    chain = said.transaction.chain
    if chain.startswith("eip155:"):
        known = network(chain)
        usual = known.pace.confirmations if known else _CONFIRMATIONS
        return await evm.examine(rpc, said, wanted.confirmations or usual)
    if chain.startswith("solana:"):
        return await solana.examine(rpc, said)
    return [Result(Check.CONTENT, Outcome.FAILED, f"nothing is known of a chain {chain}")]


def _object(verdict: Verdict) -> dict[str, object]:
    said = verdict.receipt
    return {
        "verified": verdict.status is Status.VERIFIED,
        "outcome": verdict.status.name.lower(),
        "checks": [
            {"check": one.check, "outcome": one.outcome, "told": one.told}
            for one in verdict.results
        ],
        "receipt": None if said is None else said.model_dump(exclude_none=True),
    }


def _print(verdict: Verdict) -> None:
    for one in verdict.results:
        _line(f"{_WORDS[one.outcome]:<7} {one.check:<12} {one.told}")
    if (said := verdict.receipt) is not None:
        for name, value in _said(said):
            _line(f"        {name:<12} {value}")
    note(_SENTENCES[verdict.status])


_SENTENCES = {
    Status.VERIFIED: "Verified: the issuer signed it, and the chain bears it out.",
    Status.NOT_GENUINE: "Not genuine: it is not what the issuer signed.",
    Status.NOT_ON_CHAIN: "Not true: the chain that this node knows does not bear it out.",
    Status.UNDECIDED: "Undecided: try again later, or with another node or other keys.",
}


def _said(said: Receipt) -> Sequence[tuple[str, str]]:
    """What the issuer states, as people read it."""
    paid, back = said.paid, said.refund
    amount = f"{spelled(int(paid.value), paid.decimals)} {paid.symbol} ({paid.asset})"
    rows = [
        ("payment", f"{said.sub}{'' if said.live else ', a test: no real money'}"),
        ("merchant", f"{said.merchant.name} ({said.merchant.id})"),
        ("order", said.reference),
        ("paid", amount),
        ("refund", back and f"{back.status}, {back.value} of {back.asset}"),
    ]
    return [(name, value) for name, value in rows if value]


def _line(text: str) -> None:
    """Prints what strangers may have written: nothing in it moves the terminal."""
    console.print("".join(one if one.isprintable() else "?" for one in text), markup=False)
