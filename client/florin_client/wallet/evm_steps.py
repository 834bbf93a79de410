"""The steps of an option on an EVM chain, parsed into the values that are signed.

Each step has exactly one form: minimal 0x-hex numbers, and only the members that EIP-3009, Permit2
and Florin's settlement contract define. The signed message is rebuilt from the parsed values, so
that the check and the key see the same values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from florin_client.wallet.actions import Step, WalletError, parse_json
from florin_client.wallet.terms import OptionTerms, lowercase_addresses, parse_evm_address

PERMIT2: Final = "0x000000000022d473030f116ddee9f6b43ac78ba3"
APPROVE_SELECTOR: Final = bytes.fromhex("095ea7b3")  # approve(address,uint256)
TRANSFER_SELECTOR: Final = bytes.fromhex("a9059cbb")  # transfer(address,uint256)
PAY_SELECTOR: Final = bytes.fromhex("ef45def3")  # pay((…)) of Florin's settlement contract
ZERO_ADDRESS: Final = "0x" + "00" * 20
# the messages of EIP-3009: sent by the receiver alone, or by anyone
RECEIVE_TYPE: Final = "ReceiveWithAuthorization"
TRANSFER_TYPE: Final = "TransferWithAuthorization"

_QUANTITY = re.compile(r"0x(?:0|[1-9a-f][0-9a-f]{0,63})")
_WORD_HEX = re.compile(r"0x[0-9a-f]{64}")
_DATA = re.compile(r"0x(?:[0-9a-f]{2})*")
_WORD_BYTES: Final = 32
# token, payer, value, validAfter, validBefore, dest, feeTo, fee, ref, gas, signature
_PAY_WORDS: Final = 11
_NAME_MAX: Final = 200

_AUTHORIZATION_FIELDS: Final = (
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
)
_PERMIT_FIELDS: Final = (
    ("permitted", "TokenPermissions"),
    ("spender", "address"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
_APPROVAL_FIELDS: Final = (
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    *_PERMIT_FIELDS[2:],
)
_PERMITTED_FIELDS: Final = (("token", "address"), ("amount", "uint256"))
_DOMAIN_FIELDS: Final = (
    ("name", "string"),
    ("version", "string"),
    ("chainId", "uint256"),
    ("verifyingContract", "address"),
)
_PERMIT_DOMAIN_FIELDS: Final = (_DOMAIN_FIELDS[0], *_DOMAIN_FIELDS[2:])


@dataclass(frozen=True, slots=True)
class TokenApproval:
    """A transaction that approves `spender` for at most `amount` of `token`, without expiry."""

    method = "eth_sendTransaction"

    token: str
    spender: str
    amount: int

    @property
    def call(self) -> tuple[str, int, bytes]:
        """Return receiver, native coin and data of the transaction."""
        return (
            self.token,
            0,
            APPROVE_SELECTOR + _to_address_word(self.spender) + _to_word(self.amount),
        )


@dataclass(frozen=True, slots=True)
class SignedApproval:
    """An EIP-2612 signature, good until `deadline`, that approves `spender` without expiry."""

    method = "eth_signTypedData_v4"

    chain_id: int
    domain_name: str
    domain_version: str
    token: str
    payer: str
    spender: str
    amount: int
    nonce: int
    deadline: int

    def to_document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        message = {
            "owner": self.payer,
            "spender": self.spender,
            "value": hex(self.amount),
            "nonce": hex(self.nonce),
            "deadline": hex(self.deadline),
        }
        types = {"EIP712Domain": _DOMAIN_FIELDS, "Permit": _APPROVAL_FIELDS}
        return _build_document("Permit", types, _format_token_domain(self), message)


@dataclass(frozen=True, slots=True)
class TransferAuthorization:
    """An EIP-3009 signature: `receiver` can take `amount` of `token` once, until `valid_before`.

    With the primary type `TransferWithAuthorization` anyone can send the amount to `receiver`.
    """

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
    primary_type: str = RECEIVE_TYPE

    def to_document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        message = {
            "from": self.payer,
            "to": self.receiver,
            "value": hex(self.amount),
            "validAfter": "0x0",
            "validBefore": hex(self.valid_before),
            "nonce": "0x" + self.nonce.hex(),
        }
        types = {"EIP712Domain": _DOMAIN_FIELDS, self.primary_type: _AUTHORIZATION_FIELDS}
        domain = _format_token_domain(self)
        return _build_document(self.primary_type, types, domain, message)


@dataclass(frozen=True, slots=True)
class Permit2Transfer:
    """A Permit2 signature: `spender` can take `amount` of `token` once, until `deadline`."""

    method = "eth_signTypedData_v4"

    chain_id: int
    token: str
    spender: str
    amount: int
    nonce: int
    deadline: int

    def to_document(self) -> dict[str, Any]:
        """Return the EIP-712 document."""
        domain = {"name": "Permit2", "chainId": hex(self.chain_id), "verifyingContract": PERMIT2}
        message = {
            "permitted": {"token": self.token, "amount": hex(self.amount)},
            "spender": self.spender,
            "nonce": hex(self.nonce),
            "deadline": hex(self.deadline),
        }
        types = {
            "EIP712Domain": _PERMIT_DOMAIN_FIELDS,
            "PermitTransferFrom": _PERMIT_FIELDS,
            "TokenPermissions": _PERMITTED_FIELDS,
        }
        return _build_document("PermitTransferFrom", types, domain, message)


@dataclass(frozen=True, slots=True)
class ContractPayment:
    """A transaction that calls `pay` of a settlement contract; `token` is None for native coin."""

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
        """Return receiver, native coin and data of the transaction."""
        words = (
            _to_address_word(self.token or ZERO_ADDRESS),
            _to_address_word(self.payer),
            _to_word(self.amount),
            _to_word(0),
            _to_word(self.valid_before),
            _to_address_word(self.receiver),
            _to_address_word(self.fee_receiver),
            _to_word(self.fee),
            self.reference,
            _to_word(0),
            _to_word(_PAY_WORDS * _WORD_BYTES),
            _to_word(0),
        )
        value = self.amount if self.token is None else 0
        return self.contract, value, PAY_SELECTOR + _to_word(_WORD_BYTES) + b"".join(words)


_SignedStep = TransferAuthorization | Permit2Transfer | SignedApproval


def parse_step(step: Step, terms: OptionTerms) -> TokenApproval | _SignedStep | ContractPayment:
    """Parse a step of an option; raise WalletError unless it pays or approves the amount."""
    if step.method == "eth_signTypedData_v4":
        return _parse_typed_data(step, terms)
    if step.method == "eth_sendTransaction":
        return _parse_transaction(step, terms)
    raise WalletError(f"this wallet does not execute {step.method[:80]}")


def check_approvals(
    approvals: list[TokenApproval | SignedApproval],
    payment: TransferAuthorization | Permit2Transfer | ContractPayment,
) -> None:
    """Raise WalletError unless approvals allow exactly what the paying step takes.

    Some tokens accept a new allowance only after a reset to 0: that reset can come first.
    """
    amounts = [approval.amount for approval in approvals]
    if isinstance(payment, TransferAuthorization) and approvals:
        _reject_step("it sets an allowance that the signature does not need")
    spender = (
        PERMIT2 if isinstance(payment, Permit2Transfer) else getattr(payment, "contract", None)
    )
    if any(approval.spender != spender for approval in approvals):
        _reject_step(f"an allowance is not for the spender {spender}")
    for approval in approvals:
        if isinstance(approval, SignedApproval):
            if not isinstance(payment, Permit2Transfer) or len(approvals) > 1:
                _reject_step("a signed approval is beside another step than one by Permit2")
            if approval.deadline > payment.deadline:
                _reject_step("its approval can be submitted after the payment has expired")
    if amounts not in ([], [payment.amount], [0, payment.amount]):
        _reject_step(f"it sets allowances of {amounts}; the option costs {payment.amount}")


def _parse_typed_data(step: Step, terms: OptionTerms) -> _SignedStep:
    signer, text = _require_params(step.params, 2)
    _require_equal("the signer", parse_evm_address(signer), terms.account)
    document = _require_members(_parse_json(text), {"types", "primaryType", "domain", "message"})
    number = int(terms.chain_id.partition(":")[2])
    kind = document["primaryType"]
    if kind == RECEIVE_TYPE:
        parsed: _SignedStep = _parse_authorization(document, terms, number)
    elif kind == "PermitTransferFrom":
        parsed = _parse_permit(document, terms, number)
    elif kind == "Permit":
        parsed = _parse_signed_approval(document, terms, number)
    else:
        _reject_step(f"{str(kind)[:80]!r} is not a payment message")
    # types, order and texts: any difference from the parsed values is a different message
    if parsed.to_document() != lowercase_addresses(document, parsed.to_document()):
        _reject_step("the message does not have the form of its type")
    return parsed


def _parse_authorization(
    document: Mapping[str, Any], terms: OptionTerms, number: int
) -> TransferAuthorization:
    name, version = _parse_token_domain(document["domain"], terms, number)
    message = _require_members(document["message"], {member for member, _ in _AUTHORIZATION_FIELDS})
    _require_equal("the payer", parse_evm_address(message["from"]), terms.account)
    _require_equal("the amount", _parse_number(message["value"]), terms.amount)
    _require_equal("validAfter", _parse_number(message["validAfter"]), 0)
    receiver = _parse_payee(message["to"], terms)
    nonce = message["nonce"]
    if not isinstance(nonce, str) or not _WORD_HEX.fullmatch(nonce):
        _reject_step("the nonce is invalid")
    return TransferAuthorization(
        chain_id=number,
        domain_name=name,
        domain_version=version,
        token=parse_evm_address(document["domain"]["verifyingContract"]),
        payer=terms.account,
        receiver=receiver,
        amount=terms.amount,
        valid_before=_parse_number(message["validBefore"]),
        nonce=bytes.fromhex(nonce[2:]),
    )


def _parse_token_domain(value: object, terms: OptionTerms, number: int) -> tuple[str, str]:
    """Return name and version of the domain of the token's own signatures."""
    domain = _require_members(value, {member for member, _ in _DOMAIN_FIELDS})
    name, version = domain["name"], domain["version"]
    if not all(isinstance(text, str) and len(text) <= _NAME_MAX for text in (name, version)):
        _reject_step("the token's name is invalid")
    _require_equal("the chain", _parse_number(domain["chainId"]), number)
    _require_equal("the token", parse_evm_address(domain["verifyingContract"]), terms.token)
    return name, version


