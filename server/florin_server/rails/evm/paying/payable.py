"""What accounts hold on a chain, and how they can pay with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from florin_server.chains.evm import abi
from florin_server.chains.evm.typed_data import PERMIT2
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.signing import QUESTIONS, Signing, judged, questions
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, NOBODY, PERMIT2_METHOD, bare
from florin_server.rails.evm.paying.verify import ALLOWANCE, BALANCE_OF
from florin_server.rails.evm.reading.guards import NO_GUARD, PAUSED, UNGUARDED, Guards, is_true
from florin_server.rails.evm.reading.reader import Reader
from florin_server.rails.evm.reading.reads import Answer, Question
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import Asset, Payable, RailUnavailable

DECIMALS: Final = abi.selector("decimals()")
_FOR_PERMIT2: Final = abi.address(PERMIT2)
# accounts without keys, so that what they hold hardly ever changes
_STRANGERS: Final = tuple(bytes([0xF1, number]) * 10 for number in (1, 2, 3))


async def means(
    reader: Reader,
    chain: EvmChain,
    payers: Sequence[str],
    assets: Sequence[Asset],
    prices: Mapping[str, int],
    *,
    by_hand: Collection[str] = (),
    unsure: Collection[str] = (),
    guards: Guards = UNGUARDED,
    passkeys: bool = True,
) -> list[Payable]:
    """Which payers (CAIP-10) hold the price of which asset, and how they can pay it; one read.

    Those `by_hand` send their payments by themselves if they have code; of those `unsure` a
    signature was refused, so that code is offered both ways. Of one who may have to, and
    may be able to sign, both ways are told, the signature first. What a token tells (`guards`) of
    whom it refuses counts. `passkeys` tells that the chain checks those by itself.
    """
    answers = iter(await reader.read(_questions(chain, payers, assets, guards)))
    tokens = [asset for asset in assets if asset.address != NOBODY]
    paused = {
        asset.id: guards.get(asset.id, NO_GUARD).pauses and _is_yes(next(answers))
        for asset in tokens
    }
    found = []
    for payer in payers:
        ways, allowed = _signing(
            tokens,
            answers,
            signs=payer not in by_hand,
            sure=payer not in unsure,
            passkeys=passkeys,
        )
        for asset in assets:
            coin = asset.address == NOBODY
            balance = _number(next(answers))
            permitted = _number(next(answers)) if asset.method == PERMIT2_METHOD else None
            refused = guards.get(asset.id, NO_GUARD).blocked is not None and _is_yes(next(answers))
            price = prices[asset.id]
            # a token that reverts on an account's balance will not move it either; whoever pays in
            # coin needs some more of it for gas
            if balance is None or balance < price or (coin and balance == price):
                continue
            if coin:
                found.append(Payable(payer, asset.id))
                continue
            if paused[asset.id] or refused:
                continue
            if ways is not Signing.NEVER:
                approved = permitted if asset.method == PERMIT2_METHOD else price
                if approved is not None:
                    found.append(Payable(payer, asset.id, _approvals(asset, price, approved)))
            if ways is not Signing.DOES and (approved := allowed[asset.id]) is not None:
                missing = _approvals(asset, price, approved)
                found.append(Payable(payer, asset.id, missing, DIRECT_METHOD))
    return found


def sample(chain: EvmChain, assets: Sequence[Asset]) -> list[Question]:
    """Questions as a buyer with three accounts has them, whose answers hardly ever change."""
    strangers = [f"{chain.caip2}:0x{account.hex()}" for account in _STRANGERS]
    there = bytes.fromhex(chain.settler[2:])
    nothing = settler.IS_PAID + bytes(2 * abi.WORD)
    tokens = [_place(asset) for asset in assets if asset.address != NOBODY]
    return [
        *_questions(chain, strangers, assets),
        *(Question(token, DECIMALS) for token in tokens),
        Question(there, nothing, of=there),
        Question(there, None),
        # answered by no contract, in whatever way they are asked
        Question(there, abi.selector("nothing()")),
    ]


def _questions(
    chain: EvmChain, payers: Sequence[str], assets: Sequence[Asset], guards: Guards = UNGUARDED
) -> list[Question]:
    """Which tokens are paused; for each payer how it signs, if it has code, and what it holds.

    With that whether the token refuses it.
    """
    places = [(asset, _place(asset)) for asset in assets]
    to_settler = abi.address(chain.settler)
    asked = [
        Question(place, PAUSED) for asset, place in places if guards.get(asset.id, NO_GUARD).pauses
    ]
    for payer in payers:
        account = bytes.fromhex(bare(payer)[2:])
        word = account.rjust(abi.WORD, b"\0")
        balance, permitted = BALANCE_OF + word, ALLOWANCE + word + _FOR_PERMIT2
        approved = ALLOWANCE + word + to_settler
        tokens = [place for asset, place in places if asset.address != NOBODY]
        if tokens:
            asked += questions(account)
            asked += [Question(place, approved, of=account) for place in tokens]
        for asset, place in places:
            if asset.address == NOBODY:
                asked.append(Question(account, None))
                continue
            asked.append(Question(place, balance))
            if asset.method == PERMIT2_METHOD:
                asked.append(Question(place, permitted))
            if (blocked := guards.get(asset.id, NO_GUARD).blocked) is not None:
                asked.append(Question(place, blocked + word))
    return asked


def _signing(
    tokens: Sequence[Asset],
    answers: Iterator[Answer],
    *,
    signs: bool,
    sure: bool,
    passkeys: bool,
) -> tuple[Signing, dict[str, int | None]]:
    """Whether an account signs for tokens, and what it allows the settlement contract.

    No signature is taken now of one that is not to sign (not `signs`), if it has code. One of which
    a signature was refused (not `sure`) may sign.
    """
    if not tokens:
        return Signing.DOES, {}
    verdict = judged([next(answers) for _ in range(QUESTIONS)], passkeys=passkeys)
    allowed = {asset.id: next(answers) for asset in tokens}
    if verdict is None:
        return Signing.DOES, {}
    if verdict is Signing.DOES and not sure:
        verdict = Signing.MAY
    numbers = {asset: _number(answer) for asset, answer in allowed.items()}
    return (verdict if signs else Signing.NEVER), numbers


def _number(answer: Answer) -> int | None:
    """The number in an answer; None if the contract reverted."""
    if answer is None:
        raise RailUnavailable("the node answered nothing about a token")
    good, told = answer
    if not good:
        return None
    if len(told) != abi.WORD:
        # no code at its address, for a node that lags behind
        raise RailUnavailable("the contract answered something else than a number")
    return int.from_bytes(told, "big")


def _is_yes(answer: Answer) -> bool:
    """True if a contract answered yes; one that reverts said nothing."""
    return answer is not None and answer[0] and is_true(answer[1])


def _approvals(asset: Asset, price: int, allowance: int) -> tuple[int, ...]:
    """The allowances to give, in order, until one covers exactly the price."""
    if allowance >= price:
        return ()
    return (0, price) if allowance and asset.approve_from_zero else (price,)


def _place(asset: Asset) -> bytes:
    return bytes.fromhex(asset.address[2:])
