"""The methods of every Solana node.

Accounts are always returned after the newest transaction, whatever the requested commitment.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

import orjson
from florin_server.domain.chains.solana import spl
from solders.account import Account
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from florin_sandbox.devnet.dispatch import MethodEntry
from florin_sandbox.devnet.errors import RpcFault, invalid_params_fault
from florin_sandbox.devnet.solana import params, parsed
from florin_sandbox.devnet.solana.genesis import SOLANA_DEVNET
from florin_sandbox.devnet.solana.history import LandedTransaction, SolanaHistory
from florin_sandbox.devnet.solana.machine import SolanaMachine
from florin_sandbox.devnet.solana.sending import TransactionIntake
from florin_sandbox.devnet.solana.slots import WINDOW, CommitmentLevel, SlotClock
from florin_sandbox.devnet.solana.views import build_transaction_view

ACCOUNTS_MAX: Final = 100  # as on every node
STATUSES_MAX: Final = 256
SIGNATURES_MAX: Final = 1000
AIRDROP_MAX: Final = 10_000 * spl.LAMPORTS_PER_SOL

_CONTEXT_OPTIONS = ("commitment", "minContextSlot")
_RENT_EPOCH = 2**64 - 1


class SolanaMethods:
    """Reads of one chain."""

    def __init__(
        self,
        history: SolanaHistory,
        slots: SlotClock,
        machine: SolanaMachine,
        sending: TransactionIntake,
    ) -> None:
        self._history = history
        self._slots = slots
        self._machine = machine
        self._intake = sending
        self.methods: Mapping[str, MethodEntry] = {
            "getHealth": (lambda: "ok", 0, 0),
            "getVersion": (lambda: {"solana-core": "3.0.0", "feature-set": 0}, 0, 0),
            "getGenesisHash": (lambda: SOLANA_DEVNET.genesis_hash, 0, 0),
            "getSlot": (self._get_slot, 0, 1),
            "getBlockHeight": (self._get_slot, 0, 1),
            "getFirstAvailableBlock": (history.get_first_slot, 0, 0),
            "getBlockTime": (self._get_block_time, 1, 1),
            "getLatestBlockhash": (self._get_latest_blockhash, 0, 1),
            "isBlockhashValid": (self._is_blockhash_valid, 1, 2),
            "getRecentPrioritizationFees": (self._list_fees, 0, 1),
            "getMinimumBalanceForRentExemption": (self._get_rent, 1, 2),
            "getBalance": (self._get_balance, 1, 2),
            "getAccountInfo": (self._get_account_info, 1, 2),
            "getMultipleAccounts": (self._list_accounts, 1, 2),
            "getTokenAccountBalance": (self._get_token_balance, 1, 2),
            "getTokenAccountsByOwner": (self._list_token_accounts, 2, 3),
            "getSignatureStatuses": (self._list_statuses, 1, 2),
            "getSignaturesForAddress": (self._list_signatures, 1, 2),
            "getTransaction": (self._find_transaction, 1, 2),
            "sendTransaction": (sending.send_transaction, 1, 2),
            "simulateTransaction": (self._simulate_transaction, 1, 2),
            "requestAirdrop": (sending.airdrop_coin, 2, 3),
        }

    # ---- slots

    def _parse_context(self, config: Any, *more: str) -> tuple[Mapping[str, Any], int]:
        """Return a call's configuration, and the slot from which it is answered."""
        fields = params.parse_fields(config, (*_CONTEXT_OPTIONS, *more))
        slot = self._slots.get_slot_at(params.parse_commitment(fields))
        if slot < fields.get("minContextSlot", 0):
            fault = {"contextSlot": slot}
            raise RpcFault("Minimum context slot has not been reached", -32016, fault)
        return fields, slot

    def _get_slot(self, config: Any = None) -> int:
        return self._parse_context(config)[1]

    def _get_block_time(self, slot: Any) -> int:
        if params.parse_number(slot, 0, 2**63) > self._slots.slot:
            raise RpcFault(f"Block not available for slot {slot}", -32004)
        return self._slots.now

    def _get_latest_blockhash(self, config: Any = None) -> Any:
        _, slot = self._parse_context(config)
        value = {
            "blockhash": str(self._slots.get_blockhash(slot)),
            "lastValidBlockHeight": slot + WINDOW,
        }
        return _build_answer(slot, value)

    def _is_blockhash_valid(self, blockhash: Any, config: Any = None) -> Any:
        options, slot = self._parse_context(config)
        parsed_hash = params.parse_blockhash(blockhash)
        return _build_answer(
            slot, self._slots.is_valid(parsed_hash, params.parse_commitment(options))
        )

    def _list_fees(self, accounts: Any = None) -> Any:
        params.parse_pubkeys(accounts or [], ACCOUNTS_MAX)
        return [{"slot": self._slots.slot, "prioritizationFee": 0}]

    # ---- accounts

    def _get_rent(self, size: Any, config: Any = None) -> int:
        self._slots.get_slot_at(
            params.parse_commitment(params.parse_fields(config, ("commitment",)))
        )
        return self._machine.get_rent(params.parse_number(size, 0, 10 * 2**20))

    def _get_balance(self, address: Any, config: Any = None) -> Any:
        _, slot = self._parse_context(config)
        account = self._machine.find_account(params.parse_pubkey(address))
        return _build_answer(slot, account.lamports if account else 0)

    def _get_account_info(self, address: Any, config: Any = None) -> Any:
        options, slot = self._parse_context(config, "encoding", "dataSlice")
        return _build_answer(slot, self._find_account_view(params.parse_pubkey(address), options))

    def _list_accounts(self, addresses: Any, config: Any = None) -> Any:
        options, slot = self._parse_context(config, "encoding", "dataSlice")
        pubkeys = params.parse_pubkeys(addresses, ACCOUNTS_MAX)
        return _build_answer(slot, [self._find_account_view(pubkey, options) for pubkey in pubkeys])

    def _find_account_view(self, address: Pubkey, options: Mapping[str, Any]) -> Any:
        account = self._machine.find_account(address)
        return None if account is None else self._build_account_view(account, options)

    def _build_account_view(self, account: Account, options: Mapping[str, Any]) -> Any:
        encoding = params.parse_encoding(options, ("base64", "base58", "jsonParsed"), "base64")
        taken_apart = (
            parsed.parse_account(account, self._find_decimals) if encoding == "jsonParsed" else None
        )
        return _build_account_view(account, options, encoding, taken_apart)

    def _find_decimals(self, address: Pubkey) -> int | None:
        account = self._machine.find_account(address)
        mint = spl.parse_mint(bytes(account.data)) if account else None
        return mint.decimals if mint else None

    def _get_token_balance(self, address: Any, config: Any = None) -> Any:
        _, slot = self._parse_context(config)
        account = self._machine.find_account(params.parse_pubkey(address))
        if account is None:
            raise invalid_params_fault("Invalid param: could not find account")
        held = (
            spl.parse_token_account(bytes(account.data)) if account.owner in spl.PROGRAMS else None
        )
        if held is None:
            raise invalid_params_fault("Invalid param: not a Token account")
        return _build_answer(slot, self._machine.format_ui_amount(held))

    def _list_token_accounts(self, owner: Any, token_filter: Any, config: Any = None) -> Any:
        options, slot = self._parse_context(config, "encoding", "dataSlice")
        whose = params.parse_pubkey(owner)
        fields = params.parse_fields(token_filter, ("mint", "programId"))
        if len(fields) != 1:
            raise invalid_params_fault("Invalid params: one of mint and programId")
        mint = params.parse_pubkey(fields["mint"]) if "mint" in fields else None
        only = params.parse_pubkey(fields["programId"]) if "programId" in fields else None
        results = []
        for program in spl.PROGRAMS if only is None else (only,):
            for address, account in self._machine.list_owned_accounts(program):
                held = spl.parse_token_account(bytes(account.data))
                if held and held.owner == whose and mint in {None, held.mint}:
                    view = self._build_account_view(account, options)
                    results.append({"pubkey": str(address), "account": view})
        return _build_answer(slot, results)

    # ---- transactions

    def _list_statuses(self, signatures: Any, config: Any = None) -> Any:
        params.parse_fields(config, ("searchTransactionHistory",))
        if not isinstance(signatures, list) or len(signatures) > STATUSES_MAX:
            raise invalid_params_fault(f"Too many inputs provided; max {STATUSES_MAX}")
        raw_signatures = [bytes(params.parse_signature(signature)) for signature in signatures]
        statuses = [
            self._build_status(self._history.find_transaction(raw_signature))
            for raw_signature in raw_signatures
        ]
        return _build_answer(self._slots.slot, statuses)

    def _build_status(self, transaction: LandedTransaction | None) -> Any:
        if transaction is None:
            return None
        commitment = self._slots.get_commitment(transaction.slot)
        final = commitment is CommitmentLevel.FINALIZED
        error = None if transaction.error is None else orjson.loads(transaction.error)
        return {
            "slot": transaction.slot,
            "confirmations": None if final else self._slots.slot - transaction.slot,
            "err": error,
            "status": {"Ok": None} if error is None else {"Err": error},
            "confirmationStatus": commitment,
        }

    def _get_deepest_slot(self, options: Mapping[str, Any]) -> int:
        """Return the newest slot that a history shows, which excludes processed slots."""
        commitment = params.parse_commitment(options)
        if commitment is CommitmentLevel.PROCESSED:
            raise invalid_params_fault("Method does not support commitment below `confirmed`")
        return self._slots.get_slot_at(commitment)

    def _list_signatures(self, address: Any, config: Any = None) -> Any:
        options, _ = self._parse_context(config, "limit", "before", "until")
        limit = params.parse_number(options.get("limit", SIGNATURES_MAX), 1, SIGNATURES_MAX)
        before, until = (
            bytes(params.parse_signature(options[name])) if name in options else None
            for name in ("before", "until")
        )
        about, deepest = bytes(params.parse_pubkey(address)), self._get_deepest_slot(options)
        return [
            {
                "signature": params.encode_base58(landed_transaction.signature),
                "slot": landed_transaction.slot,
                "err": None
                if landed_transaction.error is None
                else orjson.Fragment(landed_transaction.error),
                "memo": landed_transaction.memo,
                "blockTime": landed_transaction.time,
                "confirmationStatus": self._slots.get_commitment(landed_transaction.slot),
            }
            for landed_transaction in self._history.list_mentioning(about, limit, before, until)
            if landed_transaction.slot <= deepest
        ]

    def _find_transaction(self, signature: Any, config: Any = None) -> Any:
        if isinstance(config, str):
            config = {"encoding": config}
        fields = params.parse_fields(
            config, ("commitment", "encoding", "maxSupportedTransactionVersion")
        )
        kinds = ("json", "jsonParsed", "base64", "base58")
        encoding = params.parse_encoding(fields, kinds, "json")
        deepest = self._get_deepest_slot(fields)
        landed = self._history.find_transaction(bytes(params.parse_signature(signature)))
        if landed is None or landed.slot > deepest:
            return None
        transaction = VersionedTransaction.from_bytes(landed.raw)
        version = transaction.version()
        if version == 0 and fields.get("maxSupportedTransactionVersion") is None:
            raise RpcFault(
                "Transaction version (0) is not supported by the requesting client. Please try the "
                'request again with the following configuration parameter: "maxSupportedTransaction'
                'Version": 0',
                -32015,
            )
        meta: Any = orjson.Fragment(landed.meta)
        if encoding == "jsonParsed":
            # the accounts of lookup tables are then among those of the message
            meta = orjson.loads(landed.meta)
            del meta["loadedAddresses"]
        return {
            "slot": landed.slot,
            "blockTime": landed.time,
            "version": 0 if version == 0 else "legacy",
            "meta": meta,
            "transaction": build_transaction_view(transaction, landed.raw, encoding),
        }

    def _simulate_transaction(self, encoded: Any, config: Any = None) -> Any:
        options, slot = self._parse_context(
            config,
            "encoding",
            "sigVerify",
            "replaceRecentBlockhash",
            "accounts",
            "innerInstructions",
        )
        transaction = self._intake.parse_transaction(encoded, options)
        fields = params.parse_fields(options.get("accounts"), ("encoding", "addresses"))
        addresses = params.parse_pubkeys(fields.get("addresses", []), ACCOUNTS_MAX)
        checks = params.parse_flag(options.get("sigVerify", False))
        replaces = params.parse_flag(options.get("replaceRecentBlockhash", False))
        if checks and replaces:
            raise invalid_params_fault("sigVerify may not be used with replaceRecentBlockhash")
        if checks and not all(transaction.verify_with_results()):
            raise RpcFault("Transaction signature verification failure", -32003)
        value: dict[str, Any] = {"returnData": None, "innerInstructions": None}
        fault = None
        if self._history.find_transaction(bytes(transaction.signatures[0])) is not None:
            fault = "AlreadyProcessed"
        elif not replaces and not self._machine.is_current(transaction.message):
            fault = "BlockhashNotFound"
        if replaces:
            value["replacementBlockhash"] = {
                "blockhash": str(self._slots.get_blockhash(slot)),
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
            return _build_answer(slot, {**value, **empty})
        outcome = self._machine.simulate_transaction(transaction)
        accounts: list[Any] | None = None
        if addresses:
            after = [
                outcome.accounts.get(pubkey) or self._machine.find_account(pubkey)
                for pubkey in addresses
            ]
            view_options = {
                "encoding": params.parse_encoding(fields, ("base64", "jsonParsed"), "base64")
            }
            accounts = [
                account and self._build_account_view(account, view_options) for account in after
            ]
        value |= {
            "err": outcome.error,
            "logs": outcome.logs,
            "accounts": accounts,
            "unitsConsumed": outcome.units,
            "fee": outcome.fee,
        }
        return _build_answer(slot, value)


def _build_answer(slot: int, value: Any) -> dict[str, Any]:
    return {"context": {"apiVersion": "3.0.0", "slot": slot}, "value": value}


def _build_account_view(
    account: Account, options: Mapping[str, Any], encoding: str, parsed_data: Any
) -> dict[str, Any]:
    """Return an account's JSON, with its bytes unless they are parsed."""
    data = bytes(account.data)
    if cut := params.parse_fields(options.get("dataSlice"), ("offset", "length")):
        first = params.parse_number(cut.get("offset"), 0, 2**32)
        data = data[first : first + params.parse_number(cut.get("length"), 0, 2**32)]
    written = parsed_data or (
        [params.encode_base58(data), "base58"]
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
