"""A key of EVM chains: typed data, messages, and transactions with gas and nonce of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from eth_account import Account
from eth_account.messages import encode_typed_data

from florin_client.wallet.actions import WalletError
from florin_client.wallet.chains import Asking, Question
from florin_client.wallet.evm_steps import Approval, Authorization, ContractPayment, Permit

_GWEI = 10**9
# what an estimate may miss, in percent
_SPARE = 20
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")

# the most that the transactions of one payment may cost unless a caller says otherwise, in the
# chain's coin: several times what they cost in a busy hour
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
_MAX_FEE_ELSEWHERE: Final = 10**16
# of one transaction: an approval takes 50,000 and a payment 150,000; rollups count calldata too
GAS_MAX: Final = 2_000_000
# what is paid in coin does not cost more in fees than its amount, but a tenth of the above is fine
_SMALL_SHARE: Final = 10


def default_max_fee(chain_id: str, coin_amount: int | None = None) -> int:
    """Return the most that a payment's transactions may cost on a chain (CAIP-2), in wei.

    `coin_amount` is what is paid, if it is paid in the chain's coin.
    """
    limit = _MAX_FEES.get(chain_id, _MAX_FEE_ELSEWHERE)
    return limit if coin_amount is None else min(limit, max(coin_amount, limit // _SMALL_SHARE))


@dataclass(slots=True)
class FeeBudget:
    """What transactions may still cost together, in wei, and the nonce of the last of them."""

    left: int
    nonce: int | None = None


class EvmKey:
    """One key, the same account on all EVM chains. `secret` is 32 bytes, or their hex."""

    def __init__(self, secret: str | bytes) -> None:
        self._account = Account.from_key(secret)
        self.address: str = self._account.address

    def __repr__(self) -> str:
        """Without the secret."""
        return f"EvmKey({self.address})"

    def sign_typed_data(self, typed_data: dict[str, Any]) -> str:
        """Sign any EIP-712 typed data, unchecked; 0x-hex of 65 bytes."""
        signable = encode_typed_data(full_message=typed_data)
        return "0x" + bytes(self._account.sign_message(signable).signature).hex()

    def sign(self, step: Authorization | Permit) -> str:
        """Sign a step of a plan; 0x-hex of 65 bytes."""
        return self.sign_typed_data(step.document())

    def send(
        self, chain_id: str, step: Approval | ContractPayment, budget: FeeBudget
    ) -> Asking[str]:
        """Send a step of a plan, for a fee within the budget; the transaction's hash."""
        to, value, data = step.call
        return (
            yield from self._transact(
                chain_id, budget, {"to": bytes.fromhex(to[2:]), "value": value, "data": data}
            )
        )

    def transact(self, chain_id: str, *, max_fee: int | None = None, **fields: Any) -> Asking[str]:
        """Send any transaction, unchecked; its hash.

        Gas, nonce and fees are the chain's unless they are given. If a node says any of them, all
        of it costs `max_fee` wei at most, by default the limit of the chain's payments.
        """
        limit = default_max_fee(chain_id) if max_fee is None else max_fee
        return (yield from self._transact(chain_id, FeeBudget(limit), fields))

    def _transact(self, chain_id: str, budget: FeeBudget, fields: dict[str, Any]) -> Asking[str]:
        def ask(method: str, *params: Any) -> Asking[Any]:
            return (yield Question(chain_id, method, params))

        number = _number(chain_id)
        if _quantity((yield from ask("eth_chainId")), 64) != number:
            raise WalletError(f"the node is of another chain than {chain_id}")
        made: dict[str, Any] = {"chainId": number, "value": 0, **fields}
        asked = not ("gas" in made and made.keys() & {"gasPrice", "maxFeePerGas"})
        if "gas" not in made:
            call = {"from": self.address, **_call(made)}
            needed = _quantity((yield from ask("eth_estimateGas", call)), 64)
            made["gas"] = needed * (100 + _SPARE) // 100
        if "nonce" not in made:
            count = yield from ask("eth_getTransactionCount", self.address, "pending")
            made["nonce"] = _quantity(count, 63)
        if not made.keys() & {"gasPrice", "maxFeePerGas"}:
            latest = yield from ask("eth_getBlockByNumber", "latest", False)
            if not isinstance(latest, dict):
                raise WalletError(f"the node of {chain_id} knows no newest block")
            if (base := latest.get("baseFeePerGas")) is None:
                made["gasPrice"] = _quantity((yield from ask("eth_gasPrice")), 128)
            else:
                # good for six full blocks in a row
                made["maxPriorityFeePerGas"] = _GWEI
                made["maxFeePerGas"] = 2 * _quantity(base, 128) + _GWEI
        if asked:
            _charge(budget, made)
        if budget.nonce is not None and made["nonce"] <= budget.nonce:
            raise WalletError("the node says that the transaction before was not sent")
        budget.nonce = made["nonce"]
        signed = self._account.sign_transaction(made)
        yield from ask("eth_sendRawTransaction", "0x" + bytes(signed.raw_transaction).hex())
        # a node may answer anything
        return "0x" + bytes(signed.hash).hex()

    def authorization(self, chain_id: str, contract: str, nonce: int) -> Any:
        """An account's word (EIP-7702) that it takes the code of a contract."""
        return self._account.sign_authorization(
            {"chainId": _number(chain_id), "address": contract, "nonce": nonce}
        )


def _charge(budget: FeeBudget, made: dict[str, Any]) -> None:
    """Take the most that a transaction can cost from the budget; WalletError if it is too much."""
    gas, price = made["gas"], made.get("maxFeePerGas", made.get("gasPrice"))
    if gas > GAS_MAX:
        raise WalletError(f"the node asks for {gas} gas, and at most {GAS_MAX} is offered")
    fee = gas * price
    if fee > budget.left:
        raise WalletError(
            f"the node asks for a fee of up to {fee} wei, and {budget.left} wei are allowed"
        )
    budget.left -= fee


def _quantity(answer: object, bits: int) -> int:
    """Return a number that a node answered; WalletError if it is none, or has more bits."""
    if not isinstance(answer, str) or not _QUANTITY.fullmatch(answer):
        raise WalletError(f"a node answered {str(answer)[:80]!r} where a number was asked for")
    value = int(answer, 16)
    if value.bit_length() > bits:
        raise WalletError(f"a node answered {answer}, which is too large")
    return value


def _number(chain_id: str) -> int:
    namespace, _, reference = chain_id.partition(":")
    if namespace != "eip155":
        raise WalletError(f"{chain_id} is no EVM chain")
    return int(reference)


def fields_of(call: dict[str, Any]) -> dict[str, Any]:
    """Return what an eth_sendTransaction asks for as fields of a transaction, unchecked."""
    fields: dict[str, Any] = {
        "value": int(call.get("value", "0x0"), 16),
        "data": call.get("data", "0x"),
    }
    if call.get("to"):
        fields["to"] = bytes.fromhex(call["to"][2:])
    return fields


def _call(fields: dict[str, Any]) -> dict[str, Any]:
    """The same as a node is asked."""
    data, to = fields.get("data", "0x"), fields.get("to")
    call = {
        "value": hex(fields["value"]),
        "data": data if isinstance(data, str) else "0x" + data.hex(),
    }
    return call if to is None else {**call, "to": to if isinstance(to, str) else "0x" + to.hex()}
