"""What a transaction of Solana takes from an account, read from its bytes."""

from __future__ import annotations

import base64
import struct

from florin_client.wallet import WalletError
from solders.message import MessageV0
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl

_TRANSFER, _TRANSFER_CHECKED = 2, 12
_LAMPORTS = struct.Struct("<IQ")
_CHECKED = struct.Struct("<BQB")
# of the program that opens token accounts, in either form
_CREATES = (b"", b"\x00", b"\x01")
# they move nothing
_HARMLESS = frozenset({spl.MEMO, spl.COMPUTE_BUDGET})


def of(transaction: str, account: str, mint: str | None, price: int) -> str:
    """What it does, in words; WalletError unless it takes the price, and nothing else.

    The price is of a token by its `mint`, or in lamports. The fee is somebody else's.
    """
    raw = base64.b64decode(transaction, validate=True)
    message = VersionedTransaction.from_bytes(raw).message
    if isinstance(message, MessageV0) and message.address_table_lookups:
        raise WalletError("the server asks for accounts that are named elsewhere")
    keys = [str(one) for one in message.account_keys]
    if keys[0] == account:
        raise WalletError("the server asks the buyer to pay for the transaction")
    taken = 0
    for one in message.instructions:
        program = message.account_keys[one.program_id_index]
        named = [keys[index] for index in one.accounts]
        if program in _HARMLESS or account not in named:
            continue
        taken += _taken(str(program), bytes(one.data), named, account, mint)
    if taken != price:
        raise WalletError(f"the server asks for {taken}, and the option costs {price}")
    signers = message.header.num_required_signatures
    return (
        f"pays {price} of {mint or 'lamports'}, as one of {signers} signers; {keys[0]} pays for it"
    )


def _taken(program: str, data: bytes, named: list[str], account: str, mint: str | None) -> int:
    """What an instruction takes that names the account."""
    try:
        return _read(program, data, named, account, mint)
    except (struct.error, IndexError):
        raise _unreadable(program) from None


def _read(program: str, data: bytes, named: list[str], account: str, mint: str | None) -> int:
    if program == str(spl.SYSTEM) and mint is None:
        kind, lamports = _LAMPORTS.unpack(data)
        if kind == _TRANSFER and named[0] == account:
            return int(lamports)
    if program in map(str, spl.PROGRAMS) and mint is not None:
        kind, amount, _ = _CHECKED.unpack(data)
        # from, mint, to, authority
        if kind == _TRANSFER_CHECKED and named[1] == mint and named[3:] == [account]:
            return int(amount)
    if program == str(spl.ASSOCIATED) and data in _CREATES and named[0] != account:
        # somebody else pays for the token account
        return 0
    raise _unreadable(program)


def _unreadable(program: str) -> WalletError:
    return WalletError(f"the server asks for a call of {program} that nobody can read")