def _parse_signed_approval(
    document: Mapping[str, Any], terms: OptionTerms, number: int
) -> SignedApproval:
    name, version = _parse_token_domain(document["domain"], terms, number)
    message = _require_members(document["message"], {member for member, _ in _APPROVAL_FIELDS})
    _require_equal("the payer", parse_evm_address(message["owner"]), terms.account)
    _require_equal("the spender", parse_evm_address(message["spender"]), PERMIT2)
    _require_equal("the amount", _parse_number(message["value"]), terms.amount)
    return SignedApproval(
        chain_id=number,
        domain_name=name,
        domain_version=version,
        token=parse_evm_address(document["domain"]["verifyingContract"]),
        payer=terms.account,
        spender=PERMIT2,
        amount=terms.amount,
        nonce=_parse_number(message["nonce"]),
        deadline=_parse_number(message["deadline"]),
    )


def _parse_permit(document: Mapping[str, Any], terms: OptionTerms, number: int) -> Permit2Transfer:
    domain = _require_members(document["domain"], {member for member, _ in _PERMIT_DOMAIN_FIELDS})
    message = _require_members(document["message"], {member for member, _ in _PERMIT_FIELDS})
    permitted = _require_members(message["permitted"], {member for member, _ in _PERMITTED_FIELDS})
    _require_equal("the name", domain["name"], "Permit2")
    _require_equal("the chain", _parse_number(domain["chainId"]), number)
    _require_equal("the contract", parse_evm_address(domain["verifyingContract"]), PERMIT2)
    _require_equal("the token", parse_evm_address(permitted["token"]), terms.token)
    _require_equal("the amount", _parse_number(permitted["amount"]), terms.amount)
    return Permit2Transfer(
        chain_id=number,
        token=parse_evm_address(permitted["token"]),
        spender=_parse_payee(message["spender"], terms),
        amount=terms.amount,
        nonce=_parse_number(message["nonce"]),
        deadline=_parse_number(message["deadline"]),
    )


