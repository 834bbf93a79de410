"""anvil behind the controls of the embedded chain, so that tests of those controls run on either.

All other calls are forwarded unchanged, and so are their answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp
from eth_account import Account
from eth_utils import keccak
from florin_sandbox.devnet.evm.faucet import GIFT_TOKENS, GIFT_WEI
from florin_sandbox.devnet.faucet_limits import compute_gift
from florin_sandbox.devnet.faults import FaultEffect, FaultPlan, PlannedFault
from florin_sandbox.devnet.genesis import DEVNET
from florin_server.base.clock import Clock, TestClock

from tests.support.anvil import CHAIN_ID


class AnvilRpcError(Exception):
    """An error answer of anvil."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error)
        self.error = error


class AnvilNode:
    """Replaces an embedded chain: mines a block for each transaction, at the clock's time.

    It closes its `own` sessions.
    """

    def __init__(
        self, url: str, clock: Clock, session: aiohttp.ClientSession, *, own: bool = True
    ) -> None:
        self._url = url
        self._clock = clock
        self._session = session
        self._own = own
        self._time_s = 0
        self._paused = False
        self._faults = FaultPlan()
        self._giving = asyncio.Lock()

    async def close(self) -> None:
        """Close own sessions; anvil keeps running."""
        if self._own:
            await self._session.close()

    async def handle(self, payload: bytes) -> bytes:
        """Return the answer to a call or a batch."""
        await self._tell_time()
        questions = json.loads(payload)
        if isinstance(questions, list):
            return json.dumps(await self._answers(questions)).encode()
        (answer,) = await self._answers([questions])
        return json.dumps(answer).encode()

    async def _answers(self, questions: Sequence[Any]) -> list[Any]:
        """Answer calls; those that need no action here are forwarded together."""
        answers: dict[int, Any] = {}
        passed = []
        for at, question in enumerate(questions):
            method, params = question["method"], question.get("params", [])
            fault = None if method.startswith("florin_") else self._faults.take_fault(method)
            own = getattr(self, f"_{method}", None)
            if fault is None and own is None:
                passed.append(at)
                continue
            try:
                if fault is not None:
                    result = await self._faulty(fault, method, params)
                else:
                    result = await own(*params)
                answers[at] = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            except AnvilRpcError as refusal:
                answers[at] = {"jsonrpc": "2.0", "id": question["id"], "error": refusal.error}
        if passed:
            reported_result = await self._forward([questions[at] for at in passed])
            answers |= dict(zip(passed, reported_result, strict=True))
        return [answers[at] for at in range(len(questions))]

    async def _faulty(self, fault: PlannedFault, method: str, params: list[Any]) -> Any:
        refusal = AnvilRpcError({"code": fault.code, "message": fault.message})
        if fault.effect is FaultEffect.ERROR:
            raise refusal
        if fault.effect is FaultEffect.NULL:
            return None
        if fault.effect is FaultEffect.LIE:
            return fault.result
        if fault.effect is FaultEffect.DROP:
            return "0x" + keccak(hexstr=params[0]).hex()
        own = getattr(self, f"_{method}", None)
        result = await (own(*params) if own else self.ask(method, *params))
        if fault.effect is FaultEffect.LATE_ERROR:
            raise refusal
        raise AssertionError(f"no test needed {fault.effect} yet: {result}")

    async def ask(self, method: str, *params: Any) -> Any:
        """Return the result of one call to anvil."""
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        (answer,) = await self._forward([question])
        if "error" in answer:
            raise AnvilRpcError(answer["error"])
        return answer["result"]

    async def _forward(self, questions: list[Any]) -> list[Any]:
        async with self._session.post(self._url, json=questions) as response:
            answers = await response.json()
        by_id = {answer["id"]: answer for answer in answers}
        return [by_id[question["id"]] for question in questions]

    async def _tell_time(self) -> None:
        now_s = self._clock.now_us() // 1_000_000
        if isinstance(self._clock, TestClock) and now_s != self._time_s:
            self._time_s = now_s
            await self.ask("evm_setNextBlockTimestamp", now_s)

    # blocks

    async def _eth_sendRawTransaction(self, raw: Any) -> Any:
        tx_hash = await self.ask("eth_sendRawTransaction", raw)
        if not self._paused:
            await self._seal()
        return tx_hash

    async def _seal(self) -> None:
        """Mine the pending transactions, unless all are mined already."""
        if int((await self.ask("txpool_status"))["pending"], 16):
            await self.ask("evm_mine")

    async def _florin_fault(self, expected: dict[str, Any]) -> bool:
        options = dict(expected)
        kind = options.pop("kind")
        if kind == "mining":
            self._paused = options["paused"]
            if not self._paused:
                await self._seal()
        elif kind == "reorg":
            await self._reorg(**options)
        elif kind == "baseFee":
            await self.ask("anvil_setNextBlockBaseFeePerGas", options["wei"])
        elif kind == "answer":
            self._plan(**options)
        else:
            raise AssertionError(f"no test needed {kind} yet")
        return True

    def _plan(self, method: str, effect: str, times: int = 1, result: Any = None) -> None:
        self._faults.add_fault(
            method, PlannedFault(FaultEffect(effect), times, "injected fault", -32000, 0, result)
        )

    async def _reorg(self, depth: int, drop: Sequence[str] = (), delay: int = 0) -> None:
        """Reorganize as the embedded chain does: add one more block, and re-mine after a delay."""
        head = int(await self.ask("eth_blockNumber"), 16)
        back = []
        for number in range(head - depth + 1, head + 1):
            block = await self.ask("eth_getBlockByNumber", hex(number), False)
            back += block["transactions"]
        # transactions that waited for the dropped blocks would be discarded, as their nonce is too
        # high
        for waiting in (await self.ask("txpool_content"))["pending"].values():
            back += [waiting[nonce]["hash"] for nonce in sorted(waiting, key=int)]
        raw = [await self.ask("eth_getRawTransactionByHash", each_item) for each_item in back]
        await self.ask("anvil_dropAllTransactions")
        await self.ask("anvil_rollback", depth)
        # the same transactions at the same second would recreate the dropped block
        await self.ask("anvil_setCoinbase", f"0x{(int(block['miner'], 16) | 0xC0 << 152) + 1:040x}")
        for index in range(depth + 1):
            if index == delay:
                for tx_hash, item in zip(back, raw, strict=True):
                    if tx_hash not in drop:
                        await self.ask("eth_sendRawTransaction", item)
            await self.ask("evm_mine")

    # test money

    async def _florin_faucet(self, options: dict[str, Any]) -> dict[str, Any]:
        wei, units = (
            int(options[name], 16) if name in options else None
            for name in ("nativeWei", "tokenUnits")
        )
        tokens = options.get("tokens", [DEVNET.token.address])
        async with self._giving:
            gifts = await self._missing(options["accounts"], tokens, wei, units)
            return {"transactions": [await self._give(*gift) for gift in gifts]}

    async def _missing(
        self, accounts: Iterable[str], tokens: Iterable[str], wei: int | None, units: int | None
    ) -> list[tuple[str, int, str]]:
        results = []
        decimals = {token.address: token.decimals for token in DEVNET.tokens}
        for account in accounts:
            has = int(await self.ask("eth_getBalance", account, "latest"), 16)
            if lacking := compute_gift(has, wei, GIFT_WEI):
                results.append((account, lacking, "0x"))
            word = account[2:].lower().rjust(64, "0")
            for token in tokens:
                call = {"to": token, "data": "0x70a08231" + word}
                has = int(await self.ask("eth_call", call, "latest"), 16)
                if lacking := compute_gift(has, units, GIFT_TOKENS * 10 ** decimals[token.lower()]):
                    results.append((token, 0, f"0x40c10f19{word}{lacking:064x}"))
        return results

    async def _give(self, to: str, value: int, data: str) -> str:
        nonce = int(await self.ask("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        raw = sign_faucet_transaction(nonce, to=bytes.fromhex(to[2:]), value=value, data=data)
        tx_hash: str = await self.ask("eth_sendRawTransaction", "0x" + raw.hex())
        await self._seal()
        return tx_hash


def sign_faucet_transaction(nonce: int, **fields: Any) -> bytes:
    """Return a signed transaction of the account that owns the tokens."""
    usual = {
        "chainId": CHAIN_ID,
        "nonce": nonce,
        "gas": 200_000,
        "maxFeePerGas": 10**11,
        "maxPriorityFeePerGas": 10**9,
        "value": 0,
    }
    return bytes(Account.sign_transaction({**usual, **fields}, DEVNET.faucet_key).raw_transaction)
