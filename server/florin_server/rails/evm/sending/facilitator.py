"""Transfers that payers signed for anyone to send; we send them and pay for gas.

They are signed by EIP-3009 or by Permit2, with x402's proxy as the spender. Only signatures of
plain keys are taken: an account with code could use gas as it likes, and answer a block in another
way than a dry run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from florin_server.domain.caip import canonicalize_account
from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.signatures import (
    canonicalize_signature,
    parse_hex,
    recover_address,
)
from florin_server.domain.chains.evm.typed_data import (
    X402_PROXY,
    Eip712Domain,
    PermitTransferFrom,
    PermitWitnessTransferFrom,
    TransferWithAuthorization,
    build_permit2_domain,
)
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.domain.x402.messages import (
    EXACT,
    InvalidReason,
    InvalidX402Payment,
    X402Payment,
    X402Requirements,
    parse_amount,
)
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcError
from florin_server.rails.evm.paying.terms import EIP3009_METHOD, PERMIT2_METHOD, ZERO_ADDRESS
from florin_server.rails.evm.reading.dry_run import DryRun, DryRunner, DryRunRequest
from florin_server.rails.evm.reading.log_reader import LogReader
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    parse_data,
    parse_header,
    parse_object,
    parse_optional_quantity,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.reading.observer import EvmObserver
from florin_server.rails.evm.sending.fees import compute_payment_share
from florin_server.rails.evm.sending.gas_shares import GasShares
from florin_server.rails.evm.sending.signed_transfers import (
    SignedTransfer,
    encode_authorization,
    encode_settle,
)
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.facilitation import FacilitatedOutcome, FacilitatedTransfer
from florin_server.rails.types import Asset, RailUnavailable, SignedTransaction

# a transaction needs this time to a block, at least
_MARGIN_S: Final = 6
# A reorganization can move a use before the block of the dry run; none is deeper than this.
_REORG_BLOCKS: Final = 128
_SIGNATURE_BYTES_MAX: Final = 65
_MEMBERS: Final = frozenset({"from", "to", "value", "validAfter", "validBefore", "nonce"})
_PERMIT_MEMBERS: Final = frozenset({"from", "permitted", "spender", "nonce", "deadline", "witness"})


@dataclass(frozen=True, slots=True)
class _SignedPermit:
    """The payer, receiver and amount that were signed by Permit2."""

    payer: str
    payee: str
    value: int


@dataclass(frozen=True, slots=True)
class _Reasons:
    """The reasons of a check, in the words of one way to sign."""

    expired: InvalidReason
    early: InvalidReason
    used: InvalidReason


_EIP3009_REASONS: Final = _Reasons(
    InvalidReason.EVM_BEFORE, InvalidReason.EVM_AFTER, InvalidReason.EVM_NONCE_USED
)
_PERMIT2_REASONS: Final = _Reasons(
    InvalidReason.PERMIT2_DEADLINE,
    InvalidReason.PERMIT2_NOT_YET,
    InvalidReason.PERMIT2_NONCE_USED,
)


class EvmTransferFacilitator:
    """Implement the TransferFacilitator protocol on one EVM chain."""

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        keys: Sequence[EvmSigner],
        runs: DryRunner,
        *,
        shares: GasShares,
        connection: ChainConnection,
        observer: EvmObserver,
        get_assets: Callable[[], Mapping[str, Asset]],
        has_proxy: Callable[[], bool],
    ) -> None:
        self._node = node
        self._chain = chain
        self._keys = {key.address: key for key in keys}
        self._runs = runs
        self._shares = shares
        self._connection = connection
        self._observer = observer
        self._get_assets = get_assets
        self._chain_ref = f"eip155:{chain.chain_id}"
        self._has_proxy = has_proxy
        self._logs = LogReader(chain.name)

    @property
    def signers(self) -> Sequence[str]:
        """Return the relayers' addresses."""
        return list(self._keys)

    @property
    def methods(self) -> Collection[str]:
        """Return the ways to sign; Permit2 only where the chain has x402's proxy."""
        return (EIP3009_METHOD, PERMIT2_METHOD) if self._has_proxy() else (EIP3009_METHOD,)

    @property
    def extra(self) -> Mapping[str, str]:
        """Return nothing: clients need no address of ours."""
        return {}

    def read_transfer(
        self,
        payment: X402Payment,
        requirements: X402Requirements,
        now_s: int,  # noqa: ARG002
    ) -> FacilitatedTransfer:
        """Return a payment's transfer if its payer signed exactly what is required."""
        asset, method = self._require_asset(requirements)
        if method == PERMIT2_METHOD:
            return self._read_permit(payment, requirements, asset)
        message, signature = self._read_authorization(payment, requirements, asset)
        return self._build_transfer(
            asset,
            message,
            key=f"{asset.address}/{message.payer}/0x{message.nonce.hex()}",
            call=encode_authorization(message, signature),
            expires_at=message.valid_before - _MARGIN_S,
            content={
                "nonce": "0x" + message.nonce.hex(),
                "valid_after": str(message.valid_after),
            },
        )

    async def check(self, transfer: FacilitatedTransfer, now_s: int) -> FacilitatedTransfer:
        """Dry-run the very transaction as a relayer sends it."""
        signed = SignedTransfer(transfer)
        reasons = _PERMIT2_REASONS if signed.is_permit2 else _EIP3009_REASONS
        if transfer.expires_at <= now_s:
            text = "The authorization has expired, or expires before a block can include it"
            raise InvalidX402Payment(reasons.expired, text, signed.payer)
        if int(str(transfer.content["valid_after"])) > now_s:
            text = "The authorization is not valid yet"
            raise InvalidX402Payment(reasons.early, text, signed.payer)
        requests: list[DryRunRequest] = [
            signed.build_state_call(),
            ("eth_blockNumber", ()),
            DryRun(signed.target, signed.call, transfer.gas),
        ]
        if signed.is_permit2:
            requests += [("eth_getCode", (signed.payer, LATEST)), signed.build_allowance_call()]
        used, head, result, *of_payer = await self._runs.run(requests)
        if signed.is_used(parse_uint(used)):
            text = "The authorization was used or canceled before"
            raise InvalidX402Payment(reasons.used, text, signed.payer)
        if of_payer:
            _check_permit_payer(signed, *of_payer)
        if isinstance(result, RpcError):
            if not result.is_revert:
                raise RailUnavailable(f"{self._chain.name}: {result}")
            text = f"The transfer would fail: {str(result)[:200]}"
            raise InvalidX402Payment(InvalidReason.SIMULATION, text, signed.payer)
        return replace(transfer, head=parse_quantity(head))

    async def sign(
        self, sender: str, nonce: int, transfer: FacilitatedTransfer
    ) -> SignedTransaction:
        """Sign a call of the token or of x402's proxy, and of nothing else, without coin."""
        signed = SignedTransfer(transfer)
        return self._keys[sender].sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await self._runs.fees.get_current(),
            gas=transfer.gas,
            to=signed.target,
            data=signed.call,
        )

    async def find_outcome(
        self, transfer: FacilitatedTransfer, tx_hash: str | None
    ) -> FacilitatedOutcome:
        """Return whether our transaction moved the money, or a stranger's that came first."""
        signed = SignedTransfer(transfer)

        async def answer(rpc: ChainRpc) -> FacilitatedOutcome | None:
            node, used = EvmNode(rpc), 0 if tx_hash is None else None
            if tx_hash is not None:
                receipt = parse_object(await node.call("eth_getTransactionReceipt", tx_hash))
                if receipt is None:
                    return None
                used = parse_optional_quantity(receipt.get("gasUsed"))
                if signed.is_paid(receipt):
                    return FacilitatedOutcome(tx_hash, used)
            final = await node.find_final_block(self._observer.finality)
            if final is None:
                return None
            first = max(0, transfer.head - _REORG_BLOCKS)
            logs = await self._logs.list_logs(node, signed.build_filter(), first, final)
            stranger = await self._find_stranger(node, signed, logs)
            if stranger is None and await self._is_unexplained(node, signed, logs, final):
                return None
            return FacilitatedOutcome(stranger, used)

        outcome = await self._connection.quorum.read_unanimous(answer)
        if outcome is None:
            raise RailUnavailable(f"{self._chain.name}: a transfer's outcome is not final yet")
        return outcome

    async def cannot_be_mined(self, transfer: FacilitatedTransfer, tx: ChainTx) -> bool:  # noqa: ARG002
        """Return True if another transaction with its nonce is final."""
        return await self._observer.cannot_be_mined(tx, ())

    async def _find_stranger(
        self, node: EvmNode, signed: SignedTransfer, logs: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Return the final transaction of others that used the signature for this transfer."""
        for log in logs:
            tx_hash = str(log.get("transactionHash"))
            if signed.is_permit2:
                sent = await self._require_of_log(node, "eth_getTransactionByHash", tx_hash)
                if not signed.is_made_by(sent):
                    continue
            if signed.is_paid(
                await self._require_of_log(node, "eth_getTransactionReceipt", tx_hash)
            ):
                return tx_hash
        return None

    async def _require_of_log(self, node: EvmNode, method: str, tx_hash: str) -> Mapping[str, Any]:
        """Return the transaction of a log; a node that has the log indexes the rest later."""
        result = parse_object(await node.call(method, tx_hash))
        if result is None:
            raise RailUnavailable(f"{self._chain.name}: a node lacks {tx_hash}, but has its log")
        return result

    async def _is_unexplained(
        self, node: EvmNode, signed: SignedTransfer, logs: Sequence[Mapping[str, Any]], final: int
    ) -> bool:
        """Return True if the signature was used, or canceled, and no final log says how."""
        newest, before, block = await node.batch(
            [
                signed.build_state_call(),
                signed.build_state_call(hex(final)),
                ("eth_getBlockByNumber", (hex(final), False)),
            ]
        )
        if parse_header(block) is None:
            raise RailUnavailable(f"{self._chain.name}: the node lags behind its own head")
        if not signed.is_used(parse_uint(newest)):
            return False
        if not signed.is_permit2:
            return not logs
        if isinstance(before, RpcError):
            # a node without the state of that block: wait until the newest block decides
            raise RailUnavailable(f"{self._chain.name}: {before}")
        # Permit2 has no event of its nonces
        return not signed.is_used(parse_uint(before))

    def _require_asset(self, requirements: X402Requirements) -> tuple[Asset, str]:
        """Return the asset, and how it is transferred by signature."""
        if requirements.scheme != EXACT:
            raise InvalidX402Payment(InvalidReason.SCHEME, f"Only the scheme {EXACT} is served")
        method = requirements.extra.get("assetTransferMethod", EIP3009_METHOD)
        if method not in self.methods:
            text = f"Only transfers by {' and '.join(self.methods)} are served here"
            raise InvalidX402Payment(InvalidReason.METHOD, text)
        address = requirements.asset.lower()
        asset = next(
            (each for each in self._get_assets().values() if each.address == address), None
        )
        # Permit2 moves every token
        usable = {EIP3009_METHOD, method}
        if asset is None or asset.address == ZERO_ADDRESS or asset.method not in usable:
            text = "The asset is not listed here, or has no transfers by signature (EIP-3009)"
            raise InvalidX402Payment(InvalidReason.ASSET, text)
        return asset, str(method)

    def _build_transfer(
        self,
        asset: Asset,
        message: TransferWithAuthorization | _SignedPermit,
        *,
        key: str,
        call: bytes,
        expires_at: int,
        content: Mapping[str, str],
    ) -> FacilitatedTransfer:
        return FacilitatedTransfer(
            key=f"{self._chain_ref}/{key}",
            chain_id=asset.chain_id,
            asset=asset.id,
            payer=canonicalize_account(f"{self._chain_ref}:{message.payer}"),
            pay_to=canonicalize_account(f"{self._chain_ref}:{message.payee}"),
            value=message.value,
            content={"call": abi.to_hex(call), **content},
            gas=self._compute_gas(asset.address, call),
            expires_at=expires_at,
        )

    def _read_permit(
        self, payment: X402Payment, requirements: X402Requirements, asset: Asset
    ) -> FacilitatedTransfer:
        """Return the transfer that the payer signed by Permit2, as required."""
        sent = payment.payload.get("permit2Authorization")
        permitted, witness = (
            sent.get(name) if isinstance(sent, dict) else None for name in ("permitted", "witness")
        )
        if not isinstance(sent, dict) or set(sent) != _PERMIT_MEMBERS:
            text = "payload.permit2Authorization has other members than those of Permit2"
            raise InvalidX402Payment(InvalidReason.PERMIT2_PAYLOAD, text)
        if not isinstance(permitted, dict) or set(permitted) != {"token", "amount"}:
            text = "permitted has other members than token and amount"
            raise InvalidX402Payment(InvalidReason.PERMIT2_PAYLOAD, text)
        if not isinstance(witness, dict) or set(witness) != {"to", "validAfter"}:
            text = "witness has other members than to and validAfter"
            raise InvalidX402Payment(InvalidReason.PERMIT2_PAYLOAD, text)
        payer = _parse_address(sent["from"], "from")
        same: tuple[tuple[object, str, InvalidReason, str], ...] = (
            (sent["spender"], X402_PROXY, InvalidReason.PERMIT2_SPENDER, "spender"),
            (witness["to"], requirements.pay_to, InvalidReason.PERMIT2_RECIPIENT, "witness.to"),
            (permitted["token"], asset.address, InvalidReason.PERMIT2_TOKEN, "permitted.token"),
        )
        for value, required, reason, name in same:
            if _parse_address(value, name) != _parse_address(required, name):
                text = f"{name} is not {required}"
                raise InvalidX402Payment(reason, text, payer)
        amount, nonce, deadline, valid_after = (
            parse_amount(value, name, InvalidReason.PERMIT2_PAYLOAD)
            for value, name in (
                (permitted["amount"], "permitted.amount"),
                (sent["nonce"], "nonce"),
                (sent["deadline"], "deadline"),
                (witness["validAfter"], "witness.validAfter"),
            )
        )
        if amount != requirements.amount:
            text = f"The permit is for {amount}, but {requirements.amount} is required"
            raise InvalidX402Payment(InvalidReason.PERMIT2_AMOUNT, text, payer)
        domain = build_permit2_domain(self._chain.chain_id)
        permit = PermitTransferFrom(domain, asset.address, amount, X402_PROXY, nonce, deadline)
        payee = _parse_address(requirements.pay_to, "payTo")
        message = PermitWitnessTransferFrom(permit, payee, valid_after)
        signature = _check_signature(
            message.compute_digest(),
            payer,
            payment.payload.get("signature"),
            InvalidReason.PERMIT2_SIGNATURE,
        )
        return self._build_transfer(
            asset,
            _SignedPermit(payer, payee, amount),
            # a nonce of Permit2 is one for all tokens
            key=f"{PERMIT2_METHOD}/{payer}/{nonce:#066x}",
            call=encode_settle(message, payer, signature),
            expires_at=deadline - _MARGIN_S,
            content={
                "method": PERMIT2_METHOD,
                "nonce": f"{nonce:#066x}",
                "valid_after": str(valid_after),
            },
        )

    def _read_authorization(
        self, payment: X402Payment, requirements: X402Requirements, asset: Asset
    ) -> tuple[TransferWithAuthorization, bytes]:
        """Return the signed message, as required, and its signature in the form of tokens."""
        sent = payment.payload.get("authorization")
        if not isinstance(sent, dict) or set(sent) != _MEMBERS:
            text = "payload.authorization has other members than those of EIP-3009"
            raise InvalidX402Payment(InvalidReason.EVM_PAYLOAD, text)
        payer, payee = (_parse_address(sent[name], name) for name in ("from", "to"))
        pay_to = _parse_address(requirements.pay_to, "payTo")
        if payee != pay_to:
            text = "The authorization pays another address than required"
            raise InvalidX402Payment(InvalidReason.EVM_RECIPIENT, text, payer)
        value = parse_amount(sent["value"], "value", InvalidReason.EVM_PAYLOAD)
        if value != requirements.amount:
            text = f"The authorization is for {value}, but {requirements.amount} is required"
            raise InvalidX402Payment(InvalidReason.EVM_VALUE, text, payer)
        message = TransferWithAuthorization(
            domain=Eip712Domain(
                asset.domain_name, asset.domain_version, self._chain.chain_id, asset.address
            ),
            payer=payer,
            payee=payee,
            value=value,
            valid_after=parse_amount(sent["validAfter"], "validAfter", InvalidReason.EVM_PAYLOAD),
            valid_before=parse_amount(
                sent["validBefore"], "validBefore", InvalidReason.EVM_PAYLOAD
            ),
            nonce=_parse_nonce(sent["nonce"]),
        )
        signature = _check_signature(
            message.compute_digest(),
            payer,
            payment.payload.get("signature"),
            InvalidReason.EVM_SIGNATURE,
        )
        return message, signature

    def _compute_gas(self, token: str, call: bytes) -> int:
        share = compute_payment_share(self._shares.get_payment_gas(token, by_key=True), len(call))
        return self._shares.compute_transaction_gas(share, len(call))


def _check_permit_payer(signed: SignedTransfer, code: object, allowance: object) -> None:
    """Raise InvalidX402Payment if the payer has code, or does not let Permit2 move enough."""
    if parse_data(code):
        # Permit2 would ask the code instead of the key
        text = "The payer is an account with code, which is not served"
        raise InvalidX402Payment(InvalidReason.PERMIT2_SIGNATURE, text, signed.payer)
    if parse_uint(allowance) < signed.transfer.value:
        text = f"The payer's allowance for Permit2 is below {signed.transfer.value}"
        raise InvalidX402Payment(InvalidReason.PERMIT2_ALLOWANCE, text, signed.payer)


def _check_signature(digest: bytes, payer: str, sent: object, reason: InvalidReason) -> bytes:
    """Return the canonical signature; InvalidX402Payment unless the payer's key signed."""
    text = "The signature is not that of the payer's key; contract accounts are not served"
    try:
        signature = canonicalize_signature(parse_hex(sent, _SIGNATURE_BYTES_MAX))
    except ValueError:
        raise InvalidX402Payment(reason, text, payer) from None
    if recover_address(digest, signature) != payer:
        raise InvalidX402Payment(reason, text, payer)
    return signature


def _parse_address(value: object, name: str) -> str:
    """Return an address in lower case; the zero address is none."""
    try:
        address = abi.to_hex(parse_hex(value, 20))
    except ValueError:
        address = ""
    if len(address) != 42 or address == ZERO_ADDRESS:
        raise InvalidX402Payment(InvalidReason.EVM_PAYLOAD, f"{name} is not an address")
    return address


def _parse_nonce(value: object) -> bytes:
    try:
        nonce = parse_hex(value, 32)
    except ValueError:
        nonce = b""
    if len(nonce) != 32:
        raise InvalidX402Payment(InvalidReason.EVM_PAYLOAD, "nonce does not have 32 bytes")
    return nonce
