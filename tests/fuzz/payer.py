"""`florin pay` against liars: its signatures are compared with what it showed."""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import rlp
from eth_abi import decode
from eth_account import Account
from eth_account.typed_transactions import TypedTransaction
from eth_hash.auto import keccak
from florin_client.wallet import default_max_fee
from florin_server.cli.console import use_json
from florin_server.cli.server import ConnectionOptions
from florin_server.cli.wallet.execution import PayOptions
from florin_server.cli.wallet.keys import WalletFiles
from florin_server.cli.wallet.pay import pay_link
from florin_server.domain.chains.evm.signatures import recover_address
from florin_server.domain.chains.evm.typed_data import (
    Eip712Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    TokenPermit,
    build_permit2_domain,
)
from florin_server.domain.chains.solana import spl
from florin_server.rails.evm.paying.terms import PERMIT2
from hexbytes import HexBytes
from solders.keypair import Keypair
from solders.transaction import VersionedTransaction

from tests.fuzz.lying_peers import Case, LyingServer, lie, listening
from tests.support.options import EVM, KINDS, MINT, PRICE, SOLANA, TOKEN, Json, make_honest_option

_SECRET = b"\x07" * 32
_PAIR = Keypair.from_seed(b"\x08" * 32)
ACCOUNTS = {EVM: Account.from_key(_SECRET).address, SOLANA: str(_PAIR.pubkey())}
_PAYER = ACCOUNTS[EVM].lower()
_PAY = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)"
_ENVIRONMENT = ("FLORIN_EVM_CHAIN", "FLORIN_SOLANA_CHAIN", "FLORIN_GRPC_TARGET")


class Violation(AssertionError):
    """A signature for something that was not shown, or for more than was allowed."""


@dataclass
class Findings:
    """The results of attempts; `signed` counts by kind."""

    cases: int = 0
    signed: Counter[str] = field(default_factory=Counter)
    statuses: Counter[Any] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


@dataclass
class Payer:
    """The command, with named keys, --yes and --max."""

    liar: LyingServer
    target: str
    node: str
    files: WalletFiles
    error_output: str = ""

    def attempt(self, case: Case, **changes: Any) -> tuple[Any, list[Json]]:
        """Run the command on a case; return its exit status, and the steps that it showed.

        `changes` are other options than --yes and a fitting --max. The command's other output is
        in `self.error_output`.
        """
        self.liar.case = case
        honest = make_honest_option(case.kind, ACCOUNTS, 0)
        asset = honest["unit"].removeprefix("caip19/")
        options = PayOptions(
            link="pay_1",
            option="1",
            files=self.files,
            rpc_urls=tuple(f"{chain}={self.node}" for chain in ACCOUNTS),
            yes=True,
            maximum=f"{PRICE} {asset}",
        )
        out, err = io.StringIO(), io.StringIO()
        use_json(as_json=True)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                pay_link(ConnectionOptions(server=self.target), replace(options, **changes))
        except SystemExit as end:
            return end.code, [json.loads(line) for line in out.getvalue().splitlines()]
        finally:
            use_json(as_json=False)
            self.error_output = err.getvalue()
        raise Violation("the command did not end")


@contextmanager
def payer(folder: Path) -> Iterator[Payer]:
    """Open a payer with keys in files, a lying server and its node."""
    keystore, pair, password = (folder / item for item in ("evm.json", "solana.json", "password"))
    keystore.write_text(json.dumps(Account.encrypt(_SECRET, "x", iterations=2)))
    pair.write_text(json.dumps([*bytes(_PAIR)]))
    password.write_text("x")
    for file in (keystore, pair):
        file.chmod(0o600)
    before = dict(os.environ)
    for name in _ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ["FLORIN_APP_ID"] = "app_1"
    try:
        with listening() as (liar, target, node):
            yield Payer(liar, target, node, WalletFiles((keystore, pair), password))
    finally:
        os.environ.clear()
        os.environ.update(before)


