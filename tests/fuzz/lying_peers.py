"""A lying server and a lying node, whose answers are honest ones with arbitrary changes."""

from __future__ import annotations

import base64
import copy
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

import grpc
from florin.v1 import address_pb2, gateway_pb2, gateway_pb2_grpc, payment_pb2
from florin_server.domain.chains.solana import spl
from florin_server.rails.evm.paying.terms import PERMIT2
from google.protobuf import json_format
from solders.compute_budget import set_compute_unit_price
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from tests.support.options import (
    EVM,
    KINDS,
    MINT,
    PRICE,
    RECEIVER,
    RELAYER,
    SETTLER,
    SOLANA,
    TOKEN,
    Json,
    make_honest_option,
    make_solana_instructions,
    make_solana_step,
    make_transfer,
    to_wire_steps,
)

EVIL = "0x" + "ee" * 20
HONEST_NODE: Json = {
    "eth_chainId": "0x2105",
    "eth_estimateGas": "0x186a0",
    "eth_getTransactionCount": ["0x5", "0x6", "0x7"],
    "eth_getBlockByNumber": {"number": "0x10", "baseFeePerGas": "0x989680"},
    "eth_gasPrice": "0x989680",
    "eth_sendRawTransaction": "0x" + "11" * 32,
    "eth_getTransactionReceipt": {"status": "0x1"},
    "eth_call": "0x" + "0" * 63 + "6",
    "eth_getBalance": hex(10**18),
    "getLatestBlockhash": {"value": {"blockhash": str(RELAYER.pubkey())}},
    "getGenesisHash": SOLANA.partition(":")[2],
}


@dataclass
class Case:
    """The lies of one attempt to pay, and the outputs that the wallet released."""

    kind: str
    option: Json
    node: Json = field(default_factory=lambda: copy.deepcopy(HONEST_NODE))
    fetched: bool = False
    outputs: list[str] = field(default_factory=list)
    raws: list[bytes] = field(default_factory=list)
    call_counts: dict[str, int] = field(default_factory=dict)
    address: Json = field(default_factory=dict)
    # what is required by x402, and the payments that were handed in
    ways: list[Any] = field(default_factory=list)
    handed_in: list[Json] = field(default_factory=list)
    handed_in_status: int = 200


class LyingServer(gateway_pb2_grpc.GatewayServiceServicer):
    """Answers every wallet with the option of the case."""

    def __init__(self) -> None:
        self.case = Case("", {})
        self.x402_url = ""

    def GetPayment(self, request: Any, _context: Any) -> Any:
        info = gateway_pb2.PaymentInfo(
            payment_id="pay_1", status=payment_pb2.PAYMENT_STATUS_REQUIRES_ACTION, live=True
        )
        info.amount.unit, info.amount.value = "iso4217/USD", "1250"
        info.merchant.name = "Shop"
        info.x402_url = self.x402_url
        return info

    def GetPaymentOptions(self, _request: Any, _context: Any) -> Any:
        sent_option = self.case.option
        option = gateway_pb2.PaymentOption(id=_text(sent_option.get("id")))
        option.account = _text(sent_option.get("account"))
        option.amount.unit, option.amount.value = (
            _text(sent_option.get("unit")),
            _text(sent_option.get("value")),
        )
        option.amount.display.asset_symbol = _text(sent_option.get("symbol"))
        decimals = sent_option.get("decimals")
        option.amount.display.decimals = decimals if isinstance(decimals, int) else 0
        if self.case.fetched:
            option.actions.add().build.data = "00"
        else:
            option.actions.extend(self._actions())
        return gateway_pb2.GetPaymentOptionsResponse(payment_id="pay_1", options=[option])

    def OpenAddresses(self, _request: Any, _context: Any) -> Any:
        answer = {"paymentId": "pay_1", "addresses": [self.case.address]}
        return json_format.ParseDict(answer, address_pb2.OpenAddressesResponse())

    def FetchAction(self, _request: Any, _context: Any) -> Any:
        return gateway_pb2.FetchActionResponse(actions=self._actions())

    def ConfirmPayment(self, request: Any, _context: Any) -> Any:
        for result in request.results:
            self.case.outputs += [json.loads(item) for item in result.output_json]
        return gateway_pb2_status()

    def WatchPayment(self, _request: Any, _context: Any) -> Iterator[Any]:
        yield payment_pb2.WatchPaymentResponse(version=2, payment=gateway_pb2_status())

    def _actions(self) -> Iterator[Any]:
        steps = self.case.option.get("steps")
        for step in to_wire_steps(steps if isinstance(steps, list) else []):
            sent_step = step if isinstance(step, dict) else {}
            rpc = gateway_pb2.WalletRpcAction(
                chain_id=_text(sent_step.get("chain_id")),
                method=_text(sent_step.get("method")),
                params_json=_text(sent_step.get("raw", sent_step.get("params"))),
            )
            yield gateway_pb2.Action(wallet_rpc=rpc)


