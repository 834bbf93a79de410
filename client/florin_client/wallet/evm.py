"""A key of EVM chains: typed data, messages, and transactions with gas and nonce of their own."""

from __future__ import annotations

import json
from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data

from florin_client.wallet.actions import Step, WalletError
from florin_client.wallet.chains import Asking, Question

_GWEI = 10**9
# what an estimate may miss, in percent
_SPARE = 20


class EvmKey:
    """One key, the same account on all EVM chains. `secret` is 32 bytes, or their hex."""

    def __init__(self, secret: str | bytes) -> None:
        self._account = Account.from_key(secret)
        self.address: str = self._account.address

    def __repr__(self) -> str:
        """Without the secret."""
        return f"EvmKey({self.address})"

    def sign_typed_data(self, typed_data: dict[str, Any]) -> str:
        """The signature (0x-hex of 65 bytes) of EIP-712 typed data."""
        signable = encode_typed_data(full_message=typed_data)
        return "0x" + bytes(self._account.sign_message(signable).signature).hex()

    def sign(self, step: Step) -> str:
        """What a step that asks for a signature gives; WalletError if it is not for this key."""
        if step.method == "personal_sign":
            text, signer = step.params
            self._own(signer)
            signed = self._account.sign_message(encode_defunct(hexstr=text))
            return "0x" + bytes(signed.signature).hex()
        signer, text = step.params
        self._own(signer)
        typed_data = json.loads(text) if isinstance(text, str) else text
        there = typed_data["domain"].get("chainId")
        number = int(there, 16) if isinstance(there, str) else there
        if number is not None and number != _number(step.chain_id):
            raise WalletError(f"typed data of chain {number} is not for {step.chain_id}")
        return self.sign_typed_data(typed_data)

    def send(self, step: Step) -> Asking[str]:
        """Sends what a step asks for; the transaction's hash, as soon as a node has it."""
        (call,) = step.params
        self._own(call["from"])
        return (yield from self.transact(step.chain_id, **fields_of(call)))

    def transact(self, chain_id: str, **fields: Any) -> Asking[str]:
        """Sends a transaction; gas, nonce and fees are the chain's own unless they are told."""

        def ask(method: str, *params: Any) -> Asking[Any]:
            return (yield Question(chain_id, method, params))

        made: dict[str, Any] = {"chainId": _number(chain_id), "value": 0, **fields}
        if "gas" not in made:
            call = {"from": self.address, **_call(made)}
            needed = int((yield from ask("eth_estimateGas", call)), 16)
            made["gas"] = needed * (100 + _SPARE) // 100
        if "nonce" not in made:
            count = yield from ask("eth_getTransactionCount", self.address, "pending")
            made["nonce"] = int(count, 16)
        if not made.keys() & {"gasPrice", "maxFeePerGas"}:
            latest = yield from ask("eth_getBlockByNumber", "latest", False)
            if (base := latest.get("baseFeePerGas")) is None:
                made["gasPrice"] = int((yield from ask("eth_gasPrice")), 16)
            else:
                # good for six full blocks in a row
                made["maxPriorityFeePerGas"] = _GWEI
                made["maxFeePerGas"] = 2 * int(base, 16) + _GWEI
        signed = self._account.sign_transaction(made)
        sent = yield from ask("eth_sendRawTransaction", "0x" + bytes(signed.raw_transaction).hex())
        return str(sent)

    def authorization(self, chain_id: str, contract: str, nonce: int) -> Any:
        """An account's word (EIP-7702) that it takes the code of a contract."""
        return self._account.sign_authorization(
            {"chainId": _number(chain_id), "address": contract, "nonce": nonce}
        )

    def _own(self, address: str) -> None:
        if address.lower() != self.address.lower():
            raise WalletError(f"{address} is not the wallet's {self.address}")


def _number(chain_id: str) -> int:
    namespace, _, reference = chain_id.partition(":")
    if namespace != "eip155":
        raise WalletError(f"{chain_id} is no EVM chain")
    return int(reference)


def fields_of(call: dict[str, Any]) -> dict[str, Any]:
    """What a wallet is asked to send by `eth_sendTransaction`, as it is signed."""
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
