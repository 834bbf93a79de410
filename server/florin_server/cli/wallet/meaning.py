"""What a wallet is asked to sign, in words, and whether it is what its option costs.

A server may lie. Whatever moves something else than the option's amount of the option's asset, out
of the option's account, is refused before a key sees it, as is what cannot be read.
"""

from __future__ import annotations

import json
from typing import Any

from florin.v1.gateway_pb2 import PaymentOption
from florin_client.wallet import Step, WalletError

from florin_server.cli.wallet import solana

APPROVE = "095ea7b3"  # of a token: approve(address,uint256)
PAY = "ef45def3"  # what a payer calls Florin's settlement contract with, and no token knows
_AUTHORIZATIONS = frozenset({"ReceiveWithAuthorization", "TransferWithAuthorization"})


def of(step: Step, option: PaymentOption) -> str:
    """What a step does; WalletError if it is not what the option says."""
    chain, _, account = option.account.rpartition(":")
    if step.chain_id != chain:
        raise _unfit(f"it is for {step.chain_id}, and the option for {chain}")
    asset = option.amount.unit.removeprefix("caip19/")
    if not asset.startswith(f"{chain}/"):
        raise _unfit(f"the option costs {asset}, which is not on {chain}")
    token, price = asset.rpartition(":")[2], int(option.amount.value)
    try:
        if step.method == "eth_signTypedData_v4":
            return _typed(step, account, token, price)
        if step.method == "eth_sendTransaction":
            return _sent(step, account, token if "/erc20:" in asset else None, price)
        if step.method == "solana_signTransaction":
            coin = "/slip44:" in asset
            return solana.of(step.params[0]["transaction"], account, None if coin else token, price)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise _unfit(f"it cannot be read ({type(error).__name__})") from None
    raise _unfit(f"no wallet of this command can {step.method}")


def _typed(step: Step, account: str, token: str, price: int) -> str:
    signer, data = step.params
    data = json.loads(data) if isinstance(data, str) else data
    _same("the account", signer, account)
    kind, message, contract = (
        data["primaryType"],
        data["message"],
        data["domain"]["verifyingContract"],
    )
    _same_number("the chain", data["domain"]["chainId"], int(step.chain_id.partition(":")[2]))
    if kind in _AUTHORIZATIONS:
        _same("the token", contract, token)
        _same("the payer", message["from"], account)
        _same_number("the amount", message["value"], price)
        receiver, until = message["to"], message["validBefore"]
        return f"lets {receiver} have {price} of {contract} until {_number(until)}"
    if kind == "PermitTransferFrom":
        _same("the token", message["permitted"]["token"], token)
        _same_number("the amount", message["permitted"]["amount"], price)
        spender, until = message["spender"], message["deadline"]
        return f"lets {spender} take {price} of {token} by Permit2 until {_number(until)}"
    raise _unfit(f"{kind} is nothing that pays")


def _sent(step: Step, account: str, token: str | None, price: int) -> str:
    (call,) = step.params
    _same("the account", call["from"], account)
    to, value = call["to"], _number(call.get("value", "0x0"))
    data = call.get("data", "0x").removeprefix("0x").lower()
    selector, words = data[:8], data[8:]
    if selector == APPROVE and token is not None:
        _same("the token", to, token)
        spender, amount = f"0x{words[24:64]}", int(words[64:128], 16)
        if value or len(words) != 128 or amount > price:
            raise _unfit(f"it lets {spender} take {amount} of {to}, and the option costs {price}")
        return f"lets {spender} take {amount} of {to}, from now on"
    if selector != PAY:
        raise _unfit(f"a call 0x{selector} of {to} is nothing that pays")
    if value != (price if token is None else 0):
        raise _unfit(f"it sends {value} of the coin, and the option costs {price}")
    return f"pays {price} of {token or 'the coin'} by a call of {to}"


def _number(value: Any) -> int:
    return int(value, 0) if isinstance(value, str) else int(value)


def _same(what: str, told: str, expected: str) -> None:
    # addresses are written in either case
    if told.lower() != expected.lower():
        raise _unfit(f"{what} is {told}, and not {expected}")


def _same_number(what: str, told: Any, expected: int) -> None:
    if _number(told) != expected:
        raise _unfit(f"{what} is {_number(told)}, and not {expected}")


def _unfit(why: str) -> WalletError:
    return WalletError(f"the server asks for something else than the option says: {why}")
