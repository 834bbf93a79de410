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
from florin_server.domain.text import replace_unprintable
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpc
from florin_server.rails.evm.reading import examine as evm
from florin_server.rails.networks.registry import network
from florin_server.rails.solana.reading import examine as solana
from florin_server.rails.types import RailUnavailable

# of a chain that the registry does not know: however fast its blocks come, they take some time
_UNKNOWN_CHAIN = evm.FinalityRule(12, 30)
_WORDS = {Outcome.PASSED: "ok", Outcome.FAILED: "FAILED", Outcome.UNKNOWN: "?"}


class Status(IntEnum):
    """What the command ends with."""

    VERIFIED = Exit.DONE
    NOT_GENUINE = Exit.REFUSED
    NOT_ON_CHAIN = Exit.NOT_FOUND
    UNDECIDED = Exit.UNREACHABLE
    ISSUER_NOT_NAMED = Exit.UNVOUCHED


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """Which receipt is to be checked, with what."""

    file: Path
    rpc_url: str
    jwks: str | None = None
    issuer: str | None = None
    key: str | None = None
    confirmations: int | None = None

    @property
    def names_issuer(self) -> bool:
        """True if the caller, and not the receipt, says whose it has to be."""
        return not (self.jwks is None and self.issuer is None and self.key is None)


@dataclass(slots=True)
class Verdict:
    """The results of all checks; without a receipt its signature is not proven.

    Unless `names_issuer`, anyone can have signed the receipt as its own issuer.
    """

    names_issuer: bool = True
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
        if not self.names_issuer:
            return Status.ISSUER_NOT_NAMED
        passed = all(one.outcome is Outcome.PASSED for one in self.results)
        return Status.VERIFIED if passed and self.receipt is not None else Status.UNDECIDED


def run(wanted: VerifyOptions) -> None:
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


async def judged(wanted: VerifyOptions, text: str, rpc: JsonRpc) -> Verdict:
    """What comes of every check that can be made."""
    verdict = Verdict(wanted.names_issuer)
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


async def _genuine(wanted: VerifyOptions, text: str, results: list[Result]) -> Receipt:
    """What the receipt says, once it is proven who says so; NotGenuine otherwise."""
    key_id = signature.key_id_of(text)
    results.append(Result(Check.FORM, Outcome.PASSED, "it is a receipt"))
    if wanted.key is not None and key_id != wanted.key:
        raise NotGenuine(Check.KEY, f"{key_id} signed it, and not {wanted.key}")
    place = wanted.jwks
    if place is None and wanted.issuer is not None:
        place = wanted.issuer.rstrip("/") + known_keys.PUBLISHED
    if place is None:
        # a stranger wrote the address
        place = signature.issuer_of(text).rstrip("/") + known_keys.PUBLISHED
        known = await known_keys.of_public_address(place)
    else:
        known = await known_keys.of_place(place)
    said = signature.verified(text, known)
    results.append(Result(Check.KEY, Outcome.PASSED, f"{key_id}, of {place}"))
    results.append(Result(Check.SIGNATURE, Outcome.PASSED, "its key signed exactly this"))
    if wanted.issuer is not None and said.iss != wanted.issuer.rstrip("/"):
        raise NotGenuine(Check.ISSUER, f"it is of another installation, {said.iss}")
    vouched = Outcome.PASSED if wanted.names_issuer else Outcome.UNKNOWN
    results.append(Result(Check.ISSUER, vouched, said.iss))
    return said


async def _on_chain(wanted: VerifyOptions, said: Receipt, rpc: JsonRpc) -> list[Result]:
    chain = said.transaction.chain
    if chain.startswith("eip155:"):
        return await evm.examine(rpc, said, get_finality_rule(chain, wanted.confirmations))
    if chain.startswith("solana:"):
        return await solana.examine(rpc, said)
    return [Result(Check.CONTENT, Outcome.FAILED, f"nothing is known of a chain {chain}")]


def get_finality_rule(chain: str, confirmations: int | None) -> evm.FinalityRule:
    """Return when a block of a chain is final; a count alone decides where nothing is known."""
    known = network(chain)
    if known is None:
        return _UNKNOWN_CHAIN if confirmations is None else evm.FinalityRule(confirmations)
    pace = known.pace
    least = confirmations or pace.confirmations
    return evm.FinalityRule(least, pace.final_after_s, pace.finality_tag)


def _object(verdict: Verdict) -> dict[str, object]:
    said = verdict.receipt
    return {
        "verified": verdict.status is Status.VERIFIED,
        "outcome": verdict.status.name.lower(),
        "sentence": _SENTENCES[verdict.status],
        "checks": [
            {"check": one.check, "outcome": one.outcome, "detail": one.told}
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
    Status.ISSUER_NOT_NAMED: "Undecided: only the receipt itself says whose it is, and anyone can "
    "sign one. Name its issuer: --issuer URL, --jwks KEYS or --key THUMBPRINT.",
    Status.UNDECIDED: "Undecided: try again later, or with another node or other keys.",
}


def _said(said: Receipt) -> Sequence[tuple[str, str]]:
    """What the issuer states, as people read it."""
    paid = said.paid
    amount = f"{spelled(int(paid.value), paid.decimals)} {paid.symbol} ({paid.asset})"
    rows = [
        ("payment", f"{said.sub}{'' if said.live else ', a test: no real money'}"),
        ("merchant", f"{said.merchant.name} ({said.merchant.id})"),
        ("order", said.reference),
        ("paid", amount),
        *(
            ("refund", f"{refund.status}, {refund.value} of {refund.asset}")
            for refund in said.all_refunds
        ),
    ]
    return [(name, value) for name, value in rows if value]


def _line(text: str) -> None:
    """Prints what strangers may have written: nothing in it moves the terminal."""
    console.print(replace_unprintable(text, "?"))
