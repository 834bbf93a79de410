"""The balances of accounts on a chain, and the ways they can pay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.signing import (
    QUESTIONS,
    SigningAbility,
    build_questions,
    judge_signing,
)
from florin_server.rails.evm.paying.terms import (
    DIRECT_METHOD,
    PERMIT2_METHOD,
    ZERO_ADDRESS,
    to_address,
)
from florin_server.rails.evm.paying.verify import ALLOWANCE, BALANCE_OF
from florin_server.rails.evm.reading.guards import (
    NO_GUARD,
    PAUSED_SELECTOR,
    UNGUARDED,
    TokenGuards,
    is_true,
)
from florin_server.rails.evm.reading.reader import EvmReader
from florin_server.rails.evm.reading.reads import ContractAnswer, ContractQuestion
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import Asset, PayableAsset, RailUnavailable

DECIMALS: Final = abi.encode_selector("decimals()")
NONCES: Final = abi.encode_selector("nonces(address)")
_FOR_PERMIT2: Final = abi.encode_address(PERMIT2)
# accounts without keys, so that their balances hardly ever change
_SAMPLE_ACCOUNTS: Final = tuple(bytes([0xF1, number]) * 10 for number in (1, 2, 3))


async def list_payable(
    reader: EvmReader,
    chain: EvmChainSettings,
    payers: Sequence[str],
    assets: Sequence[Asset],
    prices: Mapping[str, int],
    *,
    manual_payers: Collection[str] = (),
    uncertain_payers: Collection[str] = (),
    guards: TokenGuards = UNGUARDED,
    has_passkeys: bool = True,
) -> list[PayableAsset]:
    """Return which payers (CAIP-10) hold an asset's price, and how they can pay; one read.

    Payers in `manual_payers` send their payments themselves if they have code. A signature of the
    payers in `uncertain_payers` was refused, so accounts with code get both ways. An account that
    may be able to sign, but may have to send, gets both ways, the signature first. `guards`
    describes how tokens report the accounts that they block. `has_passkeys` says whether the chain
    checks passkeys itself.
    """
    answers = iter(await reader.read(_build_questions(chain, payers, assets, guards)))
    tokens = [asset for asset in assets if asset.address != ZERO_ADDRESS]
    paused = {
        asset.id: guards.get(asset.id, NO_GUARD).is_pausable and _is_yes(next(answers))
        for asset in tokens
    }
    payables = []
    for payer in payers:
        ways, allowed = _judge_signing(
            tokens,
            answers,
            can_sign=payer not in manual_payers,
            is_certain=payer not in uncertain_payers,
            has_passkeys=has_passkeys,
        )
        for asset in assets:
            coin = asset.address == ZERO_ADDRESS
            balance = _parse_number(next(answers))
            permitted = _parse_number(next(answers)) if asset.method == PERMIT2_METHOD else None
            nonce = _parse_number(next(answers)) if asset.approval_domain is not None else None
            refused = guards.get(asset.id, NO_GUARD).blocklist_selector is not None and _is_yes(
                next(answers)
            )
            price = prices[asset.id]
            # a token that reverts on an account's balance will not move it either; a payer in
            # native coin needs more of it for gas
            if balance is None or balance < price or (coin and balance == price):
                continue
            if coin:
                payables.append(PayableAsset(payer, asset.id))
                continue
            if paused[asset.id] or refused:
                continue
            if ways is not SigningAbility.NEVER_SIGNS:
                approved = permitted if asset.method == PERMIT2_METHOD else price
                if approved is not None:
                    missing = _list_approvals(asset, price, approved)
                    # an account without code approves by signature, with one message more
                    if len(missing) == 1 and nonce is not None and not allowed:
                        payables.append(PayableAsset(payer, asset.id, permit_nonce=nonce))
                    payables.append(PayableAsset(payer, asset.id, missing))
            if ways is not SigningAbility.SIGNS and (approved := allowed[asset.id]) is not None:
                missing = _list_approvals(asset, price, approved)
                payables.append(PayableAsset(payer, asset.id, missing, DIRECT_METHOD))
    return payables


def build_sample(chain: EvmChainSettings, assets: Sequence[Asset]) -> list[ContractQuestion]:
    """Return a typical buyer's questions for three accounts, whose answers hardly ever change."""
    strangers = [f"{chain.caip2}:0x{account.hex()}" for account in _SAMPLE_ACCOUNTS]
    there = bytes.fromhex(chain.settler[2:])
    nothing = settler.IS_PAID + bytes(2 * abi.WORD)
    tokens = [_encode_slot(asset) for asset in assets if asset.address != ZERO_ADDRESS]
    return [
        *_build_questions(chain, strangers, assets),
        *(ContractQuestion(token, DECIMALS) for token in tokens),
        ContractQuestion(there, nothing, owner=there),
        ContractQuestion(there, None),
        # no contract answers it, regardless of how it is called
        ContractQuestion(there, abi.encode_selector("nothing()")),
    ]


