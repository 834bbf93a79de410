"""Tamper with what wallets return on EVM chains, and settle whatever is accepted.

    python -m tests.chaos.tamper_evm --count 100000 [--seed 0] [--bug NAME]

Keys, contracts that sign (ERC-1271), keys with code (EIP-7702) and accounts that do not exist yet
(ERC-6492) answer options by EIP-3009 and Permit2, on an embedded chain. Each mutant of an answer is
verified as by confirm. An accepted mutant must be one of the agreed encodings, and must settle.
Each agreed encoding must be accepted. Prints one JSON object. Exits with 1 if anything was accepted
or refused wrongly, or crashed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eth_abi import decode
from eth_abi.exceptions import DecodingError
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments import results
from florin_server.rails.evm.paying import erc6492, terms, verify
from florin_server.rails.evm.paying import outputs as wallet_outputs
from florin_server.rails.evm.paying.erc6492 import AccountCreation
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending import submission
from florin_server.rails.option_offer import OptionOffer
from florin_server.rails.types import PayableAsset, Split

from tests.chaos.evm_mutants import (
    KINDS,
    MUTATIONS,
    Case,
    Mutation,
    Payer,
    list_encodings,
    list_equal_signatures,
    sign,
)
from tests.support.contract_accounts import (
    MAGIC,
    make_approval,
    make_contract_account,
    wrap_signature,
)
from tests.support.evm_harness import (
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_chain_settings,
    make_euro_asset,
    make_payment,
    make_settlement_item,
    open_lab,
    to_account,
)

FEE = 40_000
BATCH_SIZE = 64  # verified together, as in a busy service
SETTLED_MAX = 4  # per case and mutation; the others are only simulated
DATA_MAX = 3_072
# forwards its call to the allowed factory
SIDE_DOOR = f"365f5f375f5f365f5f73{DEVNET.wallet_factory[2:]}5af100"
HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})+", re.ASCII)
REASONS = {"signature_mismatch", "unreadable_output", "insufficient_funds"}


async def _accept(*_: Any) -> None:
    """Accept everything."""


def _open_all(*args: Any) -> submission.SubmissionItem:
    submission_item = _build_item(*args)
    wrapped_signature = erc6492.unwrap(args[3])
    if wrapped_signature is None:
        return submission_item
    return replace(
        submission_item,
        creation=AccountCreation(args[2], wrapped_signature.factory, wrapped_signature.data),
    )


def _unwrap_loosely(value: bytes) -> erc6492.WrappedSignature | None:
    try:
        factory, data, inner = decode(["address", "bytes", "bytes"], value[:-32])
    except (DecodingError, OverflowError):
        return None
    return erc6492.WrappedSignature(factory, data, inner) if value[-32:].hex() == MAGIC else None


_build_item = submission.build_item
# each plants one bug, to prove that the campaign finds it
BUGS: dict[str, Sequence[tuple[object, str, Any]]] = {
    "accept-all": ((verify.SignatureVerifier, "verify", _accept),),
    "any-factory": ((verify, "build_item", _open_all), (submission, "build_item", _open_all)),
    "loose-wrapper": (
        (erc6492, "unwrap", _unwrap_loosely),
        (submission, "unwrap", _unwrap_loosely),
    ),
    "believe-tokens": ((verify.SignatureVerifier, "_require_settling", _accept),),
    "loose-hex": (
        (results, "_HEX", re.compile(r"0[xX][0-9a-fA-F\s_]*")),
        (
            wallet_outputs,
            "parse_hex",
            lambda text, _: bytes.fromhex(str(text).lower().removeprefix("0x")),
        ),
    ),
}


@dataclass
class World:
    """A chain with accounts of every kind, and two options for each in both tokens."""

    lab: EvmChainHarness
    cases: list[Case]
    foreign: list[Case] = field(default_factory=list)  # of another chain: answers only


async def create_world() -> World:
    lab = await open_lab(assets=(make_asset(), make_euro_asset()))
    chain = {"opener": DEVNET.opener, "factories": (DEVNET.wallet_factory,)}
    chosen = make_chain_settings(**chain, assets=(make_asset(), make_euro_asset()), faucet=True)
    lab.rail = EvmRail(chosen, RELAYER, lab.node)
    await lab.rail.start()
    cases, foreign = [], []
    for payer in [payer for number in (1, 2) for payer in await create_payers(lab, 10 * number)]:
        prices = {} if payer.poor else {TOKEN: PRICE, EURO: PRICE}
        assert len(await lab.payable([to_account(payer.address)], prices)) == len(prices)
        for number in (1, 2):
            for token in (TOKEN, EURO):
                cases.append(make_case(lab, payer, token, number))
                elsewhere = chosen.model_copy(update={"chain_id": 8453})
                foreign.append(make_case(lab, payer, token, number, elsewhere))
    return World(lab, cases, foreign)


async def create_payers(lab: EvmChainHarness, number: int) -> list[Payer]:
    """Create one payer of each kind, with an allowance for Permit2."""
    allowance = make_approval(DEVNET.euro.address, PERMIT2, 100 * PRICE)
    key, owner, delegate, unborn = (make_buyer(number + n) for n in range(4))
    accounts = {
        local_account: make_contract_account(local_account, calls=[allowance])
        for local_account in (owner, delegate, unborn)
    }
    for local_account in (owner, delegate):
        await lab.send(
            to=accounts[local_account].factory, data=accounts[local_account].data, gas=2_000_000
        )
    for local_account in (key, delegate):
        await lab.fund(local_account)
        to, data = allowance
        await lab.send(key=bytes(local_account.key), to=to, data=data)
    nonce = await lab.control.call("eth_getTransactionCount", delegate.address, "latest")
    signed = delegate.sign_authorization(
        {"chainId": DEVNET.chain_id, "address": accounts[delegate].address, "nonce": int(nonce, 16)}
    )
    await lab.send(to=DEVNET.faucet, authorizationList=[signed])
    door, poor = await lab.deploy(SIDE_DOOR), make_buyer(number + 5)
    return [
        Payer("key", key, key.address.lower()),
        Payer("contract", owner, accounts[owner].address, accounts[owner]),
        Payer("delegated", delegate, delegate.address.lower()),
        Payer("unborn", unborn, accounts[unborn].address, accounts[unborn], door),
        Payer("key", poor, poor.address.lower(), poor=True),
        Payer(
            "unborn",
            poor,
            make_contract_account(poor).address,
            make_contract_account(poor),
            poor=True,
        ),
    ]


def make_case(
    lab: EvmChainHarness, payer: Payer, token: str, number: int, chain: Any = None
) -> Case:
    payment = make_payment(number)
    account = to_account(payer.address)
    split = Split(to_account(MERCHANT), to_account(FEES), FEE, settled=True)
    asset = lab.rail.assets[token]
    offered = OptionOffer(
        payment, account, PayableAsset(account, token), asset, PRICE, split, now_us=0
    )
    option = terms.build_option(chain or lab.rail.chain, offered)
    _signer, text = json.loads(option.actions[-1].params_json)
    document = json.loads(text)
    return Case(payer, payment, option, document, sign(payer.owner, document))


# ---- agreed encodings


def is_agreed(case: Case, outputs: Sequence[str]) -> bool | None:
    """Return whether an answer equals the correct one; None if that depends on a factory."""
    if len(outputs) != len(case.option.actions) or case.payer.poor:
        return False
    try:
        text = json.loads(outputs[-1])
    except (ValueError, RecursionError):
        return False
    if not isinstance(text, str) or not HEX.fullmatch(text):
        return False
    data, kind = bytes.fromhex(text[2:]), case.payer.kind
    if len(data) > wallet_outputs.SIGNATURE_BYTES_MAX:
        return False
    if kind != "unborn" and data in (
        list_equal_signatures(case.inner) if kind == "contract" else list_encodings(case.inner)
    ):
        return True
    if kind == "key" or data[-32:].hex() != MAGIC:
        return False
    try:
        factory, creation_data, inner = decode(["address", "bytes", "bytes"], data[:-32])
    except (DecodingError, OverflowError):
        return False
    if (
        wrap_signature(factory, creation_data, inner) != "0x" + data.hex()
        or len(creation_data) > DATA_MAX
    ):
        return False
    if inner not in list_equal_signatures(case.inner):
        return False
    if kind == "unborn":
        own = case.payer.smart
        assert own is not None
        if factory != own.factory:
            return False
        return True if creation_data == own.data else None
    return True


# ---- verdicts


async def check_outputs(world: World, case: Case, outputs: list[str]) -> str:
    """Return the verdict of confirm: "taken", or the reason of the refusal."""
    kinds = [results.get_output_kind(action.method) for action in case.option.actions]  # type: ignore[union-attr]
    results.compute_digest(case.option.id, outputs)
    form = results.match_outputs(kinds, outputs)
    if form.verdict is not results.OutputVerdict.OK:
        return str(form.verdict)
    try:
        await world.lab.rail.verifier.verify(case.option, (), outputs)
    except ApiError as refusal:
        reason = str(refusal.details.get("reason", ""))
        if refusal.code is not ErrorCode.INVALID_PARAMS or reason not in REASONS:
            raise
        return reason
    return "taken"


async def settles(world: World, case: Case, outputs: list[str], *, execute: bool) -> bool:
    """Return whether it pays merchant and operator exactly; undo the settlement."""
    lab, item = world.lab, make_settlement_item(case.payment, case.option, *outputs)
    if await lab.rail.relay.simulate([item]) != [True]:
        return False
    if not execute:
        return True
    token = case.option.asset.rpartition(":")[2]
    people = (case.payer.address, MERCHANT, FEES)
    mark = await lab.control.call("evm_snapshot")
    before = [await lab.balance(text, token) for text in people]
    await lab.settle(item)
    after = [await lab.balance(text, token) for text in people]
    events = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(case.option)], 0
    )
    proven = [lab.rail.terms.is_proven(case.option, event) for event in events] == [True]
    assert await lab.control.call("evm_revert", mark)
    changes = [new - old for new, old in zip(after, before, strict=True)]
    return proven and changes == [-PRICE, PRICE - FEE, FEE]


async def campaign(
    count: int,
    seed: int = 0,
    mutations: Sequence[Mutation] = MUTATIONS,
    kinds: Sequence[str] = KINDS,
) -> dict[str, Any]:
    """Try `count` mutants of some accounts' answers; equal seeds give equal mutants."""
    rng, world, started = random.Random(seed), await create_world(), time.monotonic()
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    settled: Counter[tuple[str, str]] = Counter()
    for case in [case for case in world.cases if not case.payer.poor]:
        assert await check_outputs(world, case, case.encode_outputs(case.signature)) == "taken", (
            case.payer
        )
        assert await settles(world, case, case.encode_outputs(case.signature), execute=True), (
            case.payer
        )
    cases = [case for case in world.cases if case.payer.kind in kinds]
    answers = [*world.cases, *world.foreign]
    done = 0
    while done < count:
        mutants = []
        for _ in range(min(BATCH_SIZE, count - done)):
            case, mutation = rng.choice(cases), rng.choice(mutations)
            mutants.append((case, mutation.__name__, mutation(case, answers, rng)))
        done += len(mutants)
        verdicts = await asyncio.gather(
            *(check_outputs(world, case, outputs) for case, _, outputs in mutants),
            return_exceptions=True,
        )
        for (case, mutation, outputs), verdict in zip(mutants, verdicts, strict=True):
            label = f"{case.payer.kind} {case.option.method} {mutation} {outputs}"
            if isinstance(verdict, BaseException):
                wrong.append(f"{label}: {type(verdict).__name__} {verdict}")
                continue
            outcomes[f"{case.payer.kind}: {verdict}"] += 1
            expected = is_agreed(case, outputs)
            if (verdict == "taken") != (expected is not False) and expected is not None:
                wrong.append(f"{label}: {verdict}")
            elif verdict == "taken":
                key = (case.option.id, mutation)
                settled[key] += 1
                execute = settled[key] <= SETTLED_MAX
                if not await settles(world, case, outputs, execute=execute):
                    wrong.append(f"{label}: taken, and does not settle")
    await world.lab.rail.close()
    await world.lab.chain.close()
    return {
        "mutants": count,
        "per_second": round(count / (time.monotonic() - started)),
        "outcomes": dict(sorted(outcomes.items())),
        "settled": sum(min(number, SETTLED_MAX) for number in settled.values()),
        "wrong": wrong,
    }


def plant(bug: str, put: Callable[[object, str, Any], None] = setattr) -> None:
    """Plant a bug."""
    for where, name, what in BUGS[bug]:
        put(where, name, what)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.tamper_evm")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bug", choices=sorted(BUGS))
    namespace = parser.parse_args()
    if namespace.bug is not None:
        plant(namespace.bug)
    result = asyncio.run(campaign(namespace.count, namespace.seed))
    print(json.dumps(result))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