def campaign(folder: Path, cases: int, seed: int) -> Findings:
    """Pay one honest option of each kind, and then lies; return the findings."""
    rng, findings = Random(seed), Findings()
    now = int(time.time())
    with payer(folder) as command:
        for kind in KINDS:
            _judge(command, Case(kind, make_honest_option(kind, ACCOUNTS, now)), findings)
            if findings.signed[kind] != 1:
                findings.violations.append(f"an honest option by {kind} is not paid")
        for number in range(cases):
            _judge(command, lie(list(KINDS)[number % len(KINDS)], ACCOUNTS, now, rng), findings)
    return findings


def _judge(command: Payer, case: Case, findings: Findings) -> None:
    findings.cases += 1
    try:
        status, shown = command.attempt(case)
        findings.statuses[status] += 1
        check(case, shown)
    except Exception as error:  # noqa: BLE001  (a traceback is a finding too)
        findings.violations.append(
            f"{type(error).__name__}: {error}: {json.dumps(case.option)[:3000]}"
        )
    if case.outputs or case.raws:
        findings.signed[case.kind] += 1


def check(case: Case, shown: list[Json]) -> None:
    """Raise Violation if more was signed than was shown, or anything else."""
    if not case.outputs and not case.raws:
        return
    text = " ".join(item["what"] for item in shown if item["step"] == "sign")
    amount = int(case.option["value"])
    _require(0 < amount <= PRICE, "more than --max")
    sign_steps = [item for item in shown if item["step"] == "sign"]
    _require(len(case.outputs) <= len(sign_steps), "more was handed in than was shown")
    hashes = {"0x" + _hash(raw) for raw in case.raws}
    signed = [each_output for each_output in case.outputs if each_output not in hashes]
    payments = 0
    for output in signed:
        payments += 1
        if output.startswith("0x"):
            # an approval pays nothing: the payment beside it does
            payments -= _check_signature(case, output, amount, text)
        else:
            _check_solana(case, output, amount)
    payments += _check_transactions(case, amount, text, shown)
    _require(payments <= 1, "paid more than once")


def _check_signature(case: Case, output: str, amount: int, text: str) -> bool:
    """Check that a signature is of the shown values, under a digest that is computed here.

    Return whether it only approves.
    """
    signature = bytes.fromhex(output[2:])
    for step in case.option["steps"]:
        try:
            digest, receiver = _digest(step, amount)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError):
            continue
        if recover_address(digest, signature) == _PAYER:
            _require(receiver in text, "the receiver was not shown")
            return receiver == PERMIT2
    raise Violation("a signature differs from what was shown")


def _digest(step: Json, amount: int) -> tuple[bytes, str]:
    raw = step.get("raw")
    document = json.loads(json.loads(raw)[1]) if raw else step["params"][1]
    message = document["message"]
    if document["primaryType"] == "PermitTransferFrom":
        spender = message["spender"].lower()
        nonce, end = int(message["nonce"], 16), int(message["deadline"], 16)
        domain = build_permit2_domain(8453)
        return PermitTransferFrom(
            domain, TOKEN, amount, spender, nonce, end
        ).compute_digest(), spender
    domain = Eip712Domain(document["domain"]["name"], document["domain"]["version"], 8453, TOKEN)
    if document["primaryType"] == "Permit":
        nonce, end = int(message["nonce"], 16), int(message["deadline"], 16)
        permit = TokenPermit(domain, _PAYER, PERMIT2, amount, nonce, end)
        return permit.compute_digest(), PERMIT2
    receiver, end = message["to"].lower(), int(message["validBefore"], 16)
    nonce = bytes.fromhex(message["nonce"][2:])
    created_message = ReceiveWithAuthorization(domain, _PAYER, receiver, amount, 0, end, nonce)
    return created_message.compute_digest(), receiver


