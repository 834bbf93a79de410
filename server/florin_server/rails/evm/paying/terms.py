"""The terms of an option as stored: all that is needed to verify and settle it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import orjson

from florin_server.domain.caip import format_checksum_address
from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import ForwardRoute, RouteKind, SettlementRoute
from florin_server.domain.chains.evm.signatures import canonicalize_signature, recover_address
from florin_server.domain.chains.evm.typed_data import (
    PERMIT2,
    Eip712Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    TokenPermit,
    build_permit2_domain,
    format_sign_request,
)
from florin_server.domain.payments.option_names import derive_reference
from florin_server.domain.payments.payment import Action, BuildAction, PaymentOption
from florin_server.rails.evm import settler
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.settler import PayArguments
from florin_server.rails.option_offer import OptionOffer, OptionOutline, rebuild_commitment
from florin_server.rails.types import (
    FORWARD_METHOD,
    OptionCommitment,
    SettlementEvent,
    Split,
)

EIP3009_METHOD = "eip3009"
PERMIT2_METHOD = "permit2"
DIRECT_METHOD = "direct"  # the payer calls the settlement contract
KINDS = {
    EIP3009_METHOD: RouteKind.EIP3009,
    PERMIT2_METHOD: RouteKind.PERMIT2,
    DIRECT_METHOD: RouteKind.DIRECT,
    FORWARD_METHOD: RouteKind.FORWARD,
}
_METHODS = {kind: method for method, kind in KINDS.items()}
APPROVE = abi.encode_selector("approve(address,uint256)")
PERMIT = abi.encode_selector("permit(address,address,uint256,uint256,uint8,bytes32,bytes32)")
# an accepted authorization can be submitted this long after the payment expires
SETTLE_GRACE_S = 300
ZERO_ADDRESS = "0x" + "00" * 20
# signatures recognized again when their payments settle, shortly after the confirm
_PROOFS_CACHED = 512


@dataclass(frozen=True, slots=True)
class EvmOptionTerms:
    """One option's route and authorization; addresses are lower-case.

    `nonce` is the route's nonce. With Permit2 the end of the route is the deadline, which is still
    valid itself; the domain is Permit2's. `settled` is true if `dest` is the merchant's own. The
    zero address takes no fee; as a token it means the native coin.
    """

    route: SettlementRoute | ForwardRoute
    nonce: bytes
    settled: bool
    domain_name: str
    domain_version: str
    # allowances to give first, if the payer sends the payment itself
    approvals: tuple[int, ...] = ()
    # the token's nonce, name and version for an approval by signature (EIP-2612)
    permit: tuple[int, str, str] | None = None

    @classmethod
    def from_option(cls, option: PaymentOption) -> EvmOptionTerms:
        """Parse the terms that an option stores."""
        stored = {name: str(value) for name, value in option.terms.items()}
        return cls(
            route=_parse_route(KINDS[option.method], stored),
            nonce=bytes.fromhex(stored["nonce"][2:]),
            settled=bool(option.terms["settled"]),
            domain_name=stored["domain_name"],
            domain_version=stored["domain_version"],
            approvals=tuple(map(int, stored.get("approvals", "").split())),
            permit=(
                (int(stored["permit_nonce"]), stored["permit_name"], stored["permit_version"])
                if "permit_nonce" in stored
                else None
            ),
        )

    def to_json(self) -> dict[str, object]:
        """Return JSON values; 256-bit numbers as digits, as JSON readers truncate long numbers."""
        route = self.route
        return {
            "chain_id": route.chain_id,
            "settler": route.settler,
            "token": route.token,
            "value": str(route.value),
            "dest": route.dest,
            "fee_to": route.fee_to,
            "fee": str(route.fee),
            "settled": self.settled,
            "ref": "0x" + route.ref.hex(),
            "nonce": "0x" + self.nonce.hex(),
            "valid_before": route.valid_before,
            "domain_name": self.domain_name,
            "domain_version": self.domain_version,
            "approvals": " ".join(map(str, self.approvals)),
            **self._format_permit(),
            **({"home": route.home} if isinstance(route, ForwardRoute) else {}),
        }

    def _format_permit(self) -> dict[str, object]:
        if self.permit is None:
            return {}
        nonce, name, version = self.permit
        return {"permit_nonce": str(nonce), "permit_name": name, "permit_version": version}

    @property
    def method(self) -> str:
        """Return the payment method."""
        return _METHODS[self.route.kind]

    @property
    def caip2(self) -> str:
        """Return the chain's CAIP-2 id."""
        return f"eip155:{self.route.chain_id}"

    def build_calls(self, payer: str) -> tuple[Action, ...]:
        """Return the calls that a payer (an address) sends if it pays without a signature."""
        chain, route = self.caip2, self.route
        approvals = [
            _build_approval(chain, payer, route.token, route.settler, amount)
            for amount in self.approvals
        ]
        data = settler.encode_pay(self.build_pay_arguments(payer, b""))
        coin = {"value": hex(route.value)} if route.token == ZERO_ADDRESS else {}
        call = {"from": payer, "to": route.settler, **coin, "data": abi.to_hex(data)}
        return (*approvals, _build_transaction(chain, call))

    def build_message(self, payer: str) -> ReceiveWithAuthorization | PermitTransferFrom:
        """Return the message that the payer (an address) signs."""
        route = self.route
        if route.kind is RouteKind.PERMIT2:
            return PermitTransferFrom(
                build_permit2_domain(route.chain_id),
                route.token,
                route.value,
                route.settler,
                int.from_bytes(self.nonce, "big"),
                route.valid_before,
            )
        domain = Eip712Domain(self.domain_name, self.domain_version, route.chain_id, route.token)
        return ReceiveWithAuthorization(
            domain, payer, route.settler, route.value, 0, route.valid_before, self.nonce
        )

    def build_permit(self, payer: str) -> TokenPermit | None:
        """Return the approval of exactly the price that the payer signs, if it signs one."""
        if self.permit is None:
            return None
        nonce, name, version = self.permit
        route = self.route
        domain = Eip712Domain(name, version, route.chain_id, route.token)
        return TokenPermit(domain, payer, PERMIT2, route.value, nonce, route.valid_before)

    def build_pay_arguments(self, payer: str, signature: bytes, gas: int = 0) -> PayArguments:
        """Return the contract's arguments; `gas` is the limit if it is one of several items."""
        route = self.route
        return PayArguments(
            token=route.token,
            payer=payer,
            value=route.value,
            valid_after=0,
            valid_before=route.valid_before,
            dest=route.dest,
            fee_to=route.fee_to,
            fee=route.fee,
            ref=route.ref,
            gas=gas,
            signature=signature,
        )

    @property
    def last_second(self) -> int:
        """Return the last block time at which it can settle, in Unix seconds."""
        end = self.route.valid_before
        return end if self.route.kind is RouteKind.PERMIT2 else end - 1

    def to_split(self) -> Split:
        """Return the receivers of the money, as offered."""
        route, chain = self.route, self.caip2
        fee_to = None if route.fee_to == ZERO_ADDRESS else f"{chain}:{route.fee_to}"
        return Split(f"{chain}:{route.dest}", fee_to, route.fee, self.settled)

    def is_proven_by(self, payer: str, event: SettlementEvent) -> bool:
        """Return True if a settlement event matches all terms, including method and end."""
        return event.nonce == "0x" + self.nonce.hex() and self._is_moved_by(payer, event)

    def is_resembled_by(self, payer: str, event: SettlementEvent) -> bool:
        """Return True if it moved equal money to the same receivers by another method or end."""
        return event.nonce != "0x" + self.nonce.hex() and self._is_moved_by(payer, event)

    def _is_moved_by(self, payer: str, event: SettlementEvent) -> bool:
        route = self.route
        event_terms = (event.ref, event.payer, event.token, event.value, event.dest, event.fee)
        promised = ("0x" + route.ref.hex(), payer, route.token, route.value, route.dest, route.fee)
        return event_terms == promised and (not route.fee or event.fee_to == route.fee_to)


