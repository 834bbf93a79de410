"""What an option promises, in the form it is stored: everything needed to verify and settle it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import orjson

from florin_server.chains.evm import abi
from florin_server.chains.evm.route import Kind, Route, option_id, reference
from florin_server.chains.evm.signatures import canonical, recover
from florin_server.chains.evm.typed_data import (
    PERMIT2,
    Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    permit2_domain,
    sign_request,
)
from florin_server.domain.payments.payment import Action, Build, Option, Payment
from florin_server.pricing.prices import Quote
from florin_server.rails.evm import settler
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.settler import Pay
from florin_server.rails.types import Asset, Paid, Payable, Split

EIP3009_METHOD = "eip3009"
PERMIT2_METHOD = "permit2"
DIRECT_METHOD = "direct"  # the payer calls the settlement contract
KINDS = {
    EIP3009_METHOD: Kind.EIP3009,
    PERMIT2_METHOD: Kind.PERMIT2,
    DIRECT_METHOD: Kind.DIRECT,
}
APPROVE = abi.selector("approve(address,uint256)")
GRACE_S = 300  # an accepted authorization may be submitted that long after the payment's end
NOBODY = "0x" + "00" * 20
# signatures that are recognised again when their payments are settled, a moment after the confirm
_PROOFS_KEPT = 512


@dataclass(frozen=True, slots=True)
class Terms:
    """One option's route and authorization. `valid_before` is in Unix seconds.

    With Permit2 that is the deadline, itself still good; the domain is Permit2's. `settled` tells
    that `dest` is the merchant's own; the zero address takes no fee, and as a token it is the
    chain's own coin.
    """

    method: str
    chain_id: int
    settler: str
    token: str
    value: int
    dest: str
    fee_to: str
    fee: int
    settled: bool
    ref: bytes
    nonce: bytes
    valid_before: int
    domain_name: str
    domain_version: str
    approvals: tuple[int, ...] = ()  # allowances to give first, if the payer pays by itself

    @classmethod
    def of(cls, option: Option) -> Terms:
        """Reads back what an option stores."""
        stored = {name: str(value) for name, value in option.terms.items()}
        return cls(
            method=option.method,
            chain_id=int(stored["chain_id"]),
            settler=stored["settler"],
            token=stored["token"],
            value=int(stored["value"]),
            dest=stored["dest"],
            fee_to=stored["fee_to"],
            fee=int(stored["fee"]),
            settled=bool(option.terms["settled"]),
            ref=bytes.fromhex(stored["ref"][2:]),
            nonce=bytes.fromhex(stored["nonce"][2:]),
            valid_before=int(stored["valid_before"]),
            domain_name=stored["domain_name"],
            domain_version=stored["domain_version"],
            approvals=tuple(map(int, stored.get("approvals", "").split())),
        )

    def stored(self) -> dict[str, object]:
        """JSON values; 256-bit numbers as digits, since JSON readers cut longer numbers off."""
        return {
            "chain_id": self.chain_id,
            "settler": self.settler,
            "token": self.token,
            "value": str(self.value),
            "dest": self.dest,
            "fee_to": self.fee_to,
            "fee": str(self.fee),
            "settled": self.settled,
            "ref": "0x" + self.ref.hex(),
            "nonce": "0x" + self.nonce.hex(),
            "valid_before": self.valid_before,
            "domain_name": self.domain_name,
            "domain_version": self.domain_version,
            "approvals": " ".join(map(str, self.approvals)),
        }

    def calls(self, payer: str) -> tuple[Action, ...]:
        """What a payer (an address) sends that pays by itself."""
        chain = f"eip155:{self.chain_id}"
        approvals = [
            _approve(chain, payer, self.token, self.settler, amount) for amount in self.approvals
        ]
        data = settler.pay(self.pay(payer, b""))
        coin = {"value": hex(self.value)} if self.token == NOBODY else {}
        call = {"from": payer, "to": self.settler, **coin, "data": abi.data_of(data)}
        return (*approvals, _transaction(chain, call))

    def message(self, payer: str) -> ReceiveWithAuthorization | PermitTransferFrom:
        """What the payer (an address) signs."""
        if self.method == PERMIT2_METHOD:
            return PermitTransferFrom(
                permit2_domain(self.chain_id),
                self.token,
                self.value,
                self.settler,
                int.from_bytes(self.nonce, "big"),
                self.valid_before,
            )
        domain = Domain(self.domain_name, self.domain_version, self.chain_id, self.token)
        return ReceiveWithAuthorization(
            domain, payer, self.settler, self.value, 0, self.valid_before, self.nonce
        )

    def pay(self, payer: str, signature: bytes, gas: int = 0) -> Pay:
        """What the settlement contract is given; `gas` is what it may use as one of several."""
        return Pay(
            token=self.token,
            payer=payer,
            value=self.value,
            valid_after=0,
            valid_before=self.valid_before,
            dest=self.dest,
            fee_to=self.fee_to,
            fee=self.fee,
            ref=self.ref,
            gas=gas,
            signature=signature,
        )

    @property
    def last_second(self) -> int:
        """The last block time at which it can be settled, in Unix seconds."""
        return self.valid_before if self.method == PERMIT2_METHOD else self.valid_before - 1

    def split(self) -> Split:
        """Where the money goes, as it was offered."""
        chain = f"eip155:{self.chain_id}"
        fee_to = None if self.fee_to == NOBODY else f"{chain}:{self.fee_to}"
        return Split(f"{chain}:{self.dest}", fee_to, self.fee, self.settled)

    def proven_by(self, payer: str, paid: Paid) -> bool:
        """True if a settlement event says all that was promised, the way and the end included."""
        return paid.nonce == "0x" + self.nonce.hex() and self._moved_by(payer, paid)

    def resembled_by(self, payer: str, paid: Paid) -> bool:
        """True if it moved the same money to the same receivers, in another way or time."""
        return paid.nonce != "0x" + self.nonce.hex() and self._moved_by(payer, paid)

    def _moved_by(self, payer: str, paid: Paid) -> bool:
        told = (paid.ref, paid.payer, paid.token, paid.value, paid.dest, paid.fee)
        promised = ("0x" + self.ref.hex(), payer, self.token, self.value, self.dest, self.fee)
        return told == promised and (not self.fee or paid.fee_to == self.fee_to)


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


def build_option(
    chain: EvmChain,
    payment: Payment,
    *,
    account: str,
    means: Payable,
    asset: Asset,
    value: int,
    split: Split,
    now_us: int,
    quote: Quote | None,
) -> Option:
    """An option: the approvals that are missing, and the message that pays it.

    If the payer pays by itself, what it sends is told by fetch.
    """
    payer, method = means.payer, means.method or asset.method
    chosen = option_id(
        (
            payment.id,
            payer,
            asset.id,
            str(value),
            chain.settler,
            split.dest,
            split.fee_to or "",
            str(split.fee),
            str(split.settled),
            *(f"approve {amount}" for amount in means.approvals),
            *((method,) if means.method else ()),
            *((f"until {quote.expires_at}",) if quote else ()),
        )
    )
    ref = reference(payment.salt, chosen)
    dest = bare(split.dest)
    fee_to = bare(split.fee_to) if split.fee_to is not None else NOBODY
    # the contract takes what a buyer sends up to this, whoever watches: no price outlives its quote
    # by that way. What we submit ourselves may be on its way when the quote ends.
    at_once = quote is not None and method == DIRECT_METHOD
    valid_before = (quote or payment).expires_at + (0 if at_once else GRACE_S)
    route = Route(
        chain_id=chain.chain_id,
        settler=chain.settler,
        kind=KINDS[method],
        token=asset.address,
        value=value,
        valid_before=valid_before,
        dest=dest,
        fee_to=fee_to,
        fee=split.fee,
        ref=ref,
    )
    terms = Terms(
        method=method,
        chain_id=chain.chain_id,
        settler=chain.settler,
        token=asset.address,
        value=value,
        dest=dest,
        fee_to=fee_to,
        fee=split.fee,
        settled=split.settled,
        ref=ref,
        nonce=route.nonce(),
        valid_before=valid_before,
        domain_name=asset.domain_name,
        domain_version=asset.domain_version,
        approvals=means.approvals,
    )
    return Option(
        id=chosen,
        payment_id=payment.id,
        account=account,
        payer=payer,
        chain_id=chain.caip2,
        asset=asset.id,
        value=value,
        eta_s=chain.eta_s,
        expires_at=quote.expires_at if quote else None,
        method=method,
        actions=_actions(terms, bare(payer), chosen),
        terms=terms.stored() | ({"quote": quote.stored()} if quote else {}),
        created_at_us=now_us,
        reference="0x" + ref.hex(),
    )


def _actions(terms: Terms, payer: str, chosen: str) -> tuple[Action | Build, ...]:
    if terms.method == DIRECT_METHOD:
        return (Build(_build_data(terms.calls(payer), chosen)),)
    chain = f"eip155:{terms.chain_id}"
    approvals = [_approve(chain, payer, terms.token, PERMIT2, one) for one in terms.approvals]
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
