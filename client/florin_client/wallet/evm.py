"""A key of EVM chains: typed data, messages, and transactions with their gas and nonce."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from eth_account import Account
from eth_account.messages import encode_typed_data

from florin_client.wallet.actions import WalletError
from florin_client.wallet.chains import ChainProcedure, Question
from florin_client.wallet.evm_steps import (
    ContractPayment,
    Permit2Transfer,
    SignedApproval,
    TokenApproval,
    TransferAuthorization,
)
from florin_client.wallet.transfers import AddressTransfer
from florin_client.wallet.x402_steps import AddressAuthorization, AddressPermit

_GWEI = 10**9
# margin above a gas estimate, in percent
_GAS_MARGIN_PERCENT = 20
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")

# default fee limit for the transactions of one payment, in wei of the native coin: several times
# their cost in a busy hour
_MAX_FEES: Final = {
    "eip155:1": 20 * 10**15,
    "eip155:10": 2 * 10**15,
    "eip155:56": 5 * 10**15,
    "eip155:137": 2 * 10**18,
    "eip155:143": 5 * 10**18,
    "eip155:8453": 2 * 10**15,
    "eip155:42161": 2 * 10**15,
    "eip155:42220": 10**18,
}
_MAX_FEE_DEFAULT: Final = 10**16
# limit of one transaction: an approval needs 50,000 and a payment 150,000; rollups count calldata
# too
GAS_MAX: Final = 2_000_000
# fees of a native-coin payment must not exceed its amount, but a tenth of the limit above is fine
_SMALL_AMOUNT_DIVISOR: Final = 10


def default_max_fee(chain_id: str, coin_amount: int | None = None) -> int:
    """Return the most that a payment's transactions can cost on a chain (CAIP-2), in wei.

    `coin_amount` is the paid amount, if it is in the chain's native coin.
    """
    limit = _MAX_FEES.get(chain_id, _MAX_FEE_DEFAULT)
    return (
        limit
        if coin_amount is None
        else min(limit, max(coin_amount, limit // _SMALL_AMOUNT_DIVISOR))
    )


@dataclass(slots=True)
class FeeBudget:
    """The remaining fee budget of several transactions, in wei, and the nonce of the last one."""

    remaining_wei: int
    nonce: int | None = None


class EvmKey:
    """One key, the same account on all EVM chains. `secret` is 32 bytes, or their hex."""

    def __init__(self, secret: str | bytes) -> None:
        self._account = Account.from_key(secret)
        self.address: str = self._account.address

    def __repr__(self) -> str:
        """Return the address without the secret."""
        return f"EvmKey({self.address})"

    def sign_typed_data(self, typed_data: dict[str, Any]) -> str:
        """Sign any EIP-712 typed data, unchecked; 0x-hex of 65 bytes."""
        signable = encode_typed_data(full_message=typed_data)
        return "0x" + bytes(self._account.sign_message(signable).signature).hex()

    def sign(
        self,
        step: TransferAuthorization
        | AddressAuthorization
        | AddressPermit
        | Permit2Transfer
        | SignedApproval,
    ) -> str:
        """Sign a step of a plan; 0x-hex of 65 bytes."""
        return self.sign_typed_data(step.to_document())

    def send(
        self,
        chain_id: str,
        step: TokenApproval | ContractPayment | AddressTransfer,
        budget: FeeBudget,
    ) -> ChainProcedure[str]:
        """Send a step of a plan, for a fee within the budget; the transaction's hash."""
        to, value, data = step.call
        return (
            yield from self._transact(
                chain_id, budget, {"to": bytes.fromhex(to[2:]), "value": value, "data": data}
            )
        )

    def transact(
        self, chain_id: str, *, max_fee: int | None = None, **fields: Any
    ) -> ChainProcedure[str]:
        """Send any transaction, unchecked; return its hash.

        Gas, nonce and fees come from the chain unless they are given. If a node provides any of
        them, the transaction costs `max_fee` wei at most, by default the limit of the chain's
        payments.
        """
        limit = default_max_fee(chain_id) if max_fee is None else max_fee
        return (yield from self._transact(chain_id, FeeBudget(limit), fields))

    def _transact(
        self, chain_id: str, budget: FeeBudget, fields: dict[str, Any]
    ) -> ChainProcedure[str]:
        def ask(method: str, *params: Any) -> ChainProcedure[Any]:
            return (yield Question(chain_id, method, params))

        number = _parse_chain_number(chain_id)
        if _parse_quantity((yield from ask("eth_chainId")), 64) != number:
            raise WalletError(f"the node is not on chain {chain_id}")
        transaction: dict[str, Any] = {"chainId": number, "value": 0, **fields}
        is_charged = not (
            "gas" in transaction and transaction.keys() & {"gasPrice", "maxFeePerGas"}
        )
        if "gas" not in transaction:
            call = {"from": self.address, **_to_rpc_call(transaction)}
            needed = _parse_quantity((yield from ask("eth_estimateGas", call)), 64)
            transaction["gas"] = needed * (100 + _GAS_MARGIN_PERCENT) // 100
        if "nonce" not in transaction:
            count = yield from ask("eth_getTransactionCount", self.address, "pending")
            transaction["nonce"] = _parse_quantity(count, 63)
        if not transaction.keys() & {"gasPrice", "maxFeePerGas"}:
            latest = yield from ask("eth_getBlockByNumber", "latest", False)
            if not isinstance(latest, dict):
                raise WalletError(f"the node of {chain_id} returned no latest block")
            if (base := latest.get("baseFeePerGas")) is None:
                transaction["gasPrice"] = _parse_quantity((yield from ask("eth_gasPrice")), 128)
            else:
                # covers six full blocks in a row
                transaction["maxPriorityFeePerGas"] = _GWEI
                transaction["maxFeePerGas"] = 2 * _parse_quantity(base, 128) + _GWEI
        if is_charged:
            _charge_budget(budget, transaction)
        if budget.nonce is not None and transaction["nonce"] <= budget.nonce:
            raise WalletError("the node does not know the previous transaction")
        budget.nonce = transaction["nonce"]
        signed = self._account.sign_transaction(transaction)
        yield from ask("eth_sendRawTransaction", "0x" + bytes(signed.raw_transaction).hex())
        # compute the hash locally: a node can return anything
        return "0x" + bytes(signed.hash).hex()

    def authorization(self, chain_id: str, contract: str, nonce: int) -> Any:
        """Sign an EIP-7702 authorization: the account adopts the code of a contract."""
        return self._account.sign_authorization(
            {"chainId": _parse_chain_number(chain_id), "address": contract, "nonce": nonce}
        )