def _parse_route(kind: RouteKind, stored: Mapping[str, str]) -> SettlementRoute | ForwardRoute:
    """Return the route of stored terms."""
    chain_id, contract = int(stored["chain_id"]), stored["settler"]
    token, value = stored["token"], int(stored["value"])
    valid_before, dest = int(stored["valid_before"]), stored["dest"]
    fee_to, fee = stored["fee_to"], int(stored["fee"])
    ref = bytes.fromhex(stored["ref"][2:])
    if kind is RouteKind.FORWARD:
        return ForwardRoute(
            chain_id,
            contract,
            token,
            value,
            valid_before,
            dest,
            fee_to,
            fee,
            ref,
            stored["home"],
        )
    return SettlementRoute(
        chain_id, contract, kind, token, value, valid_before, dest, fee_to, fee, ref
    )


class EvmTermsReader:
    """Implement the TermsReader protocol."""

    def get_reference(self, option: PaymentOption) -> str:
        """Return the 0x-hex reference that the option's settlement event carries."""
        return "0x" + EvmOptionTerms.from_option(option).route.ref.hex()

    def get_split(self, option: PaymentOption) -> Split:
        """Return the receivers of the option's money, as offered."""
        return EvmOptionTerms.from_option(option).to_split()

    def get_commitment(self, option: PaymentOption) -> OptionCommitment:
        """Return the inputs of the option's id, so that others can recompute it."""
        terms = EvmOptionTerms.from_option(option)
        if isinstance(terms.route, ForwardRoute):
            contract = terms.route.settler
            # the address itself follows from the id
            named = replace(option, payer=f"{terms.caip2}:{contract}")
            steps = list_forward_steps(terms.route.home)
            return rebuild_commitment(named, terms.to_split(), contract, [steps], _list_spellings)
        approvals = _list_steps(terms.approvals, terms.permit[0] if terms.permit else None)
        ways = (approvals, [*approvals, option.method])
        return rebuild_commitment(
            option, terms.to_split(), terms.route.settler, ways, _list_spellings
        )

    def find_last_second(self, option: PaymentOption) -> int | None:
        """Return the newest block time (Unix seconds) at which the option can be paid."""
        return EvmOptionTerms.from_option(option).last_second

    def is_proven(self, option: PaymentOption, event: SettlementEvent) -> bool:
        """Return True if the event matches the offer: money, payer, receivers, method and end."""
        return EvmOptionTerms.from_option(option).is_proven_by(to_address(option.payer), event)