def _parse_transaction(step: Step, terms: OptionTerms) -> TokenApproval | ContractPayment:
    (call,) = _require_params(step.params, 1)
    if not isinstance(call, Mapping) or not call.keys() <= {"from", "to", "value", "data"}:
        _reject_step("a transaction must have exactly sender, receiver, value and data")
    _require_equal("the sender", parse_evm_address(call.get("from")), terms.account)
    to, value = parse_evm_address(call.get("to")), _parse_number(call.get("value", "0x0"))
    text = call.get("data")
    if not isinstance(text, str) or not _DATA.fullmatch(text.lower()):
        _reject_step("the data of a transaction is invalid")
    data = bytes.fromhex(text[2:])
    if data[:4] == APPROVE_SELECTOR and terms.token is not None:
        parsed: TokenApproval | ContractPayment = _parse_approval(to, data[4:], terms)
    elif data[:4] == PAY_SELECTOR:
        parsed = _parse_contract_payment(to, data[4:], terms)
    else:
        _reject_step(f"a call 0x{data[:4].hex()} of {to} is not a payment")
    if parsed.call != (to, value, data):
        _reject_step(f"the call of {to} has no canonical form, or sends {value} of native coin")
    return parsed


def _parse_approval(to: str, data: bytes, terms: OptionTerms) -> TokenApproval:
    _require_equal("the token", to, terms.token)
    words = _split_words(data, 2)
    amount = int.from_bytes(words[1], "big")
    if amount > terms.amount:
        _reject_step(f"it approves {amount} of {to}; the option costs {terms.amount}")
    return TokenApproval(to, _to_address(words[0]), amount)


