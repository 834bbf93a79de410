"""Instructions and accounts taken apart, as nodes tell them to who asks for `jsonParsed`.

Names and forms are those of Agave's decoders. What a decoder does not know is None here, and is
told as bytes by whoever asks, as nodes do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from solders.account import Account
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl

_NAMES: Final[Mapping[Pubkey, str]] = {
    spl.SYSTEM: "system",
    spl.TOKEN: "spl-token",
    spl.TOKEN_2022: "spl-token-2022",
    spl.ASSOCIATED: "spl-associated-token-account",
    spl.MEMO: "spl-memo",
}
_DIGITS_MAX: Final = 19  # of what nodes count in 64 bits
_LAMPORTS_PER_SIGNATURE: Final = "5000"
_STATES: Final = ("uninitialized", "initialized", "frozen")
# Token-2022's additions to an account that say something by being there
_MARKS: Final[Mapping[int, str]] = {7: "immutableOwner", 13: "nonTransferableAccount"}


@dataclass(frozen=True, slots=True)
class _Form:
    """An instruction: its accounts by name, how its data is read, and whose word it needs.

    `signer` is the last of its accounts; further ones sign in its place.
    """

    kind: str
    accounts: tuple[str, ...]
    data: str = ""  # as `struct` reads it, behind the number of the instruction
    fields: tuple[str, ...] = ()
    signer: str | None = None
    of_many: str | None = None


_AUTHORITY: Final[Mapping[str, Any]] = {"signer": "authority", "of_many": "multisigAuthority"}
_OWNER: Final[Mapping[str, Any]] = {"signer": "owner", "of_many": "multisigOwner"}
_MINTER: Final[Mapping[str, Any]] = {"signer": "mintAuthority", "of_many": "multisigMintAuthority"}
_FREEZER: Final[Mapping[str, Any]] = {
    "signer": "freezeAuthority",
    "of_many": "multisigFreezeAuthority",
}
_UNITS: Final[Mapping[str, Any]] = {"data": "<Q", "fields": ("amount",)}
_CHECKED: Final[Mapping[str, Any]] = {"data": "<QB", "fields": ("tokenAmount",)}
_OWNED: Final[Mapping[str, Any]] = {"data": "<32s", "fields": ("owner",)}

_TOKEN: Final[Mapping[int, _Form]] = {
    1: _Form("initializeAccount", ("account", "mint", "owner", "rentSysvar")),
    3: _Form("transfer", ("source", "destination"), **_UNITS, **_AUTHORITY),
    4: _Form("approve", ("source", "delegate"), **_UNITS, **_OWNER),
    5: _Form("revoke", ("source",), **_OWNER),
    7: _Form("mintTo", ("mint", "account"), **_UNITS, **_MINTER),
    8: _Form("burn", ("account", "mint"), **_UNITS, **_AUTHORITY),
    9: _Form("closeAccount", ("account", "destination"), **_OWNER),
    10: _Form("freezeAccount", ("account", "mint"), **_FREEZER),
    11: _Form("thawAccount", ("account", "mint"), **_FREEZER),
    12: _Form("transferChecked", ("source", "mint", "destination"), **_CHECKED, **_AUTHORITY),
    13: _Form("approveChecked", ("source", "mint", "delegate"), **_CHECKED, **_OWNER),
    14: _Form("mintToChecked", ("mint", "account"), **_CHECKED, **_MINTER),
    15: _Form("burnChecked", ("account", "mint"), **_CHECKED, **_AUTHORITY),
    16: _Form("initializeAccount2", ("account", "mint", "rentSysvar"), **_OWNED),
    17: _Form("syncNative", ("account",)),
    18: _Form("initializeAccount3", ("account", "mint"), **_OWNED),
    22: _Form("initializeImmutableOwner", ("account",)),
}

_NONCE: Final = ("nonceAccount", "recentBlockhashesSysvar")
_SPACE: Final = ("lamports", "space", "owner")
_SYSTEM: Final[Mapping[int, _Form]] = {
    0: _Form("createAccount", ("source", "newAccount"), "<QQ32s", _SPACE),
    1: _Form("assign", ("account",), "<32s", ("owner",)),
    2: _Form("transfer", ("source", "destination"), "<Q", ("lamports",)),
    4: _Form("advanceNonce", (*_NONCE, "nonceAuthority")),
    5: _Form(
        "withdrawFromNonce",
        ("nonceAccount", "destination", _NONCE[1], "rentSysvar", "nonceAuthority"),
        "<Q",
        ("lamports",),
    ),
    6: _Form("initializeNonce", (*_NONCE, "rentSysvar"), "<32s", ("nonceAuthority",)),
    7: _Form("authorizeNonce", ("nonceAccount", "nonceAuthority"), "<32s", ("newAuthorized",)),
    8: _Form("allocate", ("account",), "<Q", ("space",)),
}

_ASSOCIATED: Final[Mapping[int, _Form]] = {
    number: _Form(kind, ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram"))
    for number, kind in enumerate(("create", "createIdempotent"))
}


def ui_amount(amount: int, decimals: int) -> dict[str, Any]:
    """An amount of a token in the form that wallets show."""
    whole, part = divmod(amount, 10**decimals)
    text = f"{whole}.{part:0{decimals}d}".rstrip("0").rstrip(".") if decimals else str(whole)
    return {
        "amount": str(amount),
        "decimals": decimals,
        "uiAmount": amount / 10**decimals if decimals <= _DIGITS_MAX else None,
        "uiAmountString": text,
    }


def instruction(program: Pubkey, data: bytes, accounts: Sequence[Pubkey]) -> Any:
    """`program` and `parsed` of an instruction; None if it is not known, or not whole."""
    try:
        parsed = _parsed(program, data, accounts)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        return None
    return {"program": _NAMES[program], "programId": str(program), "parsed": parsed}


def _parsed(program: Pubkey, data: bytes, accounts: Sequence[Pubkey]) -> Any:
    if program == spl.MEMO:
        return data.decode()
    if program in spl.PROGRAMS:
        return _read(_TOKEN[data[0]], data[1:], accounts)
    if program == spl.ASSOCIATED:
        # the oldest form has no data at all
        return _read(_ASSOCIATED[data[0] if data else 0], b"", accounts)
    if program != spl.SYSTEM:
        raise KeyError(program)
    (number,) = struct.unpack_from("<I", data)
    if number == 3:
        return _with_seed(data[4:], accounts)
    return _read(_SYSTEM[number], data[4:], accounts)


def _read(form: _Form, data: bytes, accounts: Sequence[Pubkey]) -> dict[str, Any]:
    info: dict[str, Any] = {name: str(accounts[at]) for at, name in enumerate(form.accounts)}
    values = struct.unpack_from(form.data, data) if form.data else ()
    if form.fields == ("tokenAmount",):
        info["tokenAmount"] = ui_amount(*values)
    elif form.fields == ("amount",):
        info["amount"] = str(values[0])
    else:
        for name, value in zip(form.fields, values, strict=True):
            info[name] = str(Pubkey(value)) if isinstance(value, bytes) else value
    if form.signer is not None and form.of_many is not None:
        last, more = accounts[len(form.accounts)], accounts[len(form.accounts) + 1 :]
        info[form.of_many if more else form.signer] = str(last)
        if more:
            info["signers"] = [str(one) for one in more]
    return {"type": form.kind, "info": info}


def _with_seed(data: bytes, accounts: Sequence[Pubkey]) -> dict[str, Any]:
    base, length = struct.unpack_from("<32sQ", data)
    if length > len(data):
        # anybody may write any length; what follows cannot be counted with it
        raise IndexError(length)
    seed = data[40 : 40 + length].decode()
    lamports, space, owner = struct.unpack_from("<QQ32s", data, 40 + length)
    info = {
        "source": str(accounts[0]),
        "newAccount": str(accounts[1]),
        "base": str(Pubkey(base)),
        "seed": seed,
        "lamports": lamports,
        "space": space,
        "owner": str(Pubkey(owner)),
    }
    return {"type": "createAccountWithSeed", "info": info}


def account(found: Account, decimals: Callable[[Pubkey], int | None]) -> dict[str, Any] | None:
    """The data of a token account, a mint or a nonce account; None of all others.

    `decimals` tells those of a mint; without them an account is not taken apart.
    """
    data, told = bytes(found.data), None
    if found.owner in spl.PROGRAMS:
        program = _NAMES[found.owner]
        told = _token_account(data, decimals) or _mint(data)
    elif found.owner == spl.SYSTEM and (nonce := spl.nonce_of(data)) is not None:
        program = "nonce"
        info = {
            "authority": str(nonce.authority),
            "blockhash": str(nonce.value),
            "feeCalculator": {"lamportsPerSignature": _LAMPORTS_PER_SIGNATURE},
        }
        told = {"type": "initialized", "info": info}
    return None if told is None else {"program": program, "parsed": told, "space": len(data)}


def _token_account(data: bytes, decimals: Callable[[Pubkey], int | None]) -> Any:
    held = spl.token_account(data)
    digits = None if held is None else decimals(held.mint)
    if held is None or digits is None:
        return None
    delegate, reserve = _option(data, 72), _option(data, 109, 8)
    delegated, closer = data[121:129], _option(data, 129)
    info: dict[str, Any] = {
        "mint": str(held.mint),
        "owner": str(held.owner),
        "tokenAmount": ui_amount(held.amount, digits),
        "state": _STATES[data[108]],
        "isNative": reserve is not None,
    }
    if delegate is not None:
        info["delegate"] = str(Pubkey(delegate))
        info["delegatedAmount"] = ui_amount(int.from_bytes(delegated, "little"), digits)
    if reserve is not None:
        info["rentExemptReserve"] = ui_amount(int.from_bytes(reserve, "little"), digits)
    if closer is not None:
        info["closeAuthority"] = str(Pubkey(closer))
    if extensions := _extensions(data):
        info["extensions"] = extensions
    return {"type": "account", "info": info}


def _mint(data: bytes) -> Any:
    if (mint := spl.mint_of(data)) is None:
        return None
    minter, freezer = _option(data, 0), _option(data, 46)
    info: dict[str, Any] = {
        "mintAuthority": None if minter is None else str(Pubkey(minter)),
        "supply": str(int.from_bytes(data[36:44], "little")),
        "decimals": mint.decimals,
        "isInitialized": True,
        "freezeAuthority": None if freezer is None else str(Pubkey(freezer)),
    }
    if extensions := _extensions(data):
        info["extensions"] = extensions
    return {"type": "mint", "info": info}


def _extensions(data: bytes) -> list[dict[str, str]]:
    """What Token-2022 added, the parts with a state of their own without it."""
    found, at = [], spl.ACCOUNT_BYTES + 1
    while at + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, at)
        if not kind:
            break
        found.append({"extension": _MARKS.get(kind, "unparseableExtension")})
        at += 4 + size
    return found


def _option(data: bytes, at: int, size: int = 32) -> bytes | None:
    """A value that may be missing, as token programs write it."""
    return data[at + 4 : at + 4 + size] if data[at : at + 4] == b"\x01\0\0\0" else None