@dataclass(frozen=True, slots=True)
class SignatureProof:
    """A signature in the form for the chain, and whether the payer's own key made it."""

    signature: bytes
    is_key_signature: bool


@lru_cache(maxsize=_PROOFS_CACHED)
def build_proof(digest: bytes, payer: str, signature: bytes) -> SignatureProof:
    """Return a signature in the form to submit; equal arguments give equal bytes.

    Tokens accept a single form from keys. Bytes that are not a signature of the payer's key may
    still be valid for the payer's contract, so they stay unchanged.
    """
    try:
        canonical = canonicalize_signature(signature)
    except ValueError:
        return SignatureProof(signature, is_key_signature=False)
    if recover_address(digest, canonical) == payer:
        return SignatureProof(canonical, is_key_signature=True)
    return SignatureProof(signature, is_key_signature=False)


def to_address(account: str) -> str:
    """Return the lower-case address of a CAIP-10 account."""
    return account.rpartition(":")[2].lower()


def outline_option(chain: EvmChainSettings, offer: OptionOffer) -> OptionOutline:
    """Return the id of an offer's option, which covers its approvals and its own method."""
    payable = offer.payable
    steps = _list_steps(payable.approvals, payable.permit_nonce)
    chosen = offer.compute_id(
        contracts=[chain.settler], steps=[*steps, *((payable.method,) if payable.method else ())]
    )
    return OptionOutline(chosen, _estimate_eta_s(chain, len(payable.approvals)))