def _check_transactions(case: Case, amount: int, text: str, shown: list[Json]) -> int:
    """Check that each transaction approves or pays as was shown; return how many of them pay."""
    coin = case.kind == "coin"
    pays = [each_item["what"] for each_item in shown if each_item["step"] == "sign"]
    fees, value, paid, spenders, targets = 0, 0, 0, set(), set()
    for raw in case.raws:
        sent = _decoded(raw)
        _require(Account.recover_transaction(raw).lower() == _PAYER, "another signer")
        _require(sent["chainId"] == 8453, "another chain")
        fees += sent["gas"] * sent["price"]
        value += sent["value"]
        to, data = "0x" + bytes(sent["to"]).hex(), bytes(sent["data"])
        if data[:4].hex() == "095ea7b3":
            spender, allowed = decode(["address", "uint256"], data[4:])
            _require(to == TOKEN and allowed in {0, amount}, "another allowance")
            _require(spender in text, "the spender was not shown")
            spenders.add(spender)
        else:
            _require(data[:4].hex() == "ef45def3", "a call that does not pay")
            (item,) = decode([_PAY], data[4:])
            token = "0x" + "0" * 40 if coin else TOKEN
            _require(item[:3] == (token, _PAYER, amount), "another payment")
            _require(to in text and item[5] in text, "the receiver was not shown")
            targets.add(to)
            paid += 1
    (limit,) = {int(each_item["maxFee"]) for each_item in shown if each_item["step"] == "fee"} or {
        0
    }
    _require(fees <= limit <= default_max_fee(EVM), "more fees than shown")
    _require(value == (amount if coin and paid else 0), "another amount of coin")
    _require(not targets or not spenders or spenders == targets, "an allowance for another")
    # a node that lies after the allowance prevents the payment: the allowance was shown
    called = {pay.rpartition(" by a call of ")[2] for pay in pays if " by a call of " in pay}
    _require(bool(targets) or spenders <= {PERMIT2} | called, "an allowance for another")
    return paid


def _decoded(raw: bytes) -> Json:
    if raw[0] < 0xC0:
        created = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
        return {**created, "price": created["maxFeePerGas"]}
    _, price, gas, to, value, data, v, *_ = rlp.decode(raw)
    number = int.from_bytes
    chain = (number(v, "big") - 35) // 2
    return {
        "chainId": chain,
        "price": number(price, "big"),
        "gas": number(gas, "big"),
        "to": to,
        "value": number(value, "big"),
        "data": data,
    }


def _hash(raw: bytes) -> str:

    return str(keccak(raw).hex())


def _check_solana(case: Case, output: str, amount: int) -> None:
    """Check that a transaction only takes the amount from the payer's account."""
    message = VersionedTransaction.from_bytes(base64.b64decode(output)).message
    keys, own = list(message.account_keys), spl.parse_pubkey(ACCOUNTS[SOLANA])
    place = spl.derive_associated_address(own, spl.parse_pubkey(MINT), spl.TOKEN)
    _require(keys[0] != own, "the payer pays for the transaction")
    taken = 0
    for compiled_instruction in message.instructions:
        named, data = (
            [keys[index] for index in bytes(compiled_instruction.accounts)],
            bytes(compiled_instruction.data),
        )
        if own not in named and place not in named:
            continue
        if case.kind == "solana coin":
            _require(keys[compiled_instruction.program_id_index] == spl.SYSTEM, "another program")
            _require(data[:4] == b"\2\0\0\0" and named[0] == own != named[1], "no transfer")
            taken += int.from_bytes(data[4:12], "little")
        else:
            _require(keys[compiled_instruction.program_id_index] == spl.TOKEN, "another program")
            _require(data[0] == 12 and data[9] == 6 and len(data) == 10, "no transfer")
            _require(named[0] == place and named[3] == own, "another account")
            _require(str(named[1]) == MINT and named[2] != place, "another token")
            taken += int.from_bytes(data[1:9], "little")
    _require(taken == amount, f"{taken} is taken, and {amount} was shown")


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def main() -> None:
    """Run a long campaign, and print the findings; exit with 1 if there are any."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=10_000, help="options that are changed")
    options.add_argument("--number", type=int, default=1, help="the same seed lies the same again")
    chosen = options.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        findings = campaign(Path(folder), chosen.cases, chosen.number)
    for violation in findings.violations:
        sys.stdout.write(violation + "\n")
    sys.stdout.write(
        f"{findings.cases} cases in {time.monotonic() - started:.0f} s, signed "
        f"{dict(findings.signed)}, "
        f"exit statuses {dict(findings.statuses)}, {len(findings.violations)} violations\n"
    )
    raise SystemExit(bool(findings.violations))


if __name__ == "__main__":
    main()
