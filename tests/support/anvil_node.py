"""anvil behind the controls of the embedded chain, so that whoever uses those can work on either.

Everything else goes on to anvil as it came, and its answers come back as they are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import aiohttp
from eth_account import Account
from eth_utils import keccak
from florin_server.clock import Clock, TestClock
from florin_server.devnet.evm.faucet import GIFT_TOKENS, GIFT_WEI
from florin_server.devnet.faults import Effect, Fault, Faults
from florin_server.devnet.genesis import DEVNET
from florin_server.devnet.gifts import missing

from tests.support.anvil import CHAIN_ID


class Refusal(Exception):
    """An error answer."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error)
        self.error = error


class AnvilNode:
    """Stands where an embedded chain would: a block for each transaction, at the clock's time.

    `own` sessions are closed with it.
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
        self._faults = Faults()
        self._giving = asyncio.Lock()

    async def close(self) -> None:
        """Leaves anvil alone."""
        if self._own:
            await self._session.close()

    async def handle(self, payload: bytes) -> bytes:
        """The answer to a call or a batch."""
        await self._tell_time()
        questions = json.loads(payload)
        if isinstance(questions, list):
            return json.dumps(await self._answers(questions)).encode()
        (answer,) = await self._answers([questions])
        return json.dumps(answer).encode()

    async def _answers(self, questions: Sequence[Any]) -> list[Any]:
        """Those that nothing is done to go on together."""
        answers: dict[int, Any] = {}
        passed = []
        for at, question in enumerate(questions):
            method, params = question["method"], question.get("params", [])
            fault = None if method.startswith("florin_") else self._faults.next(method)
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
            except Refusal as refusal:
                answers[at] = {"jsonrpc": "2.0", "id": question["id"], "error": refusal.error}
        if passed:
            told = await self._forward([questions[at] for at in passed])
            answers |= dict(zip(passed, told, strict=True))
        return [answers[at] for at in range(len(questions))]

    async def _faulty(self, fault: Fault, method: str, params: list[Any]) -> Any:
        refusal = Refusal({"code": fault.code, "message": fault.message})
        if fault.effect is Effect.ERROR:
            raise refusal
        if fault.effect is Effect.NULL:
            return None
        if fault.effect is Effect.LIE:
            return fault.result
        if fault.effect is Effect.DROP:
            return "0x" + keccak(hexstr=params[0]).hex()
        own = getattr(self, f"_{method}", None)
        result = await (own(*params) if own else self.ask(method, *params))
        if fault.effect is Effect.LATE_ERROR:
            raise refusal
        raise AssertionError(f"nobody needed {fault.effect} yet: {result}")

    async def ask(self, method: str, *params: Any) -> Any:
        """The result of one call of anvil's."""
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        (answer,) = await self._forward([question])
        if "error" in answer:
            raise Refusal(answer["error"])
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
        """A block of what can go into one, unless it is in one by now."""
        if int((await self.ask("txpool_status"))["pending"], 16):
            await self.ask("evm_mine")

    async def _florin_fault(self, wanted: dict[str, Any]) -> bool:
        options = dict(wanted)
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
            raise AssertionError(f"nobody needed {kind} yet")
        return True

    def _plan(self, method: str, effect: str, times: int = 1, result: Any = None) -> None:
        self._faults.plan(method, Fault(Effect(effect), times, "injected fault", -32000, 0, result))

    async def _reorg(self, depth: int, drop: Sequence[str] = (), delay: int = 0) -> None:
        """As on the embedded chain: one block more, transactions in the first after the delay."""
        head = int(await self.ask("eth_blockNumber"), 16)
        back = []
        for number in range(head - depth + 1, head + 1):
            block = await self.ask("eth_getBlockByNumber", hex(number), False)
            back += block["transactions"]
        # what waited for the blocks that go would be thrown away with a nonce too high
        for waiting in (await self.ask("txpool_content"))["pending"].values():
            back += [waiting[nonce]["hash"] for nonce in sorted(waiting, key=int)]
        raw = [await self.ask("eth_getRawTransactionByHash", one) for one in back]
        await self.ask("anvil_dropAllTransactions")
        await self.ask("anvil_rollback", depth)
        # the same transactions at the same second would make the very block that went
        await self.ask("anvil_setCoinbase", f"0x{(int(block['miner'], 16) | 0xC0 << 152) + 1:040x}")
        for index in range(depth + 1):
            if index == delay:
                for tx_hash, one in zip(back, raw, strict=True):
                    if tx_hash not in drop:
                        await self.ask("eth_sendRawTransaction", one)
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
        found = []
        decimals = {token.address: token.decimals for token in DEVNET.tokens}
        for account in accounts:
            has = int(await self.ask("eth_getBalance", account, "latest"), 16)
            if lacking := missing(has, wei, GIFT_WEI):
                found.append((account, lacking, "0x"))
            word = account[2:].lower().rjust(64, "0")
            for token in tokens:
                call = {"to": token, "data": "0x70a08231" + word}
                has = int(await self.ask("eth_call", call, "latest"), 16)
                if lacking := missing(has, units, GIFT_TOKENS * 10 ** decimals[token.lower()]):
                    found.append((token, 0, f"0x40c10f19{word}{lacking:064x}"))
        return found

    async def _give(self, to: str, value: int, data: str) -> str:
        nonce = int(await self.ask("eth_getTransactionCount", DEVNET.faucet, "latest"), 16)
        raw = by_faucet(nonce, to=bytes.fromhex(to[2:]), value=value, data=data)
        tx_hash: str = await self.ask("eth_sendRawTransaction", "0x" + raw.hex())
        await self._seal()
        return tx_hash


def by_faucet(nonce: int, **fields: Any) -> bytes:
    """A signed transaction of the account that owns the tokens."""
    usual = {
        "chainId": CHAIN_ID,
        "nonce": nonce,
        "gas": 200_000,
        "maxFeePerGas": 10**11,
        "maxPriorityFeePerGas": 10**9,
        "value": 0,
    }
    return bytes(Account.sign_transaction({**usual, **fields}, DEVNET.faucet_key).raw_transaction)