def _build_questions(
    chain: EvmChainSettings,
    payers: Sequence[str],
    assets: Sequence[Asset],
    guards: TokenGuards = UNGUARDED,
) -> list[ContractQuestion]:
    """Build the questions: which tokens are paused, and each payer's signing, code and balances.

    They include whether a token blocks the payer.
    """
    places = [(asset, _encode_slot(asset)) for asset in assets]
    to_settler = abi.encode_address(chain.settler)
    questions = [
        ContractQuestion(place, PAUSED_SELECTOR)
        for asset, place in places
        if guards.get(asset.id, NO_GUARD).is_pausable
    ]
    for payer in payers:
        account = bytes.fromhex(to_address(payer)[2:])
        word = account.rjust(abi.WORD, b"\0")
        balance, permitted = BALANCE_OF + word, ALLOWANCE + word + _FOR_PERMIT2
        approved = ALLOWANCE + word + to_settler
        tokens = [place for asset, place in places if asset.address != ZERO_ADDRESS]
        if tokens:
            questions += build_questions(account)
            questions += [ContractQuestion(place, approved, owner=account) for place in tokens]
        for asset, place in places:
            if asset.address == ZERO_ADDRESS:
                questions.append(ContractQuestion(account, None))
                continue
            questions.append(ContractQuestion(place, balance))
            if asset.method == PERMIT2_METHOD:
                questions.append(ContractQuestion(place, permitted))
            if asset.approval_domain is not None:
                questions.append(ContractQuestion(place, NONCES + word))
            if (blocked := guards.get(asset.id, NO_GUARD).blocklist_selector) is not None:
                questions.append(ContractQuestion(place, blocked + word))
    return questions


def _judge_signing(
    tokens: Sequence[Asset],
    answers: Iterator[ContractAnswer],
    *,
    can_sign: bool,
    is_certain: bool,
    has_passkeys: bool,
) -> tuple[SigningAbility, dict[str, int | None]]:
    """Return an account's ability to sign for tokens, and its allowances to the settler.

    An account with code that is not to sign (`can_sign` is False) does not sign. An account whose
    signature was refused (`is_certain` is False) may sign.
    """
    if not tokens:
        return SigningAbility.SIGNS, {}
    verdict = judge_signing([next(answers) for _ in range(QUESTIONS)], has_passkeys=has_passkeys)
    allowed = {asset.id: next(answers) for asset in tokens}
    if verdict is None:
        return SigningAbility.SIGNS, {}
    if verdict is SigningAbility.SIGNS and not is_certain:
        verdict = SigningAbility.MAY_SIGN
    numbers = {asset: _parse_number(answer) for asset, answer in allowed.items()}
    return (verdict if can_sign else SigningAbility.NEVER_SIGNS), numbers


def _parse_number(answer: ContractAnswer) -> int | None:
    """Return the number in an answer; None if the contract reverted."""
    if answer is None:
        raise RailUnavailable("the node answered nothing about a token")
    good, data = answer
    if not good:
        return None
    if len(data) != abi.WORD:
        # there is no code at its address, according to a node that lags behind
        raise RailUnavailable("the contract returned something other than a number")
    return int.from_bytes(data, "big")


def _is_yes(answer: ContractAnswer) -> bool:
    """Return True if a contract answered yes; a revert is no answer."""
    return answer is not None and answer[0] and is_true(answer[1])


def _list_approvals(asset: Asset, price: int, allowance: int) -> tuple[int, ...]:
    """Return the allowances to give, in order, until the last covers exactly the price."""
    if allowance >= price:
        return ()
    return (0, price) if allowance and asset.approve_from_zero else (price,)


def _encode_slot(asset: Asset) -> bytes:
    return bytes.fromhex(asset.address[2:])