def gateway_pb2_status() -> Any:
    """Return a payment that has succeeded."""
    status = payment_pb2.PAYMENT_STATUS_SUCCEEDED
    return payment_pb2.GetPaymentStatusResponse(status=status, is_final=True)


@contextmanager
def listening() -> Iterator[tuple[LyingServer, str, str]]:
    """Run the server and its node; yield the server, its gRPC address and the node's URL."""
    liar = LyingServer()

    class Node(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps(_answer(liar.case, request["method"], request["params"])).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            signed = self.headers.get("PAYMENT-SIGNATURE")
            status, message = 402, {"x402Version": 2, "accepts": liar.case.ways, "error": "no"}
            if signed is not None:
                liar.case.handed_in.append(json.loads(base64.b64decode(signed)))
                status = liar.case.handed_in_status
            content = json.dumps(message).encode()
            self.send_response(status)
            self.send_header("PAYMENT-REQUIRED", base64.b64encode(content).decode())
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    node = ThreadingHTTPServer(("127.0.0.1", 0), Node)
    thread = threading.Thread(target=node.serve_forever, daemon=True)
    thread.start()
    server = grpc.server(ThreadPoolExecutor(4))
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(liar, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    liar.x402_url = f"http://127.0.0.1:{node.server_address[1]}/x402/pay_1"
    try:
        yield liar, f"127.0.0.1:{port}", f"http://127.0.0.1:{node.server_address[1]}/"
    finally:
        server.stop(None).wait()
        node.shutdown()
        node.server_close()
        thread.join()


def _answer(case: Case, method: str, params: list[Any]) -> Json:
    if method == "eth_sendRawTransaction":
        case.raws.append(bytes.fromhex(params[0][2:]))
    answer = case.node.get(method)
    if method == "eth_getTransactionCount" and isinstance(answer, list):
        count = case.call_counts.get(method, 0)
        case.call_counts[method] = count + 1
        answer = answer[min(count, len(answer) - 1)] if answer else None
    if method == "eth_getTransactionReceipt" and answer is None:
        # a wallet waits for minutes until it is mined
        answer = {}
    if answer == "refuses":
        return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "no"}}
    return {"jsonrpc": "2.0", "id": 1, "result": answer}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return json.dumps(value)


# returns the replacement of a leaf
_Change = Callable[[Any, Random], Any]


def _number(value: Any) -> int:
    try:
        return int(value, 0) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        return PRICE


_NUMBERS: tuple[Callable[[int], Any], ...] = (
    str,
    lambda n: n,
    hex,
    lambda n: hex(n + 1),
    lambda n: hex(max(n - 1, 0)),
    lambda n: hex(n * 1000),
    lambda n: str(n * 16),
    lambda n: f"0x0{n:x}",
    lambda n: f"0x{n:X}",
    lambda n: f"0X{n:x}",
    lambda n: f"{n:x}",
    lambda n: f" {n:#x}",
    lambda n: f"{n:#x}\n",
    lambda n: f"0x{n:064x}",
    lambda n: f"+{n}",
    lambda n: -n,
    lambda n: f"-{n:#x}",
    float,
    lambda n: f"{n}.0",
    lambda n: f"{n}e3",
    lambda n: n + 2**256,
    lambda n: hex(n + 2**256),
    oct,
    bin,
    lambda n: "".join(chr(0x660 + int(digit)) for digit in str(abs(n))),  # Arabic digits
    lambda _: hex(2**256 - 1),
    lambda _: hex(2**64),
    lambda _: 2**256 - 1,
    lambda _: "0x0",
    lambda _: "0x",
    lambda _: 0,
)
_VALUES = (None, True, [], {}, "", "0x", EVIL, PERMIT2, SETTLER, TOKEN, "0x" + "0" * 40, EVM)
_METHODS = ("personal_sign", "eth_sign", "eth_sendTransaction", "eth_signTypedData_v4")


