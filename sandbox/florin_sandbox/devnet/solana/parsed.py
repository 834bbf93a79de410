"""Parsed instructions and accounts, as nodes return them for `jsonParsed`.

Names and forms are those of Agave's decoders. For unknown data the result is None here, and callers
return the bytes, as nodes do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from florin_server.domain.chains.solana import spl
from solders.account import Account
from solders.pubkey import Pubkey

_NAMES: Final[Mapping[Pubkey, str]] = {
    spl.SYSTEM: "system",
    spl.TOKEN: "spl-token",
    spl.TOKEN_2022: "spl-token-2022",
    spl.ASSOCIATED_TOKEN: "spl-associated-token-account",
    spl.MEMO: "spl-memo",
}
_DIGITS_MAX: Final = 19  # of the numbers that nodes count in 64 bits
_LAMPORTS_PER_SIGNATURE: Final = "5000"
_STATES: Final = ("uninitialized", "initialized", "frozen")
# Token-2022's account extensions whose presence alone has a meaning
_MARKER_EXTENSIONS: Final[Mapping[int, str]] = {7: "immutableOwner", 13: "nonTransferableAccount"}


@dataclass(frozen=True, slots=True)
class _InstructionLayout:
    """An instruction's layout: its accounts by name, its data's format, and its authority.

    `signer` is the last of its accounts; further accounts sign in its place.
    """

    kind: str
    accounts: tuple[str, ...]
    data: str = ""  # in the format of `struct`, after the number of the instruction
    fields: tuple[str, ...] = ()
    signer: str | None = None
    multisig_signer: str | None = None


_AUTHORITY: Final[Mapping[str, Any]] = {
    "signer": "authority",
    "multisig_signer": "multisigAuthority",
}
_OWNER: Final[Mapping[str, Any]] = {"signer": "owner", "multisig_signer": "multisigOwner"}
_MINTER: Final[Mapping[str, Any]] = {
    "signer": "mintAuthority",
    "multisig_signer": "multisigMintAuthority",
}
_FREEZER: Final[Mapping[str, Any]] = {
    "signer": "freezeAuthority",
    "multisig_signer": "multisigFreezeAuthority",
}
_UNITS: Final[Mapping[str, Any]] = {"data": "<Q", "fields": ("amount",)}
_CHECKED: Final[Mapping[str, Any]] = {"data": "<QB", "fields": ("tokenAmount",)}
_OWNED: Final[Mapping[str, Any]] = {"data": "<32s", "fields": ("owner",)}

_TOKEN: Final[Mapping[int, _InstructionLayout]] = {
    1: _InstructionLayout("initializeAccount", ("account", "mint", "owner", "rentSysvar")),
    3: _InstructionLayout("transfer", ("source", "destination"), **_UNITS, **_AUTHORITY),
    4: _InstructionLayout("approve", ("source", "delegate"), **_UNITS, **_OWNER),
    5: _InstructionLayout("revoke", ("source",), **_OWNER),
    7: _InstructionLayout("mintTo", ("mint", "account"), **_UNITS, **_MINTER),
    8: _InstructionLayout("burn", ("account", "mint"), **_UNITS, **_AUTHORITY),
    9: _InstructionLayout("closeAccount", ("account", "destination"), **_OWNER),
    10: _InstructionLayout("freezeAccount", ("account", "mint"), **_FREEZER),
    11: _InstructionLayout("thawAccount", ("account", "mint"), **_FREEZER),
    12: _InstructionLayout(
        "transferChecked", ("source", "mint", "destination"), **_CHECKED, **_AUTHORITY
    ),
    13: _InstructionLayout("approveChecked", ("source", "mint", "delegate"), **_CHECKED, **_OWNER),
    14: _InstructionLayout("mintToChecked", ("mint", "account"), **_CHECKED, **_MINTER),
    15: _InstructionLayout("burnChecked", ("account", "mint"), **_CHECKED, **_AUTHORITY),
    16: _InstructionLayout("initializeAccount2", ("account", "mint", "rentSysvar"), **_OWNED),
    17: _InstructionLayout("syncNative", ("account",)),
    18: _InstructionLayout("initializeAccount3", ("account", "mint"), **_OWNED),
    22: _InstructionLayout("initializeImmutableOwner", ("account",)),
}

_NONCE: Final = ("nonceAccount", "recentBlockhashesSysvar")
_SPACE: Final = ("lamports", "space", "owner")
_SYSTEM: Final[Mapping[int, _InstructionLayout]] = {
    0: _InstructionLayout("createAccount", ("source", "newAccount"), "<QQ32s", _SPACE),
    1: _InstructionLayout("assign", ("account",), "<32s", ("owner",)),
    2: _InstructionLayout("transfer", ("source", "destination"), "<Q", ("lamports",)),
    4: _InstructionLayout("advanceNonce", (*_NONCE, "nonceAuthority")),
    5: _InstructionLayout(
        "withdrawFromNonce",
        ("nonceAccount", "destination", _NONCE[1], "rentSysvar", "nonceAuthority"),
        "<Q",
        ("lamports",),
    ),
    6: _InstructionLayout("initializeNonce", (*_NONCE, "rentSysvar"), "<32s", ("nonceAuthority",)),
    7: _InstructionLayout(
        "authorizeNonce", ("nonceAccount", "nonceAuthority"), "<32s", ("newAuthorized",)
    ),
    8: _InstructionLayout("allocate", ("account",), "<Q", ("space",)),
}

_ASSOCIATED: Final[Mapping[int, _InstructionLayout]] = {
    number: _InstructionLayout(
        kind, ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
    )
    for number, kind in enumerate(("create", "createIdempotent"))
}


def format_ui_amount(amount: int, decimals: int) -> dict[str, Any]:
    """Return an amount of a token in the form that wallets show."""
    whole, fraction = divmod(amount, 10**decimals)
    text = f"{whole}.{fraction:0{decimals}d}".rstrip("0").rstrip(".") if decimals else str(whole)
    return {
        "amount": str(amount),
        "decimals": decimals,
        "uiAmount": amount / 10**decimals if decimals <= _DIGITS_MAX else None,
        "uiAmountString": text,
    }


def parse_instruction(program: Pubkey, data: bytes, accounts: Sequence[Pubkey]) -> Any:
    """Return `program` and `parsed` of an instruction; None if it is unknown or incomplete."""
    try:
        parsed = _parse_known_instruction(program, data, accounts)
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        return None
    return {"program": _NAMES[program], "programId": str(program), "parsed": parsed}


def _parse_known_instruction(program: Pubkey, data: bytes, accounts: Sequence[Pubkey]) -> Any:
    if program == spl.MEMO:
        return data.decode()
    if program in spl.PROGRAMS:
        return _parse_fields(_TOKEN[data[0]], data[1:], accounts)
    if program == spl.ASSOCIATED_TOKEN:
        # the oldest form has no data at all
        return _parse_fields(_ASSOCIATED[data[0] if data else 0], b"", accounts)
    if program != spl.SYSTEM:
        raise KeyError(program)
    (number,) = struct.unpack_from("<I", data)
    if number == 3:
        return _parse_with_seed(data[4:], accounts)
    return _parse_fields(_SYSTEM[number], data[4:], accounts)


def _parse_fields(
    layout: _InstructionLayout, data: bytes, accounts: Sequence[Pubkey]
) -> dict[str, Any]:
    info: dict[str, Any] = {
        name: str(accounts[index]) for index, name in enumerate(layout.accounts)
    }
    values = struct.unpack_from(layout.data, data) if layout.data else ()
    if layout.fields == ("tokenAmount",):
        info["tokenAmount"] = format_ui_amount(*values)
    elif layout.fields == ("amount",):
        info["amount"] = str(values[0])
    else:
        for name, value in zip(layout.fields, values, strict=True):
            info[name] = str(Pubkey(value)) if isinstance(value, bytes) else value
    if layout.signer is not None and layout.multisig_signer is not None:
        signer, cosigners = accounts[len(layout.accounts)], accounts[len(layout.accounts) + 1 :]
        info[layout.multisig_signer if cosigners else layout.signer] = str(signer)
        if cosigners:
            info["signers"] = [str(pubkey) for pubkey in cosigners]
    return {"type": layout.kind, "info": info}


def _parse_with_seed(data: bytes, accounts: Sequence[Pubkey]) -> dict[str, Any]:
    base, length = struct.unpack_from("<32sQ", data)
    if length > len(data):
        # anyone can write any length; the rest cannot be parsed with it
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


def parse_account(
    account: Account, find_decimals: Callable[[Pubkey], int | None]
) -> dict[str, Any] | None:
    """Return the data of a token account, a mint or a nonce account; None for all others.

    `find_decimals` returns those of a mint; without them an account is not parsed.
    """
    data, parsed = bytes(account.data), None
    if account.owner in spl.PROGRAMS:
        program = _NAMES[account.owner]
        parsed = _parse_token_account(data, find_decimals) or _parse_mint(data)
    elif account.owner == spl.SYSTEM and (nonce := spl.parse_nonce(data)) is not None:
        program = "nonce"
        info = {
            "authority": str(nonce.authority),
            "blockhash": str(nonce.value),
            "feeCalculator": {"lamportsPerSignature": _LAMPORTS_PER_SIGNATURE},
        }
        parsed = {"type": "initialized", "info": info}
    return None if parsed is None else {"program": program, "parsed": parsed, "space": len(data)}


def _parse_token_account(data: bytes, find_decimals: Callable[[Pubkey], int | None]) -> Any:
    token_account = spl.parse_token_account(data)
    decimals = None if token_account is None else find_decimals(token_account.mint)
    if token_account is None or decimals is None:
        return None
    delegate, reserve = _parse_option(data, 72), _parse_option(data, 109, 8)
    delegated, closer = data[121:129], _parse_option(data, 129)
    info: dict[str, Any] = {
        "mint": str(token_account.mint),
        "owner": str(token_account.owner),
        "tokenAmount": format_ui_amount(token_account.amount, decimals),
        "state": _STATES[data[108]],
        "isNative": reserve is not None,
    }
    if delegate is not None:
        info["delegate"] = str(Pubkey(delegate))
        info["delegatedAmount"] = format_ui_amount(int.from_bytes(delegated, "little"), decimals)
    if reserve is not None:
        info["rentExemptReserve"] = format_ui_amount(int.from_bytes(reserve, "little"), decimals)
    if closer is not None:
        info["closeAuthority"] = str(Pubkey(closer))
    if extensions := _list_extensions(data):
        info["extensions"] = extensions
    return {"type": "account", "info": info}


def _parse_mint(data: bytes) -> Any:
    if (mint := spl.parse_mint(data)) is None:
        return None
    minter, freezer = _parse_option(data, 0), _parse_option(data, 46)
    info: dict[str, Any] = {
        "mintAuthority": None if minter is None else str(Pubkey(minter)),
        "supply": str(int.from_bytes(data[36:44], "little")),
        "decimals": mint.decimals,
        "isInitialized": True,
        "freezeAuthority": None if freezer is None else str(Pubkey(freezer)),
    }
    if extensions := _list_extensions(data):
        info["extensions"] = extensions
    return {"type": "mint", "info": info}


def _list_extensions(data: bytes) -> list[dict[str, str]]:
    """Return Token-2022's extensions, without the content of those with a state."""
    extensions, offset = [], spl.ACCOUNT_BYTES + 1
    while offset + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, offset)
        if not kind:
            break
        extensions.append({"extension": _MARKER_EXTENSIONS.get(kind, "unparseableExtension")})
        offset += 4 + size
    return extensions


def _parse_option(data: bytes, offset: int, size: int = 32) -> bytes | None:
    """Parse an optional value in the format of token programs."""
    return (
        data[offset + 4 : offset + 4 + size] if data[offset : offset + 4] == b"\x01\0\0\0" else None
    )