def build_option(chain: EvmChainSettings, offer: OptionOffer) -> PaymentOption:
    """Build an option: the missing approvals, and the message that pays it.

    If the payer sends the payment itself, fetch returns the calls.
    """
    payment, asset, split, quote = offer.payment, offer.asset, offer.split, offer.quote
    payable = offer.payable
    method = payable.method or asset.method
    outline = outline_option(chain, offer)
    # The contract accepts a buyer's own transaction until this time, so that no price outlives its
    # quote. A payment that we submit may still be on its way when the quote ends.
    at_once = quote is not None and method == DIRECT_METHOD
    route = SettlementRoute(
        chain_id=chain.chain_id,
        settler=chain.settler,
        kind=KINDS[method],
        token=asset.address,
        value=offer.value,
        valid_before=(quote or payment).expires_at + (0 if at_once else SETTLE_GRACE_S),
        dest=to_address(split.dest),
        fee_to=to_address(split.fee_to) if split.fee_to is not None else ZERO_ADDRESS,
        fee=split.fee,
        ref=derive_reference(payment.salt, outline.id),
    )
    terms = EvmOptionTerms(
        route=route,
        nonce=route.compute_nonce(),
        settled=split.settled,
        domain_name=asset.domain_name,
        domain_version=asset.domain_version,
        approvals=payable.approvals,
        permit=(
            (payable.permit_nonce, *asset.approval_domain)
            if payable.permit_nonce is not None and asset.approval_domain is not None
            else None
        ),
    )
    return offer.build_option(
        outline,
        method=method,
        actions=_build_actions(terms, to_address(offer.payer), outline.id),
        terms=terms.to_json(),
        reference="0x" + route.ref.hex(),
    )


def list_forward_steps(home: str) -> tuple[str, ...]:
    """Return the steps in the id of an option with an address of its own."""
    return (FORWARD_METHOD, f"home {home}")


def _list_steps(approvals: Sequence[int], permit_nonce: int | None) -> list[str]:
    """Return approvals, sent or signed, as steps that go into an option's id."""
    steps = [f"approve {amount}" for amount in approvals]
    return steps if permit_nonce is None else [*steps, f"permit {permit_nonce}"]


def _list_spellings(account: str) -> tuple[str, ...]:
    """Return the spellings in which a lower-case account (CAIP-10) may have been written."""
    chain, _, address = account.rpartition(":")
    return (
        account,
        f"{chain}:{format_checksum_address(address)}",
        f"{chain}:0x{address[2:].upper()}",
    )


def _estimate_eta_s(chain: EvmChainSettings, approvals: int) -> int:
    """Return the seconds until the payment is usually final; each approval adds a block."""
    blocks = chain.confirmations
    return -(-chain.eta_s * (blocks + approvals) // blocks)


def _build_actions(
    terms: EvmOptionTerms, payer: str, option_id: str
) -> tuple[Action | BuildAction, ...]:
    if terms.route.kind is RouteKind.DIRECT:
        return (BuildAction(_encode_build_data(terms.build_calls(payer), option_id)),)
    chain, token = terms.caip2, terms.route.token
    approvals = [
        _build_approval(chain, payer, token, PERMIT2, approval) for approval in terms.approvals
    ]
    if (permit := terms.build_permit(payer)) is not None:
        request = format_sign_request(payer, permit)
        approvals.append(Action(chain, "eth_signTypedData_v4", request))
    params = format_sign_request(payer, terms.build_message(payer))
    return (*approvals, Action(chain, "eth_signTypedData_v4", params))


def _encode_build_data(calls: Sequence[Action], option_id: str) -> str:
    """Return a build's data: its single action for wallets that read it, or else the option's id.

    Both are hex digits without a prefix; the digits of an action encode JSON text.
    """
    if len(calls) > 1:
        return option_id.replace("-", "")
    (call,) = calls
    params = orjson.loads(call.params_json)
    report = {"chain_id": call.chain_id, "method": call.method, "params": params}
    return orjson.dumps(report).hex()


def _build_approval(chain: str, payer: str, token: str, spender: str, amount: int) -> Action:
    """Build an approval of exactly this amount: a larger allowance would outlive the payment."""
    data = APPROVE + abi.encode_address(spender) + abi.encode_uint256(amount)
    return _build_transaction(chain, {"from": payer, "to": token, "data": abi.to_hex(data)})


def _build_transaction(chain: str, call: Mapping[str, str]) -> Action:
    return Action(chain, "eth_sendTransaction", orjson.dumps([call]).decode())
