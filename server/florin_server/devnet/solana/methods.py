"""The methods that every Solana node has.

Accounts are always told as the newest transaction left them, whatever commitment is asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import orjson
from solders.account import Account
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_server.chains.solana import spl
from florin_server.devnet.dispatch import Method
from florin_server.devnet.errors import RpcFault, bad_params
from florin_server.devnet.solana import params, parsed
from florin_server.devnet.solana.genesis import SOLNET
from florin_server.devnet.solana.history import History, Landed
from florin_server.devnet.solana.machine import Machine
from florin_server.devnet.solana.sending import Sending
from florin_server.devnet.solana.slots import WINDOW, Commitment, Slots
from florin_server.devnet.solana.views import transaction_view

ACCOUNTS_MAX: Final = 100  # as every node
STATUSES_MAX: Final = 256
SIGNATURES_MAX: Final = 1000
AIRDROP_MAX: Final = 10_000 * spl.LAMPORTS_PER_SOL

_AT = ("commitment", "minContextSlot")
_RENT_EPOCH = 2**64 - 1


class SolanaMethods:
    """Reads of one chain."""

    def __init__(self, history: History, slots: Slots, machine: Machine, sending: Sending) -> None:
        self._history = history
        self._slots = slots
        self._machine = machine
        self._sending = sending
        self.table: Mapping[str, Method] = {
            "getHealth": (lambda: "ok", 0, 0),
            "getVersion": (lambda: {"solana-core": "3.0.0", "feature-set": 0}, 0, 0),
            "getGenesisHash": (lambda: SOLNET.genesis_hash, 0, 0),
            "getSlot": (self._slot, 0, 1),
            "getBlockHeight": (self._slot, 0, 1),
            "getFirstAvailableBlock": (history.first_slot, 0, 0),
            "getBlockTime": (self._block_time, 1, 1),
            "getLatestBlockhash": (self._latest_blockhash, 0, 1),
            "isBlockhashValid": (self._is_blockhash_valid, 1, 2),
            "getRecentPrioritizationFees": (self._fees, 0, 1),
            "getMinimumBalanceForRentExemption": (self._rent, 1, 2),
            "getBalance": (self._balance, 1, 2),
            "getAccountInfo": (self._account_info, 1, 2),
            "getMultipleAccounts": (self._accounts, 1, 2),
            "getTokenAccountBalance": (self._token_balance, 1, 2),
            "getTokenAccountsByOwner": (self._token_accounts, 2, 3),
            "getSignatureStatuses": (self._statuses, 1, 2),
            "getSignaturesForAddress": (self._signatures, 1, 2),
            "getTransaction": (self._transaction, 1, 2),
            "sendTransaction": (sending.send, 1, 2),
            "simulateTransaction": (self._simulate, 1, 2),
            "requestAirdrop": (sending.airdrop, 2, 3),
        }

    # ---- slots

    def _at(self, config: Any, *more: str) -> tuple[Mapping[str, Any], int]:
        """A call's configuration, and the slot that it is answered from."""
        given = params.fields(config, (*_AT, *more))
        slot = self._slots.at(params.commitment(given))
        if slot < given.get("minContextSlot", 0):
            fault = {"contextSlot": slot}
            raise RpcFault("Minimum context slot has not been reached", -32016, fault)
        return given, slot

    def _slot(self, config: Any = None) -> int:
        return self._at(config)[1]

    def _block_time(self, slot: Any) -> int:
        if params.number(slot, 0, 2**63) > self._slots.slot:
            raise RpcFault(f"Block not available for slot {slot}", -32004)
        return self._slots.now

    def _latest_blockhash(self, config: Any = None) -> Any:
        _, slot = self._at(config)
        value = {
            "blockhash": str(self._slots.blockhash(slot)),
            "lastValidBlockHeight": slot + WINDOW,
        }
        return _answer(slot, value)

    def _is_blockhash_valid(self, blockhash: Any, config: Any = None) -> Any:
        given, slot = self._at(config)
        wanted = params.blockhash(blockhash)
        return _answer(slot, self._slots.is_valid(wanted, params.commitment(given)))

    def _fees(self, accounts: Any = None) -> Any:
        params.pubkeys(accounts or [], ACCOUNTS_MAX)
        return [{"slot": self._slots.slot, "prioritizationFee": 0}]

    # ---- accounts

    def _rent(self, size: Any, config: Any = None) -> int:
        self._slots.at(params.commitment(params.fields(config, ("commitment",))))
        return self._machine.rent(params.number(size, 0, 10 * 2**20))

    def _balance(self, address: Any, config: Any = None) -> Any:
        _, slot = self._at(config)
        account = self._machine.account(params.pubkey(address))
        return _answer(slot, account.lamports if account else 0)

    def _account_info(self, address: Any, config: Any = None) -> Any:
        given, slot = self._at(config, "encoding", "dataSlice")
        return _answer(slot, self._account(params.pubkey(address), given))

    def _accounts(self, addresses: Any, config: Any = None) -> Any:
        given, slot = self._at(config, "encoding", "dataSlice")
        asked = params.pubkeys(addresses, ACCOUNTS_MAX)
        return _answer(slot, [self._account(one, given) for one in asked])

    def _account(self, address: Pubkey, given: Mapping[str, Any]) -> Any:
        account = self._machine.account(address)
        return None if account is None else self._view(account, given)

    def _view(self, account: Account, given: Mapping[str, Any]) -> Any:
        encoding = params.encoding_of(given, ("base64", "base58", "jsonParsed"), "base64")
        taken_apart = parsed.account(account, self._decimals) if encoding == "jsonParsed" else None
        return _account_view(account, given, encoding, taken_apart)

    def _decimals(self, address: Pubkey) -> int | None:
        account = self._machine.account(address)
        mint = spl.mint_of(bytes(account.data)) if account else None
        return mint.decimals if mint else None

    def _token_balance(self, address: Any, config: Any = None) -> Any:
        _, slot = self._at(config)
        account = self._machine.account(params.pubkey(address))
        if account is None:
            raise bad_params("Invalid param: could not find account")
        held = spl.token_account(bytes(account.data)) if account.owner in spl.PROGRAMS else None
        if held is None:
            raise bad_params("Invalid param: not a Token account")
        return _answer(slot, self._machine.ui_amount(held))

    def _token_accounts(self, owner: Any, wanted: Any, config: Any = None) -> Any:
        given, slot = self._at(config, "encoding", "dataSlice")
        whose = params.pubkey(owner)
        asked = params.fields(wanted, ("mint", "programId"))
        if len(asked) != 1:
            raise bad_params("Invalid params: one of mint and programId")
        mint = params.pubkey(asked["mint"]) if "mint" in asked else None
        only = params.pubkey(asked["programId"]) if "programId" in asked else None
        found = []
        for program in spl.PROGRAMS if only is None else (only,):
            for address, account in self._machine.owned(program):
                held = spl.token_account(bytes(account.data))
                if held and held.owner == whose and mint in {None, held.mint}:
                    view = self._view(account, given)
                    found.append({"pubkey": str(address), "account": view})
        return _answer(slot, found)

    # ---- transactions

    def _statuses(self, signatures: Any, config: Any = None) -> Any:
        params.fields(config, ("searchTransactionHistory",))
        if not isinstance(signatures, list) or len(signatures) > STATUSES_MAX:
            raise bad_params(f"Too many inputs provided; max {STATUSES_MAX}")
        asked = [bytes(params.signature(one)) for one in signatures]
        told = [self._status(self._history.transaction(one)) for one in asked]
        return _answer(self._slots.slot, told)

    def _status(self, landed: Landed | None) -> Any:
        if landed is None:
            return None
        commitment = self._slots.commitment(landed.slot)
        final = commitment is Commitment.FINALIZED
        error = None if landed.error is None else orjson.loads(landed.error)
        return {
            "slot": landed.slot,
            "confirmations": None if final else self._slots.slot - landed.slot,
            "err": error,
            "status": {"Ok": None} if error is None else {"Err": error},
            "confirmationStatus": commitment,
        }

    def _deepest(self, given: Mapping[str, Any]) -> int:
        """Return the newest slot that a history shows: nothing in it is only processed."""
        wanted = params.commitment(given)
        if wanted is Commitment.PROCESSED:
            raise bad_params("Method does not support commitment below `confirmed`")
        return self._slots.at(wanted)

    def _signatures(self, address: Any, config: Any = None) -> Any:
        given, _ = self._at(config, "limit", "before", "until")
        limit = params.number(given.get("limit", SIGNATURES_MAX), 1, SIGNATURES_MAX)
        before, until = (
            bytes(params.signature(given[name])) if name in given else None
            for name in ("before", "until")
        )
        about, deepest = bytes(params.pubkey(address)), self._deepest(given)
        return [
            {
                "signature": params.base58(one.signature),
                "slot": one.slot,
                "err": None if one.error is None else orjson.Fragment(one.error),
                "memo": one.memo,
                "blockTime": one.time,
                "confirmationStatus": self._slots.commitment(one.slot),
            }
            for one in self._history.mentioning(about, limit, before, until)
            if one.slot <= deepest
        ]

    def _transaction(self, signature: Any, config: Any = None) -> Any:
        if isinstance(config, str):
            config = {"encoding": config}
        given = params.fields(config, ("commitment", "encoding", "maxSupportedTransactionVersion"))
        kinds = ("json", "jsonParsed", "base64", "base58")
        encoding = params.encoding_of(given, kinds, "json")
        deepest = self._deepest(given)
        landed = self._history.transaction(bytes(params.signature(signature)))
        if landed is None or landed.slot > deepest:
            return None
        transaction = VersionedTransaction.from_bytes(landed.raw)
        version = transaction.version()
        if version == 0 and given.get("maxSupportedTransactionVersion") is None:
            raise RpcFault(
                "Transaction version (0) is not supported by the requesting client. Please try the "
                'request again with the following configuration parameter: "maxSupportedTransaction'
                'Version": 0',
                -32015,
            )
        meta: Any = orjson.Fragment(landed.meta)
        if encoding == "jsonParsed":
            # the accounts that tables tell are among those of the message then
            meta = orjson.loads(landed.meta)
            del meta["loadedAddresses"]
        return {
            "slot": landed.slot,
            "blockTime": landed.time,
            "version": 0 if version == 0 else "legacy",
            "meta": meta,
            "transaction": transaction_view(transaction, landed.raw, encoding),
        }

    def _simulate(self, given: Any, config: Any = None) -> Any:
        options, slot = self._at(
            config,
            "encoding",
            "sigVerify",
            "replaceRecentBlockhash",
            "accounts",
            "innerInstructions",
        )
        transaction = self._sending.parse(given, options)
        wanted = params.fields(options.get("accounts"), ("encoding", "addresses"))
        addresses = params.pubkeys(wanted.get("addresses", []), ACCOUNTS_MAX)
        checks = params.flag(options.get("sigVerify", False))
        replaces = params.flag(options.get("replaceRecentBlockhash", False))
        if checks and replaces:
            raise bad_params("sigVerify may not be used with replaceRecentBlockhash")
        if checks and not all(transaction.verify_with_results()):
            raise RpcFault("Transaction signature verification failure", -32003)
        value: dict[str, Any] = {"returnData": None, "innerInstructions": None}
        fault = None
        if self._history.transaction(bytes(transaction.signatures[0])) is not None:
            fault = "AlreadyProcessed"
        elif not replaces and not self._machine.is_current(transaction.message):
            fault = "BlockhashNotFound"
        if replaces:
            value["replacementBlockhash"] = {
                "blockhash": str(self._slots.blockhash(slot)),
                "lastValidBlockHeight": slot + WINDOW,
            }
        if fault is not None:
            empty: dict[str, Any] = {
                "err": fault,
                "logs": [],
                "accounts": None,
                "unitsConsumed": 0,
                "fee": None,
            }
            return _answer(slot, {**value, **empty})
        outcome = self._machine.simulate(transaction)
        accounts: list[Any] | None = None
        if addresses:
            after = [outcome.accounts.get(one) or self._machine.account(one) for one in addresses]
            told = {"encoding": params.encoding_of(wanted, ("base64", "jsonParsed"), "base64")}
            accounts = [one and self._view(one, told) for one in after]
        value |= {
            "err": outcome.error,
            "logs": outcome.logs,
            "accounts": accounts,
            "unitsConsumed": outcome.units,
            "fee": outcome.fee,
        }
        return _answer(slot, value)


def _answer(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"apiVersion": "3.0.0", "slot": slot}, "value": value}


def _account_view(
    account: Account, given: Mapping[str, Any], encoding: str, taken_apart: Any
) -> dict[str, Any]:
    """An account as it is told, with its bytes unless they are taken apart."""
    data = bytes(account.data)
    if cut := params.fields(given.get("dataSlice"), ("offset", "length")):
        first = params.number(cut.get("offset"), 0, 2**32)
        data = data[first : first + params.number(cut.get("length"), 0, 2**32)]
    written = taken_apart or (
        [params.base58(data), "base58"]
        if encoding == "base58"
        else [base64.b64encode(data).decode(), "base64"]
    )
    return {
        "lamports": account.lamports,
        "owner": str(account.owner),
        "data": written,
        "executable": account.executable,
        "rentEpoch": _RENT_EPOCH,
        "space": len(bytes(account.data)),
    }