def _charge_budget(budget: FeeBudget, transaction: dict[str, Any]) -> None:
    """Charge the maximal cost of a transaction to the budget.

    Raise WalletError if it exceeds it.
    """
    gas, price = transaction["gas"], transaction.get("maxFeePerGas", transaction.get("gasPrice"))
    if gas > GAS_MAX:
        raise WalletError(f"the node asks for {gas} gas; the limit is {GAS_MAX}")
    fee = gas * price
    if fee > budget.remaining_wei:
        raise WalletError(
            f"the node asks for a fee of up to {fee} wei; {budget.remaining_wei} wei are left: "
            f"raise max_fee"
        )
    budget.remaining_wei -= fee


def _parse_quantity(answer: object, bits: int) -> int:
    """Return a number that a node returned.

    Raise WalletError if it is invalid, or has more bits.
    """
    if not isinstance(answer, str) or not _QUANTITY.fullmatch(answer):
        raise WalletError(f"a node returned {str(answer)[:80]!r} instead of a number")
    value = int(answer, 16)
    if value.bit_length() > bits:
        raise WalletError(f"a node returned {answer}, which is too large")
    return value


def _parse_chain_number(chain_id: str) -> int:
    namespace, _, reference = chain_id.partition(":")
    if namespace != "eip155":
        raise WalletError(f"{chain_id} is not an EVM chain")
    return int(reference)


def to_transaction_fields(call: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an eth_sendTransaction as fields of a transaction, unchecked."""
    fields: dict[str, Any] = {
        "value": int(call.get("value", "0x0"), 16),
        "data": call.get("data", "0x"),
    }
    if call.get("to"):
        fields["to"] = bytes.fromhex(call["to"][2:])
    return fields


def _to_rpc_call(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields in the form of JSON-RPC."""
    data, to = fields.get("data", "0x"), fields.get("to")
    call = {
        "value": hex(fields["value"]),
        "data": data if isinstance(data, str) else "0x" + data.hex(),
    }
    return call if to is None else {**call, "to": to if isinstance(to, str) else "0x" + to.hex()}
