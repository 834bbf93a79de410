"""A wallet with one key, made on the spot."""

from __future__ import annotations

import json
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data


class Wallet:
    def __init__(self, chain: str = "eip155:31337") -> None:
        self.chain = chain
        self._account = Account.create()
        self.address = self._account.address

    @property
    def account(self) -> str:
        """CAIP-10."""
        return f"{self.chain}:{self.address}"

    def sign(self, typed_data: dict[str, Any]) -> str:
        signable = encode_typed_data(full_message=typed_data)
        return "0x" + bytes(self._account.sign_message(signable).signature).hex()

    def execute(self, action: dict[str, Any]) -> str:
        """The output of one walletRpc action."""
        return self.sign(typed_data_of(action))

    def execute_all(self, option: dict[str, Any]) -> list[str]:
        return [self.execute(action) for action in option["actions"]]


def typed_data_of(action: dict[str, Any]) -> dict[str, Any]:
    assert action["type"] == "walletRpc"
    assert action["data"]["method"] == "eth_signTypedData_v4"
    params = action["data"]["params"]
    _signer, text = json.loads(params) if isinstance(params, str) else params
    return json.loads(text)