def _parse_contract_payment(to: str, data: bytes, terms: OptionTerms) -> ContractPayment:
    words = _split_words(data, 1 + _PAY_WORDS + 1)[1:]
    numbers = [int.from_bytes(word, "big") for word in words]
    _require_equal("the token", _to_address(words[0]), terms.token or ZERO_ADDRESS)
    _require_equal("the payer", _to_address(words[1]), terms.account)
    _require_equal("the amount", numbers[2], terms.amount)
    receiver, fee_receiver, fee = _to_address(words[5]), _to_address(words[6]), numbers[7]
    if receiver == ZERO_ADDRESS or fee > terms.amount:
        _reject_step("it has no receiver, or a fee above the option's amount")
    return ContractPayment(
        contract=_parse_payee(to, terms),
        token=terms.token,
        payer=terms.account,
        amount=terms.amount,
        valid_before=numbers[4],
        receiver=receiver,
        fee_receiver=fee_receiver,
        fee=fee,
        reference=words[8],
    )


def _parse_payee(text: object, terms: OptionTerms) -> str:
    """Return the receiver of the payment; refuse addresses that cannot be a settlement contract."""
    address = parse_evm_address(text)
    if address in {ZERO_ADDRESS, PERMIT2, terms.account, terms.token}:
        _reject_step(f"{address} cannot receive payments")
    return address


def _parse_json(text: object) -> Any:
    """Parse typed data, as text or already parsed; refuse duplicate members."""
    if not isinstance(text, str):
        return text
    try:
        return parse_json(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_step)
    except ValueError:
        _reject_step("the message is not JSON")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _reject_step("a member of the message is given twice")
    return members


def _format_token_domain(step: SignedApproval | TransferAuthorization) -> dict[str, str]:
    return {
        "name": step.domain_name,
        "version": step.domain_version,
        "chainId": hex(step.chain_id),
        "verifyingContract": step.token,
    }


def _build_document(
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


def _require_params(params: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    if len(params) != count:
        _reject_step(f"it has {len(params)} parameters instead of {count}")
    return params


def _require_members(value: object, names: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or value.keys() != names:
        _reject_step(f"the message must have exactly the members {', '.join(sorted(names))}")
    return value


def _parse_number(text: object) -> int:
    """Return a number in its only valid form, minimal 0x-hex."""
    if not isinstance(text, str) or not _QUANTITY.fullmatch(text):
        _reject_step(f"{str(text)[:80]!r} is not a minimal hex number")
    return int(text, 16)


def _split_words(data: bytes, count: int) -> list[bytes]:
    if len(data) != count * _WORD_BYTES:
        _reject_step("the call has a wrong number of arguments")
    return [data[at : at + _WORD_BYTES] for at in range(0, len(data), _WORD_BYTES)]


def _to_word(value: int) -> bytes:
    return value.to_bytes(_WORD_BYTES, "big")


def _to_address_word(address: str) -> bytes:
    return bytes.fromhex(address[2:]).rjust(_WORD_BYTES, b"\0")


def _to_address(word: bytes) -> str:
    return "0x" + word[-20:].hex()


def _require_equal(what: str, value: object, expected: object) -> None:
    if value != expected:
        _reject_step(f"{what} is {str(value)[:120]} instead of {expected}")


def _reject_step(why: str) -> NoReturn:
    raise WalletError(f"the action does not match the option: {why}")
