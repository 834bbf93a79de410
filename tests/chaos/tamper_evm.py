"""Tampers with what wallets return on EVM chains, and settles whatever is taken all the same.

    python -m tests.chaos.tamper_evm --count 100000 [--seed 0] [--bug NAME]

Keys, contracts that sign (ERC-1271), keys with code (EIP-7702) and accounts that do not exist yet
(ERC-6492) answer options by EIP-3009 and Permit2, on an embedded chain. Each mutant of an answer is
looked at as confirm does. What is taken must be one of the spellings that are agreed on, and must
settle; what is one of those must be taken. Prints one JSON object; ends with 1 if anything was
taken or refused wrongly, or broke.
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
from florin_server.chains.evm.typed_data import PERMIT2
from florin_server.devnet.genesis import DEVNET
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments import results
from florin_server.rails.evm.paying import erc6492, terms, verify
from florin_server.rails.evm.paying.erc6492 import Opening
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.evm.sending import submission
from florin_server.rails.offered import Offered
from florin_server.rails.types import Payable, Split

from tests.chaos.evm_mutants import KINDS, WAYS, Case, Payer, Way, sign, spellings, twins
from tests.support.evm_lab import (
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    Lab,
    accept,
    account_of,
    asset,
    buyer,
    euro,
    new_payment,
    open_lab,
    settings,
)
from tests.support.smart import MAGIC, approval, smart, wrapped

FEE = 40_000
TOGETHER = 64  # verified at once, as a busy service does
SETTLED_MAX = 4  # of a case and a way; the others are simulated only
DATA_MAX = 3_072
# passes its call on to the factory that is allowed
SIDE_DOOR = f"365f5f375f5f365f5f73{DEVNET.wallet_factory[2:]}5af100"
HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})+", re.ASCII)
REASONS = {"signature_mismatch", "unreadable_output", "insufficient_funds"}


async def _accept(*_: Any) -> None:
    """Takes everything."""


def _open_all(*given: Any) -> submission.Item:
    made = _item(*given)
    found = erc6492.unwrap(given[3])
    if found is None:
        return made
    return replace(made, opening=Opening(given[2], found.factory, found.data))


def _loose(given: bytes) -> erc6492.Wrapped | None:
    try:
        factory, data, inner = decode(["address", "bytes", "bytes"], given[:-32])
    except (DecodingError, OverflowError):
        return None
    return erc6492.Wrapped(factory, data, inner) if given[-32:].hex() == MAGIC else None


_item = submission.item
# each opens one hole, for proving that it would be found
BUGS: dict[str, Sequence[tuple[object, str, Any]]] = {
    "accept-all": ((verify.Signatures, "verify", _accept),),
    "any-factory": ((verify, "item", _open_all), (submission, "item", _open_all)),
    "loose-wrapper": ((erc6492, "unwrap", _loose), (submission, "unwrap", _loose)),
    "believe-tokens": ((verify.Signatures, "_judge", _accept),),
    "loose-hex": (
        (results, "_HEX", re.compile(r"0[xX][0-9a-fA-F\s_]*")),
        (verify, "read_hex", lambda text, _: bytes.fromhex(str(text).lower().removeprefix("0x"))),
    ),
}


@dataclass
class World:
    """A chain with accounts of every kind, and an option for each in both tokens, twice."""

    lab: Lab
    cases: list[Case]
    foreign: list[Case] = field(default_factory=list)  # of another chain: answers only


async def world() -> World:
    lab = await open_lab(assets=(asset(), euro()))
    chain = {"opener": DEVNET.opener, "factories": (DEVNET.wallet_factory,)}
    chosen = settings(**chain, assets=(asset(), euro()), faucet=True)
    lab.rail = EvmRail(chosen, RELAYER, lab.node)
    await lab.rail.start()
    cases, foreign = [], []
    for payer in [one for number in (1, 2) for one in await payers(lab, 10 * number)]:
        prices = {} if payer.poor else {TOKEN: PRICE, EURO: PRICE}
        assert len(await lab.payable([account_of(payer.address)], prices)) == len(prices)
        for number in (1, 2):
            for token in (TOKEN, EURO):
                cases.append(case_of(lab, payer, token, number))
                elsewhere = chosen.model_copy(update={"chain_id": 8453})
                foreign.append(case_of(lab, payer, token, number, elsewhere))
    return World(lab, cases, foreign)


async def payers(lab: Lab, number: int) -> list[Payer]:
    """One of each kind, with an allowance for what is paid by Permit2."""
    allowance = approval(DEVNET.euro.address, PERMIT2, 100 * PRICE)
    key, owner, delegate, unborn = (buyer(number + n) for n in range(4))
    made = {one: smart(one, calls=[allowance]) for one in (owner, delegate, unborn)}
    for one in (owner, delegate):
        await lab.send(to=made[one].factory, data=made[one].data, gas=2_000_000)
    for one in (key, delegate):
        await lab.fund(one)
        to, data = allowance
        await lab.send(key=bytes(one.key), to=to, data=data)
    nonce = await lab.control.call("eth_getTransactionCount", delegate.address, "latest")
    signed = delegate.sign_authorization(
        {"chainId": DEVNET.chain_id, "address": made[delegate].address, "nonce": int(nonce, 16)}
    )
    await lab.send(to=DEVNET.faucet, authorizationList=[signed])
    door, poor = await lab.deploy(SIDE_DOOR), buyer(number + 5)
    return [
        Payer("key", key, key.address.lower()),
        Payer("contract", owner, made[owner].address, made[owner]),
        Payer("delegated", delegate, delegate.address.lower()),
        Payer("unborn", unborn, made[unborn].address, made[unborn], door),
        Payer("key", poor, poor.address.lower(), poor=True),
        Payer("unborn", poor, smart(poor).address, smart(poor), poor=True),
    ]


def case_of(lab: Lab, payer: Payer, token: str, number: int, chain: Any = None) -> Case:
    payment = new_payment(number)
    account = account_of(payer.address)
    split = Split(account_of(MERCHANT), account_of(FEES), FEE, settled=True)
    taken = lab.rail.assets[token]
    offered = Offered(payment, account, account, taken, PRICE, split, now_us=0)
    option = terms.build_option(chain or lab.rail.chain, offered, Payable(account, token))
    _signer, text = json.loads(option.actions[-1].params_json)
    document = json.loads(text)
    return Case(payer, payment, option, document, sign(payer.owner, document))


# ---- what is agreed on


def agreed(case: Case, outputs: Sequence[str]) -> bool | None:
    """Whether an answer says what the right one says; None if that depends on a factory."""
    if len(outputs) != len(case.option.actions) or case.payer.poor:
        return False
    try:
        text = json.loads(outputs[-1])
    except (ValueError, RecursionError):
        return False
    if not isinstance(text, str) or not HEX.fullmatch(text):
        return False
    data, kind = bytes.fromhex(text[2:]), case.payer.kind
    if len(data) > verify.SIGNATURE_BYTES_MAX:
        return False
    if kind != "unborn" and data in (
        twins(case.inner) if kind == "contract" else spellings(case.inner)
    ):
        return True
    if kind == "key" or data[-32:].hex() != MAGIC:
        return False
    try:
        factory, begun, inner = decode(["address", "bytes", "bytes"], data[:-32])
    except (DecodingError, OverflowError):
        return False
    if wrapped(factory, begun, inner) != "0x" + data.hex() or len(begun) > DATA_MAX:
        return False
    if inner not in twins(case.inner):
        return False
    if kind == "unborn":
        own = case.payer.smart
        assert own is not None
        if factory != own.factory:
            return False
        return True if begun == own.data else None
    return True


# ---- the judge


async def looked_at(place: World, case: Case, outputs: list[str]) -> str:
    """What confirm would say: "taken", or why not."""
    kinds = [results.expected_kind(one.method) for one in case.option.actions]  # type: ignore[union-attr]
    results.digest(case.option.id, outputs)
    form = results.match(kinds, outputs)
    if form.verdict is not results.Verdict.OK:
        return str(form.verdict)
    try:
        await place.lab.rail.verifier.verify(case.option, (), outputs)
    except FlorinError as refusal:
        reason = str(refusal.details.get("reason", ""))
        if refusal.code is not Code.INVALID_PARAMS or reason not in REASONS:
            raise
        return reason
    return "taken"


async def settles(place: World, case: Case, outputs: list[str], *, really: bool) -> bool:
    """Whether it pays the merchant and the operator exactly; what was settled is undone."""
    lab, item = place.lab, accept(case.payment, case.option, *outputs)
    if await lab.rail.relay.simulate([item]) != [True]:
        return False
    if not really:
        return True
    token = case.option.asset.rpartition(":")[2]
    people = (case.payer.address, MERCHANT, FEES)
    mark = await lab.control.call("evm_snapshot")
    before = [await lab.balance(one, token) for one in people]
    await lab.settle(item)
    after = [await lab.balance(one, token) for one in people]
    events = await lab.rail.direct.paid([lab.rail.terms.reference(case.option)], 0)
    proven = [lab.rail.terms.proves(case.option, one) for one in events] == [True]
    assert await lab.control.call("evm_revert", mark)
    changes = [new - old for new, old in zip(after, before, strict=True)]
    return proven and changes == [-PRICE, PRICE - FEE, FEE]


async def campaign(
    count: int, seed: int = 0, ways: Sequence[Way] = WAYS, kinds: Sequence[str] = KINDS
) -> dict[str, Any]:
    """`count` mutants of answers by accounts of some kinds; equal seeds give equal ones."""
    rng, place, started = random.Random(seed), await world(), time.monotonic()
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    settled: Counter[tuple[str, str]] = Counter()
    for case in [one for one in place.cases if not one.payer.poor]:
        assert await looked_at(place, case, case.outputs(case.good)) == "taken", case.payer
        assert await settles(place, case, case.outputs(case.good), really=True), case.payer
    cases = [one for one in place.cases if one.payer.kind in kinds]
    answers = [*place.cases, *place.foreign]
    done = 0
    while done < count:
        mutants = []
        for _ in range(min(TOGETHER, count - done)):
            case, way = rng.choice(cases), rng.choice(ways)
            mutants.append((case, way.__name__, way(case, answers, rng)))
        done += len(mutants)
        verdicts = await asyncio.gather(
            *(looked_at(place, case, outputs) for case, _, outputs in mutants),
            return_exceptions=True,
        )
        for (case, way, outputs), verdict in zip(mutants, verdicts, strict=True):
            known = f"{case.payer.kind} {case.option.method} {way} {outputs}"
            if isinstance(verdict, BaseException):
                wrong.append(f"{known}: {type(verdict).__name__} {verdict}")
                continue
            outcomes[f"{case.payer.kind}: {verdict}"] += 1
            right = agreed(case, outputs)
            if (verdict == "taken") != (right is not False) and right is not None:
                wrong.append(f"{known}: {verdict}")
            elif verdict == "taken":
                key = (case.option.id, way)
                settled[key] += 1
                really = settled[key] <= SETTLED_MAX
                if not await settles(place, case, outputs, really=really):
                    wrong.append(f"{known}: taken, and does not settle")
    await place.lab.rail.close()
    await place.lab.chain.close()
    return {
        "mutants": count,
        "per_second": round(count / (time.monotonic() - started)),
        "outcomes": dict(sorted(outcomes.items())),
        "settled": sum(min(number, SETTLED_MAX) for number in settled.values()),
        "wrong": wrong,
    }


def plant(bug: str, put: Callable[[object, str, Any], None] = setattr) -> None:
    """Opens a hole."""
    for where, name, what in BUGS[bug]:
        put(where, name, what)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.tamper_evm")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bug", choices=sorted(BUGS))
    given = parser.parse_args()
    if given.bug is not None:
        plant(given.bug)
    result = asyncio.run(campaign(given.count, given.seed))
    print(json.dumps(result))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
