"""`florin verify-receipt`: check a receipt's signature and the chain, independently of its issuer.

Needs no state folder and no settings. Reports every check by name; skips the checks after a false
signature.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.receipts import known_keys
from florin_server.domain.money import format_minor_units
from florin_server.domain.receipts import signature
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import (
    STATEMENT_CHECKS,
    CheckOutcome,
    CheckResult,
    ReceiptCheck,
    ReceiptNotGenuine,
)
from florin_server.domain.text import replace_unprintable
from florin_server.rails.connection.jsonrpc import HttpTransport, JsonRpcClient
from florin_server.rails.evm.reading import examine as evm
from florin_server.rails.networks.registry import find_network
from florin_server.rails.solana.reading import examine as solana
from florin_server.rails.types import RailUnavailable

# for chains outside the registry: require a minimum time too, however fast the blocks come
_UNKNOWN_CHAIN_FINALITY = evm.FinalitySpec(12, 30)
_OUTCOME_TEXTS = {
    CheckOutcome.PASSED: "ok",
    CheckOutcome.FAILED: "FAILED",
    CheckOutcome.UNKNOWN: "?",
}


class VerificationStatus(IntEnum):
    """The exit statuses of the command."""

    VERIFIED = ExitStatus.DONE
    NOT_GENUINE = ExitStatus.REFUSED
    NOT_ON_CHAIN = ExitStatus.NOT_FOUND
    UNDECIDED = ExitStatus.UNREACHABLE
    ISSUER_NOT_NAMED = ExitStatus.UNTRUSTED_ISSUER


@dataclass(frozen=True, slots=True)
class VerifyOptions:
    """The options of the command."""

    file: Path
    rpc_url: str
    jwks: str | None = None
    issuer: str | None = None
    key: str | None = None
    confirmations: int | None = None

    @property
    def is_issuer_given(self) -> bool:
        """Return True if the caller names the issuer, instead of trusting the receipt for it."""
        return not (self.jwks is None and self.issuer is None and self.key is None)


@dataclass(slots=True)
class VerificationReport:
    """The results of all checks; `receipt` is None unless its signature is proven.

    Unless `is_issuer_given`, anyone could have signed the receipt as their own issuer.
    """

    is_issuer_given: bool = True
    results: list[CheckResult] = field(default_factory=list)
    receipt: Receipt | None = None

    @property
    def get_status(self) -> VerificationStatus:
        """Return the overall result."""
        failed = {result.check for result in self.results if result.outcome is CheckOutcome.FAILED}
        if failed & STATEMENT_CHECKS:
            return VerificationStatus.NOT_GENUINE
        if failed:
            return VerificationStatus.NOT_ON_CHAIN
        if not self.is_issuer_given:
            return VerificationStatus.ISSUER_NOT_NAMED
        passed = all(result.outcome is CheckOutcome.PASSED for result in self.results)
        return (
            VerificationStatus.VERIFIED
            if passed and self.receipt is not None
            else VerificationStatus.UNDECIDED
        )


def verify_receipt(options: VerifyOptions) -> None:
    """Check a receipt, print the report, and exit with the overall result."""
    try:
        rpc = JsonRpcClient(HttpTransport(options.rpc_url))
    except ValueError as fault:
        fail("Not checked", fault, ExitStatus.USAGE_ERROR)
    verdict = asyncio.run(run_checks(options, _read_receipt(options.file), rpc))
    if not print_json(_to_json(verdict)):
        _print_report(verdict)
    raise SystemExit(int(verdict.get_status))


def _read_receipt(file: Path) -> str:
    """Return the receipt of a file, without the line end of its last line."""
    try:
        with file.open("rb") as opened:
            content = opened.read(signature.RECEIPT_BYTES_MAX + 2)
    except OSError as fault:
        fail("Not checked", f"{file}: {fault.strerror}", ExitStatus.USAGE_ERROR)
    return content.decode("latin-1").removesuffix("\n").removesuffix("\r")


async def run_checks(options: VerifyOptions, text: str, rpc: JsonRpcClient) -> VerificationReport:
    """Run every check that is possible, and return the report."""
    verdict = VerificationReport(options.is_issuer_given)
    try:
        verdict.receipt = await _verify_signature(options, text, verdict.results)
        verdict.results += await _check_chain(options, verdict.receipt, rpc)
    except ReceiptNotGenuine as refused:
        verdict.results.append(refused.result)
    except known_keys.KeysUnavailable as fault:
        verdict.results.append(CheckResult(ReceiptCheck.KEY, CheckOutcome.UNKNOWN, str(fault)))
    except RailUnavailable as fault:
        verdict.results.append(CheckResult(ReceiptCheck.CHAIN, CheckOutcome.UNKNOWN, str(fault)))
    finally:
        await rpc.close()
    return verdict


async def _verify_signature(
    options: VerifyOptions, text: str, results: list[CheckResult]
) -> Receipt:
    """Verify key, signature and issuer, and return the receipt; ReceiptNotGenuine otherwise."""
    key_id = signature.parse_key_id(text)
    results.append(CheckResult(ReceiptCheck.FORM, CheckOutcome.PASSED, "it is a receipt"))
    if options.key is not None and key_id != options.key:
        raise ReceiptNotGenuine(ReceiptCheck.KEY, f"{key_id} signed it, not {options.key}")
    place = options.jwks
    if place is None and options.issuer is not None:
        place = options.issuer.rstrip("/") + known_keys.JWKS_PATH
    if place is None:
        # a stranger wrote this address
        place = signature.parse_issuer(text).rstrip("/") + known_keys.JWKS_PATH
        okp_keys = await known_keys.fetch_public_keys(place)
    else:
        okp_keys = await known_keys.read_keys(place)
    receipt = signature.verify_receipt(text, okp_keys)
    results.append(CheckResult(ReceiptCheck.KEY, CheckOutcome.PASSED, f"{key_id}, of {place}"))
    results.append(
        CheckResult(ReceiptCheck.SIGNATURE, CheckOutcome.PASSED, "the key signed exactly this text")
    )
    if options.issuer is not None and receipt.iss != options.issuer.rstrip("/"):
        raise ReceiptNotGenuine(
            ReceiptCheck.ISSUER, f"another installation issued it: {receipt.iss}"
        )
    vouched = CheckOutcome.PASSED if options.is_issuer_given else CheckOutcome.UNKNOWN
    results.append(CheckResult(ReceiptCheck.ISSUER, vouched, receipt.iss))
    return receipt


async def _check_chain(
    options: VerifyOptions, receipt: Receipt, rpc: JsonRpcClient
) -> list[CheckResult]:
    chain = receipt.transaction.chain
    if chain.startswith("eip155:"):
        return await evm.examine_receipt(
            rpc, receipt, get_finality_rule(chain, options.confirmations)
        )
    if chain.startswith("solana:"):
        return await solana.examine_receipt(rpc, receipt)
    return [
        CheckResult(
            ReceiptCheck.CONTENT, CheckOutcome.FAILED, f"this Florin does not support chain {chain}"
        )
    ]


def get_finality_rule(chain: str, confirmations: int | None) -> evm.FinalitySpec:
    """Return the finality rule of a chain; outside the registry a given depth alone decides."""
    network = find_network(chain)
    if network is None:
        return _UNKNOWN_CHAIN_FINALITY if confirmations is None else evm.FinalitySpec(confirmations)
    pace = network.pace
    least = confirmations or pace.confirmations
    return evm.FinalitySpec(least, pace.final_after_s, pace.finality_tag)


def _to_json(verdict: VerificationReport) -> dict[str, object]:
    receipt = verdict.receipt
    return {
        "verified": verdict.get_status is VerificationStatus.VERIFIED,
        "outcome": verdict.get_status.name.lower(),
        "sentence": _SENTENCES[verdict.get_status],
        "checks": [
            {"check": result.check, "outcome": result.outcome, "detail": result.detail}
            for result in verdict.results
        ],
        "receipt": None if receipt is None else receipt.model_dump(exclude_none=True),
    }


def _print_report(verdict: VerificationReport) -> None:
    for result in verdict.results:
        _print_line(f"{_OUTCOME_TEXTS[result.outcome]:<7} {result.check:<12} {result.detail}")
    if (receipt := verdict.receipt) is not None:
        for name, value in _list_statements(receipt):
            _print_line(f"        {name:<12} {value}")
    print_hint(_SENTENCES[verdict.get_status])


_SENTENCES = {
    VerificationStatus.VERIFIED: "Verified: the issuer signed it, and the chain confirms it.",
    VerificationStatus.NOT_GENUINE: "Not genuine: it is not what the issuer signed.",
    VerificationStatus.NOT_ON_CHAIN: "Not true: the chain, as this node reports it, does not "
    "confirm it.",
    VerificationStatus.ISSUER_NOT_NAMED: "Undecided: only the receipt itself names its issuer, "
    "and anyone can sign one. Name the issuer: --issuer URL, --jwks KEYS or --key THUMBPRINT.",
    VerificationStatus.UNDECIDED: "Undecided: try again later, or with another node or other keys.",
}


def _list_statements(receipt: Receipt) -> Sequence[tuple[str, str]]:
    """Return the statements of the receipt as rows for people."""
    paid = receipt.paid
    amount = f"{format_minor_units(int(paid.value), paid.decimals)} {paid.symbol} ({paid.asset})"
    rows = [
        ("payment", f"{receipt.sub}{'' if receipt.live else ', a test: no real money'}"),
        ("merchant", f"{receipt.merchant.name} ({receipt.merchant.id})"),
        ("order", receipt.reference),
        ("paid", amount),
        *(
            ("refund", f"{refund.status}, {refund.value} of {refund.asset}")
            for refund in receipt.all_refunds
        ),
    ]
    return [(name, value) for name, value in rows if value]


def _print_line(text: str) -> None:
    """Print text of strangers, with everything replaced that could steer the terminal."""
    console.print(replace_unprintable(text, "?"))
