"""What an option promises, in the form it is stored: everything needed to verify and settle it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from florin_server.chains.evm import abi
from florin_server.chains.evm.route import Kind, Route
from florin_server.chains.evm.signatures import canonical, recover
from florin_server.chains.evm.typed_data import (
    PERMIT2,
    Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    permit2_domain,
    sign_request,
)
from florin_server.domain.caip import checksum_address
from florin_server.domain.payments.option_names import reference
from florin_server.domain.payments.payment import Action, Build, Option
from florin_server.rails.evm import settler
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.settler import Pay
from florin_server.rails.offered import Offered, commitment
from florin_server.rails.types import Commitment, Paid, Payable, Split

EIP3009_METHOD = "eip3009"
PERMIT2_METHOD = "permit2"
DIRECT_METHOD = "direct"  # the payer calls the settlement contract
KINDS = {
    EIP3009_METHOD: Kind.EIP3009,
    PERMIT2_METHOD: Kind.PERMIT2,
    DIRECT_METHOD: Kind.DIRECT,
}
_METHODS = {kind: method for method, kind in KINDS.items()}
APPROVE = abi.selector("approve(address,uint256)")
GRACE_S = 300  # an accepted authorization may be submitted that long after the payment's end
NOBODY = "0x" + "00" * 20
# signatures that are recognised again when their payments are settled, a moment after the confirm
_PROOFS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Terms:
    """One option's route and authorization; addresses are lower-case.

    `nonce` is the route's. With Permit2 the end of the route is the deadline, itself still good;
    the domain is Permit2's. `settled` tells that `dest` is the merchant's own; the zero address
    takes no fee, and as a token it is the chain's own coin.
    """

    route: Route
    nonce: bytes
    settled: bool
    domain_name: str
    domain_version: str
    approvals: tuple[int, ...] = ()  # allowances to give first, if the payer pays by itself

    @classmethod
    def of(cls, option: Option) -> Terms:
        """Reads back what an option stores."""
        stored = {name: str(value) for name, value in option.terms.items()}
        route = Route(
            chain_id=int(stored["chain_id"]),
            settler=stored["settler"],
            kind=KINDS[option.method],
            token=stored["token"],
            value=int(stored["value"]),
            valid_before=int(stored["valid_before"]),
            dest=stored["dest"],
            fee_to=stored["fee_to"],
            fee=int(stored["fee"]),
            ref=bytes.fromhex(stored["ref"][2:]),
        )
        return cls(
            route=route,
            nonce=bytes.fromhex(stored["nonce"][2:]),
            settled=bool(option.terms["settled"]),
            domain_name=stored["domain_name"],
            domain_version=stored["domain_version"],
            approvals=tuple(map(int, stored.get("approvals", "").split())),
        )

    def stored(self) -> dict[str, object]:
        """JSON values; 256-bit numbers as digits, since JSON readers cut longer numbers off."""
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
        }

    @property
    def method(self) -> str:
        """How it is paid."""
        return _METHODS[self.route.kind]

    @property
    def caip2(self) -> str:
        """The chain's CAIP-2 id."""
        return f"eip155:{self.route.chain_id}"

    def calls(self, payer: str) -> tuple[Action, ...]:
        """What a payer (an address) sends that pays by itself."""
        chain, route = self.caip2, self.route
        approvals = [
            _approve(chain, payer, route.token, route.settler, amount) for amount in self.approvals
        ]
        data = settler.pay(self.pay(payer, b""))
        coin = {"value": hex(route.value)} if route.token == NOBODY else {}
        call = {"from": payer, "to": route.settler, **coin, "data": abi.data_of(data)}
        return (*approvals, _transaction(chain, call))

    def message(self, payer: str) -> ReceiveWithAuthorization | PermitTransferFrom:
        """What the payer (an address) signs."""
        route = self.route
        if route.kind is Kind.PERMIT2:
            return PermitTransferFrom(
                permit2_domain(route.chain_id),
                route.token,
                route.value,
                route.settler,
                int.from_bytes(self.nonce, "big"),
                route.valid_before,
            )
        domain = Domain(self.domain_name, self.domain_version, route.chain_id, route.token)
        return ReceiveWithAuthorization(
            domain, payer, route.settler, route.value, 0, route.valid_before, self.nonce
        )

    def pay(self, payer: str, signature: bytes, gas: int = 0) -> Pay:
        """What the settlement contract is given; `gas` is what it may use as one of several."""
        route = self.route
        return Pay(
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
        """The last block time at which it can be settled, in Unix seconds."""
        end = self.route.valid_before
        return end if self.route.kind is Kind.PERMIT2 else end - 1

    def split(self) -> Split:
        """Where the money goes, as it was offered."""
        route, chain = self.route, self.caip2
        fee_to = None if route.fee_to == NOBODY else f"{chain}:{route.fee_to}"
        return Split(f"{chain}:{route.dest}", fee_to, route.fee, self.settled)

    def proven_by(self, payer: str, paid: Paid) -> bool:
        """True if a settlement event says all that was promised, the way and the end included."""
        return paid.nonce == "0x" + self.nonce.hex() and self._moved_by(payer, paid)

    def resembled_by(self, payer: str, paid: Paid) -> bool:
        """True if it moved the same money to the same receivers, in another way or time."""
        return paid.nonce != "0x" + self.nonce.hex() and self._moved_by(payer, paid)

    def _moved_by(self, payer: str, paid: Paid) -> bool:
        route = self.route
        told = (paid.ref, paid.payer, paid.token, paid.value, paid.dest, paid.fee)
        promised = ("0x" + route.ref.hex(), payer, route.token, route.value, route.dest, route.fee)
        return told == promised and (not route.fee or paid.fee_to == route.fee_to)


class EvmTerms:
    """Implements the Terms protocol."""

    def reference(self, option: Option) -> str:
        """The 0x-hex reference that the option's settlement event carries."""
        return "0x" + Terms.of(option).route.ref.hex()

    def split(self, option: Option) -> Split:
        """Where the option's money goes, as it was offered."""
        return Terms.of(option).split()

    def commitment(self, option: Option) -> Commitment:
        """What the option's id was made of, so that others can make it again."""
        terms = Terms.of(option)
        approvals = [_approval(amount) for amount in terms.approvals]
        ways = (approvals, [*approvals, option.method])
        return commitment(option, terms.split(), terms.route.settler, ways, _spellings)

    def last_second(self, option: Option) -> int | None:
        """The newest block time (Unix seconds) that lets the option be paid."""
        return Terms.of(option).last_second

    def proves(self, option: Option, paid: Paid) -> bool:
        """True if the event is exactly what was offered: money, payer, receivers, way and end."""
        return Terms.of(option).proven_by(bare(option.payer), paid)


@dataclass(frozen=True, slots=True)
class Proof:
    """A signature as it goes on chain. `by_key` tells that the payer's own key made it."""

    signature: bytes
    by_key: bool


@lru_cache(maxsize=_PROOFS_KEPT)
def proof(digest: bytes, payer: str, given: bytes) -> Proof:
    """Decides the form in which a signature is submitted; equal arguments give equal bytes.

    Tokens take one form from keys only. What is no signature of the payer's key may still mean
    something to the payer's contract, so it is left as it is.
    """
    try:
        signature = canonical(given)
    except ValueError:
        return Proof(given, by_key=False)
    if recover(digest, signature) == payer:
        return Proof(signature, by_key=True)
    return Proof(given, by_key=False)


def bare(account: str) -> str:
    """The lower-case address of a CAIP-10 account."""
    return account.rpartition(":")[2].lower()


def build_option(chain: EvmChain, offered: Offered, means: Payable) -> Option:
    """An option: the approvals that are missing, and the message that pays it.

    If the payer pays by itself, what it sends is told by fetch.
    """
    payment, asset, split, quote = offered.payment, offered.asset, offered.split, offered.quote
    method = means.method or asset.method
    approvals = [_approval(amount) for amount in means.approvals]
    chosen = offered.id(
        contracts=[chain.settler],
        steps=[*approvals, *((method,) if means.method else ())],
    )
    # the contract takes what a buyer sends up to this, whoever watches: no price outlives its quote
    # by that way. What we submit ourselves may be on its way when the quote ends.
    at_once = quote is not None and method == DIRECT_METHOD
    route = Route(
        chain_id=chain.chain_id,
        settler=chain.settler,
        kind=KINDS[method],
        token=asset.address,
        value=offered.value,
        valid_before=(quote or payment).expires_at + (0 if at_once else GRACE_S),
        dest=bare(split.dest),
        fee_to=bare(split.fee_to) if split.fee_to is not None else NOBODY,
        fee=split.fee,
        ref=reference(payment.salt, chosen),
    )
    terms = Terms(
        route=route,
        nonce=route.nonce(),
        settled=split.settled,
        domain_name=asset.domain_name,
        domain_version=asset.domain_version,
        approvals=means.approvals,
    )
    return offered.option(
        chosen,
        eta_s=_eta_s(chain, len(means.approvals)),
        method=method,
        actions=_actions(terms, bare(offered.payer), chosen),
        terms=terms.stored(),
        reference="0x" + route.ref.hex(),
    )


def _approval(amount: int) -> str:
    """An approval as a step that an option's id stands for."""
    return f"approve {amount}"


def _spellings(account: str) -> tuple[str, ...]:
    """A lower-case account (CAIP-10) as it may have been written."""
    chain, _, address = account.rpartition(":")
    return (
        account,
        f"{chain}:{checksum_address(address)}",
        f"{chain}:0x{address[2:].upper()}",
    )


def _eta_s(chain: EvmChain, approvals: int) -> int:
    """Seconds until the payment is usually final; each approval needs a block before."""
    blocks = chain.confirmations
    return -(-chain.eta_s * (blocks + approvals) // blocks)


def _actions(terms: Terms, payer: str, chosen: str) -> tuple[Action | Build, ...]:
    if terms.route.kind is Kind.DIRECT:
        return (Build(_build_data(terms.calls(payer), chosen)),)
    chain, token = terms.caip2, terms.route.token
    approvals = [_approve(chain, payer, token, PERMIT2, one) for one in terms.approvals]
    params = sign_request(payer, terms.message(payer))
    return (*approvals, Action(chain, "eth_signTypedData_v4", params))


def _build_data(calls: Sequence[Action], chosen: str) -> str:
    """What a build carries: its one action for wallets that read it, else nothing that says more.

    Both are hex digits without a prefix; the first are those of JSON text.
    """
    if len(calls) > 1:
        return chosen.replace("-", "")
    (call,) = calls
    params = orjson.loads(call.params_json)
    told = {"chain_id": call.chain_id, "method": call.method, "params": params}
    return orjson.dumps(told).hex()


def _approve(chain: str, payer: str, token: str, spender: str, amount: int) -> Action:
    """Lets a contract take so much of a token, and nothing beyond: more outlives the payment."""
    data = APPROVE + abi.address(spender) + abi.number(amount)
    return _transaction(chain, {"from": payer, "to": token, "data": abi.data_of(data)})


def _transaction(chain: str, call: Mapping[str, str]) -> Action:
    return Action(chain, "eth_sendTransaction", orjson.dumps([call]).decode())
