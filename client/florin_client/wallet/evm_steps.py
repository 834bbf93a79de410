"""The steps of an option on an EVM chain, parsed into the values that are signed.

Each step has one form: minimal 0x-hex numbers, the members that EIP-3009, Permit2 and Florin's
settlement contract define, and no others. What is signed is built again from the parsed values, so
that nothing can mean one thing to the check and another to the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from florin_client.wallet.actions import Step, WalletError, parse_json
from florin_client.wallet.terms import OptionTerms, evm_address

PERMIT2: Final = "0x000000000022d473030f116ddee9f6b43ac78ba3"
APPROVE: Final = bytes.fromhex("095ea7b3")  # approve(address,uint256)
PAY: Final = bytes.fromhex("ef45def3")  # pay((…)) of Florin's settlement contract
NOBODY: Final = "0x" + "00" * 20

_QUANTITY = re.compile(r"0x(?:0|[1-9a-f][0-9a-f]{0,63})")
_WORD_HEX = re.compile(r"0x[0-9a-f]{64}")
_DATA = re.compile(r"0x(?:[0-9a-f]{2})*")
_WORD: Final = 32
# token, payer, value, validAfter, validBefore, dest, feeTo, fee, ref, gas, signature
_PAY_WORDS: Final = 11
_NAME_MAX: Final = 200

_AUTHORIZATION: Final = (
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
)
_PERMIT: Final = (
    ("permitted", "TokenPermissions"),
    ("spender", "address"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
_PERMITTED: Final = (("token", "address"), ("amount", "uint256"))
_DOMAIN: Final = (
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
)
_PERMIT_DOMAIN: Final = (_DOMAIN[0], *_DOMAIN[2:])


@dataclass(frozen=True, slots=True)
class Approval:
    """A transaction that lets `spender` take at most `amount` of `token`, from then on."""

    method = "eth_sendTransaction"

    token: str
    spender: str
    amount: int

    @property
    def call(self) -> tuple[str, int, bytes]:
        """Receiver, coin and data of the transaction."""
        return self.token, 0, APPROVE + _address_word(self.spender) + _word(self.amount)


@dataclass(frozen=True, slots=True)
class Authorization:
    """An EIP-3009 signature: `receiver` may take `amount` of `token` once, until `valid_before`."""

    method = "eth_signTypedData_v4"

    chain_id: int
    domain_name: str
    domain_version: str
    token: str
    payer: str
    receiver: str
    amount: int
    valid_before: int
    nonce: bytes

    def document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        domain = {
            "name": self.domain_name,
            "version": self.domain_version,
            "chainId": hex(self.chain_id),
            "verifyingContract": self.token,
        }
        message = {
            "from": self.payer,
            "to": self.receiver,
            "value": hex(self.amount),
            "validAfter": "0x0",
            "validBefore": hex(self.valid_before),
            "nonce": "0x" + self.nonce.hex(),
        }
        types = {"EIP712Domain": _DOMAIN, "ReceiveWithAuthorization": _AUTHORIZATION}
        return _document("ReceiveWithAuthorization", types, domain, message)


@dataclass(frozen=True, slots=True)
class Permit:
    """A Permit2 signature: `spender` may take `amount` of `token` once, until `deadline`."""

    method = "eth_signTypedData_v4"

    chain_id: int
    token: str
    spender: str
    amount: int
    nonce: int
    deadline: int

    def document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        domain = {"name": "Permit2", "chainId": hex(self.chain_id), "verifyingContract": PERMIT2}
        message = {
            "permitted": {"token": self.token, "amount": hex(self.amount)},
            "spender": self.spender,
            "nonce": hex(self.nonce),
            "deadline": hex(self.deadline),
        }
        types = {
            "EIP712Domain": _PERMIT_DOMAIN,
            "PermitTransferFrom": _PERMIT,
            "TokenPermissions": _PERMITTED,
        }
        return _document("PermitTransferFrom", types, domain, message)


@dataclass(frozen=True, slots=True)
class ContractPayment:
    """A transaction that calls `pay` of a settlement contract; `token` is None for the coin."""

    method = "eth_sendTransaction"

    contract: str
    token: str | None
    payer: str
    amount: int
    valid_before: int
    receiver: str
    fee_receiver: str
    fee: int
    reference: bytes

    @property
    def call(self) -> tuple[str, int, bytes]:
        """Receiver, coin and data of the transaction."""
        words = (
            _address_word(self.token or NOBODY),
            _address_word(self.payer),
            _word(self.amount),
            _word(0),
            _word(self.valid_before),
            _address_word(self.receiver),
            _address_word(self.fee_receiver),
            _word(self.fee),
            self.reference,
            _word(0),
            _word(_PAY_WORDS * _WORD),
            _word(0),
        )
        value = self.amount if self.token is None else 0
        return self.contract, value, PAY + _word(_WORD) + b"".join(words)


def parse_step(
    step: Step, terms: OptionTerms
) -> Approval | Authorization | Permit | ContractPayment:
    """Parse a step of an option; WalletError unless it is one that pays or approves its amount."""
    if step.method == "eth_signTypedData_v4":
        return _typed(step, terms)
    if step.method == "eth_sendTransaction":
        return _transaction(step, terms)
    raise WalletError(f"this wallet does not execute {step.method[:80]}")


def check_approvals(
    approvals: list[Approval], payment: Authorization | Permit | ContractPayment
) -> None:
    """Raise WalletError unless approvals allow exactly what the paying step takes.

    Some tokens take a new allowance only once the old one is 0: that may come first.
    """
    amounts = [one.amount for one in approvals]
    if isinstance(payment, Authorization) and approvals:
        _unfit("it asks for an allowance that the signature does not need")
    spender = PERMIT2 if isinstance(payment, Permit) else getattr(payment, "contract", None)
    if any(one.spender != spender for one in approvals):
        _unfit(f"an allowance is not for {spender}, which takes the payment")
    if amounts not in ([], [payment.amount], [0, payment.amount]):
        _unfit(f"it asks for allowances of {amounts}, and the option costs {payment.amount}")


def _typed(step: Step, terms: OptionTerms) -> Authorization | Permit:
    signer, text = _items(step.params, 2)
    _same("the signer", evm_address(signer), terms.account)
    document = _members(_parse_json(text), {"types", "primaryType", "domain", "message"})
    number = int(terms.chain_id.partition(":")[2])
    kind = document["primaryType"]
    if kind == "ReceiveWithAuthorization":
        parsed: Authorization | Permit = _authorization(document, terms, number)
    elif kind == "PermitTransferFrom":
        parsed = _permit(document, terms, number)
    else:
        _unfit(f"{str(kind)[:80]!r} is no message that pays")
    # types, order and texts: whatever is not what the parsed values give is another message
    if parsed.document() != _lowered(document, parsed.document()):
        _unfit("the message is not written as such messages are")
    return parsed


def _authorization(document: Mapping[str, Any], terms: OptionTerms, number: int) -> Authorization:
    domain = _members(document["domain"], {one for one, _ in _DOMAIN})
    message = _members(document["message"], {one for one, _ in _AUTHORIZATION})
    name, version = domain["name"], domain["version"]
    if not all(isinstance(one, str) and len(one) <= _NAME_MAX for one in (name, version)):
        _unfit("the token's name cannot be read")
    _same("the chain", _number(domain["chainId"]), number)
    _same("the token", evm_address(domain["verifyingContract"]), terms.token)
    _same("the payer", evm_address(message["from"]), terms.account)
    _same("the amount", _number(message["value"]), terms.amount)
    _same("the beginning", _number(message["validAfter"]), 0)
    receiver = _counterpart(message["to"], terms)
    nonce = message["nonce"]
    if not isinstance(nonce, str) or not _WORD_HEX.fullmatch(nonce):
        _unfit("its nonce cannot be read")
    return Authorization(
        chain_id=number,
        domain_name=name,
        domain_version=version,
        token=evm_address(domain["verifyingContract"]),
        payer=terms.account,
        receiver=receiver,
        amount=terms.amount,
        valid_before=_number(message["validBefore"]),
        nonce=bytes.fromhex(nonce[2:]),
    )


def _permit(document: Mapping[str, Any], terms: OptionTerms, number: int) -> Permit:
    domain = _members(document["domain"], {one for one, _ in _PERMIT_DOMAIN})
    message = _members(document["message"], {one for one, _ in _PERMIT})
    permitted = _members(message["permitted"], {one for one, _ in _PERMITTED})
    _same("the name", domain["name"], "Permit2")
    _same("the chain", _number(domain["chainId"]), number)
    _same("the contract", evm_address(domain["verifyingContract"]), PERMIT2)
    _same("the token", evm_address(permitted["token"]), terms.token)
    _same("the amount", _number(permitted["amount"]), terms.amount)
    return Permit(
        chain_id=number,
        token=evm_address(permitted["token"]),
        spender=_counterpart(message["spender"], terms),
        amount=terms.amount,
        nonce=_number(message["nonce"]),
        deadline=_number(message["deadline"]),
    )


def _transaction(step: Step, terms: OptionTerms) -> Approval | ContractPayment:
    (call,) = _items(step.params, 1)
    if not isinstance(call, Mapping) or not call.keys() <= {"from", "to", "value", "data"}:
        _unfit("a transaction has sender, receiver, value and data, and nothing else")
    _same("the sender", evm_address(call.get("from")), terms.account)
    to, value = evm_address(call.get("to")), _number(call.get("value", "0x0"))
    text = call.get("data")
    if not isinstance(text, str) or not _DATA.fullmatch(text.lower()):
        _unfit("the data of a transaction cannot be read")
    data = bytes.fromhex(text[2:])
    if data[:4] == APPROVE and terms.token is not None:
        parsed: Approval | ContractPayment = _approval(to, data[4:], terms)
    elif data[:4] == PAY:
        parsed = _contract_payment(to, data[4:], terms)
    else:
        _unfit(f"a call 0x{data[:4].hex()} of {to} is nothing that pays")
    if parsed.call != (to, value, data):
        _unfit(f"the call of {to} does not say what it does, or sends {value} of the coin")
    return parsed


def _approval(to: str, data: bytes, terms: OptionTerms) -> Approval:
    _same("the token", to, terms.token)
    words = _words(data, 2)
    amount = int.from_bytes(words[1], "big")
    if amount > terms.amount:
        _unfit(f"it lets others take {amount} of {to}, and the option costs {terms.amount}")
    return Approval(to, _address_of(words[0]), amount)


def _contract_payment(to: str, data: bytes, terms: OptionTerms) -> ContractPayment:
    words = _words(data, 1 + _PAY_WORDS + 1)[1:]
    numbers = [int.from_bytes(word, "big") for word in words]
    _same("the token", _address_of(words[0]), terms.token or NOBODY)
    _same("the payer", _address_of(words[1]), terms.account)
    _same("the amount", numbers[2], terms.amount)
    receiver, fee_receiver, fee = _address_of(words[5]), _address_of(words[6]), numbers[7]
    if receiver == NOBODY or fee > terms.amount:
        _unfit("it pays to nobody, or a fee that is more than the option costs")
    return ContractPayment(
        contract=_counterpart(to, terms),
        token=terms.token,
        payer=terms.account,
        amount=terms.amount,
        valid_before=numbers[4],
        receiver=receiver,
        fee_receiver=fee_receiver,
        fee=fee,
        reference=words[8],
    )


def _counterpart(text: object, terms: OptionTerms) -> str:
    """Return who takes the payment: no address that can never be a settlement contract."""
    address = evm_address(text)
    if address in {NOBODY, PERMIT2, terms.account, terms.token}:
        _unfit(f"{address} takes no payments")
    return address


def _parse_json(text: object) -> Any:
    """Parse typed data, as text or parsed already; a member that stands twice is refused."""
    if not isinstance(text, str):
        return text
    try:
        return parse_json(text, object_pairs_hook=_once, parse_constant=_unfit)
    except ValueError:
        _unfit("the message is no JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _unfit("a member of the message stands in it twice")
    return members


def _lowered(document: Any, expected: Any) -> Any:
    """Return the document with its addresses in lower case, where `expected` has an address."""
    if isinstance(expected, dict) and isinstance(document, Mapping):
        return {name: _lowered(one, expected.get(name)) for name, one in document.items()}
    if isinstance(document, str) and isinstance(expected, str) and len(expected) == len(NOBODY):
        return document.lower() if document.lower() == expected else document
    return document


def _document(
    primary: str,
    types: Mapping[str, tuple[tuple[str, str], ...]],
    domain: Mapping[str, str],
    message: Mapping[str, Any],
) -> dict[str, Any]:
    return {
        "types": {
            name: [{"name": member, "type": kind} for member, kind in members]
            for name, members in types.items()
        },
        "primaryType": primary,
        "domain": dict(domain),
        "message": dict(message),
    }


def _items(params: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    if len(params) != count:
        _unfit(f"it has {len(params)} parameters, and not {count}")
    return params


def _members(value: object, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or value.keys() != names:
        _unfit(f"the message has not exactly the members {', '.join(sorted(names))}")
    return value


def _number(text: object) -> int:
    """Return a number in its only form, minimal 0x-hex."""
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        _unfit(f"{str(text)[:80]!r} is no number in hex")
    return int(text, 16)


def _words(data: bytes, count: int) -> list[bytes]:
    if len(data) != count * _WORD:
        _unfit("the call has more or less arguments than it takes")
    return [data[at : at + _WORD] for at in range(0, len(data), _WORD)]


def _word(value: int) -> bytes:
    return value.to_bytes(_WORD, "big")


def _address_word(address: str) -> bytes:
    return bytes.fromhex(address[2:]).rjust(_WORD, b"\0")


def _address_of(word: bytes) -> str:
    return "0x" + word[-20:].hex()


def _same(what: str, value: object, expected: object) -> None:
    if value != expected:
        _unfit(f"{what} is {str(value)[:120]}, and not {expected}")


def _unfit(why: str) -> NoReturn:
    raise WalletError(f"the server asks for something else than the option says: {why}")