def _change_leaf(value: Any, rng: Random) -> Any:
    way = rng.randrange(5)
    if way == 0:
        return rng.choice(_NUMBERS)(_number(value))
    if way == 1:
        return copy.deepcopy(rng.choice(_VALUES))
    if way == 2:
        return rng.choice(_METHODS)
    text = value if isinstance(value, str) else str(value)
    at = rng.randrange(len(text) + 1)
    if way == 3:
        cut = rng.choice((0, 1, 2, 64))
        return text[:at] + rng.choice(("0", "f", "x", "A", "\u202e", "")) + text[at + cut :]
    return rng.choice((text.upper(), text.swapcase(), text + "0" * 64, text * 2, [value]))


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member and item of a document."""
    members = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for name, value in members:
        yield (*path, name)
        if isinstance(value, dict | list):
            yield from _places(value, (*path, name))


def change_somewhere(tree: Any, rng: Random) -> None:
    """Change, move, repeat or remove an arbitrary member of a document."""
    places = list(_places(tree))
    if not places:
        return
    *path, last = rng.choice(places)
    target = tree
    for name in path:
        target = target[name]
    value = target[last]
    way = rng.randrange(8)
    if way == 0:
        del target[last]
    elif way == 1 and isinstance(target, list):
        target.insert(rng.randrange(len(target) + 1), copy.deepcopy(value))
    elif way == 2 and isinstance(target, list):
        rng.shuffle(target)
    elif way == 3 and isinstance(target, dict):
        target[rng.choice(("salt", "gas", "gasPrice", "nonce", "to", "value", "x"))] = _change_leaf(
            value, rng
        )
    elif isinstance(value, dict | list) and value and way < 7:
        change_somewhere(value, rng)
    else:
        target[last] = _change_leaf(value, rng)


def _evil_instructions(payer: str) -> list[Instruction]:
    own = spl.parse_pubkey(payer)
    signed = [AccountMeta(own, is_signer=True, is_writable=True)]
    stranger = Pubkey.from_bytes(b"\x99" * 32)
    place = spl.derive_associated_address(own, spl.parse_pubkey(MINT), spl.TOKEN)
    on_place = [AccountMeta(place, is_signer=False, is_writable=True)]
    return [
        spl.transfer_coin(own, RECEIVER.pubkey(), 1),
        make_transfer(payer, RECEIVER, 1),
        make_transfer(payer, RECEIVER, PRICE),
        make_transfer(payer, RECEIVER, 1, str(stranger)),
        Instruction(spl.TOKEN, b"\x04" + b"\xff" * 8, [*on_place, *signed]),
        Instruction(spl.TOKEN, b"\x06\x02\x00", [*on_place, *signed]),
        Instruction(spl.TOKEN, b"\x09", [*on_place, *signed]),
        Instruction(spl.SYSTEM, b"\x01\0\0\0" + b"\x99" * 32, signed),
        Instruction(stranger, b"\x01", signed),
        Instruction(stranger, b"\x01", []),
        spl.create_associated_account(own, RECEIVER.pubkey(), spl.parse_pubkey(MINT), spl.TOKEN),
        spl.advance_nonce(stranger, own),
        set_compute_unit_price(2**60),
        Instruction(spl.MEMO, b"I owe you", signed),
    ]


def _change_solana(case: Case, payer: str, rng: Random) -> None:
    steps = case.option["steps"]
    if rng.randrange(3) == 0:
        text = steps[0]["params"][0]["transaction"]
        raw = bytearray(base64.b64decode(text))
        for _ in range(rng.randint(1, 3)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        steps[0]["params"][0]["transaction"] = base64.b64encode(raw).decode()
        return
    coin = case.kind == "solana coin"
    instructions = make_solana_instructions(payer, coin=coin)
    for _ in range(rng.randint(1, 2)):
        at, way = rng.randrange(len(instructions)), rng.randrange(4)
        if way == 0:
            instructions.insert(at, rng.choice(_evil_instructions(payer)))
        elif way == 1:
            instructions.insert(at, instructions[at])
        elif way == 2 and len(instructions) > 1:
            del instructions[at]
        else:
            old = instructions[at]
            data = bytearray(old.data)
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            accounts = list(old.accounts)
            if accounts and rng.randrange(2):
                accounts[rng.randrange(len(accounts))] = rng.choice(accounts)
            instructions[at] = Instruction(old.program_id, bytes(data), accounts)
    fee_payer = Keypair.from_seed(b"\x08" * 32) if rng.randrange(8) == 0 else None
    steps[0] = (
        make_solana_step(instructions)
        if fee_payer is None
        else make_solana_step(instructions, fee_payer)
    )


def _change_call(case: Case, rng: Random) -> None:
    """Change words of calldata: a change of its text mostly only breaks it."""
    calls = [
        step["params"][0]
        for step in case.option["steps"]
        if step["method"] == "eth_sendTransaction"
    ]
    if not calls:
        change_somewhere(case.option["steps"], rng)
        return
    call = rng.choice(calls)
    data = bytearray.fromhex(call["data"][2:])
    at = 4 + 32 * rng.randrange((len(data) - 4) // 32)
    word = int.from_bytes(data[at : at + 32], "big")
    other = rng.choice((word + 1, word * 2, 0, 2**256 - 1, int(EVIL, 16), int(TOKEN, 16), 420))
    data[at : at + 32] = (other % 2**256).to_bytes(32, "big")
    call["data"] = "0x" + data.hex()


def _attack(case: Case, accounts: dict[str, str], now: int, rng: Random) -> None:
    """Make one of the attacks that need more than a change of one member."""
    steps = case.option["steps"]
    way = rng.randrange(7)
    if way == 0:
        case.option["steps"] = steps * rng.randint(2, 5)
    elif way == 1:
        other = make_honest_option(rng.choice(list(KINDS)), accounts, now)["steps"]
        steps[rng.randrange(len(steps) + 1) :] = other
    elif way == 2:
        case.option["decimals"] = rng.choice((0, 3, 9, 18, 27))
    elif way == 3:
        case.option["value"] = rng.choice((str(PRICE * 1000), str(PRICE + 1), "1", "0", hex(PRICE)))
    elif way == 4:
        case.option["unit"] = rng.choice(
            (
                f"caip19/{EVM}/erc20:{EVIL}",
                f"caip19/eip155:1/erc20:{TOKEN}",
                f"caip19/{EVM}/slip44:60",
                f"caip19/{SOLANA}/token:{MINT}",
            )
        )
    elif way == 5 and steps[-1]["method"] == "eth_signTypedData_v4":
        # one parser takes the last member of a name, another the first
        signer, document = steps[-1]["params"]
        text = json.dumps(document)
        name = rng.choice(("value", "amount", "to", "spender", "chainId", "verifyingContract"))
        doubled = text.replace(f'"{name}": ', f'"{name}": "{2 * PRICE:#x}", "{name}": ', 1)
        steps[-1]["raw"] = json.dumps([signer, doubled])
    else:
        change_somewhere(case.node, rng)


def lie(kind: str, accounts: dict[str, str], now: int, rng: Random) -> Case:
    """Return a case with an honest option of a kind, with one to three changes."""
    case = Case(kind, make_honest_option(kind, accounts, now), fetched=bool(rng.randrange(2)))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not isinstance(case.option.get("steps"), list) or not case.option["steps"]:
            return case
        way = rng.randrange(10)
        try:
            if way < 4:
                change_somewhere(case.option, rng)
            elif way < 6 and "solana" in kind:
                _change_solana(case, accounts[SOLANA], rng)
            elif way < 6:
                _change_call(case, rng)
            elif way < 8:
                _attack(case, accounts, now, rng)
            else:
                change_somewhere(case.node, rng)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            # earlier changes left nothing to change in this way
            continue
    return case
