"""Measure the gas of every way to pay on the embedded chain, alone and in a batch.

Run `python -m tests.bench.gas_table` to print the table, and with `--write` to put it into
contracts/README.md. Every payment has its own buyer and a fee, and merchant, fee receiver and home
already have the asset. A bare transfer by EIP-3009, as x402 settles, is measured in the same run.
Gas does not depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.chains.evm.signatures import sign_digest
from florin_server.domain.chains.evm.typed_data import Eip712Domain
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.settings import EvmCoinSettings
from florin_server.rails.types import PayableAsset

from tests.bench import gas
from tests.bench.document import put
from tests.bench.size import sized
from tests.support.evm_devnet import encode_call
from tests.support.evm_harness import (
    EURO,
    FEES,
    MERCHANT,
    PRICE,
    START_S,
    TOKEN,
    EvmChainHarness,
    make_asset,
    make_buyer,
    make_euro_asset,
    open_lab,
)

DOCUMENT = Path(__file__).parents[2] / "contracts" / "README.md"
COUNT = sized(50, 3)
HOME = "0x" + "c0" * 20
END_S = START_S + 3_600
# figures of the previous contracts, from this program: alone, and each of 50
BEFORE: dict[str, tuple[int, int | None]] = {
    "eip3009": (108_695, 68_425),
    "permit2": (102_626, 67_898),
    "direct": (97_164, None),
    "coin": (71_780, None),
    "forward": (114_600, 73_014),
    "forward_euro": (104_406, 68_700),
    "forward_coin": (101_250, 72_502),
    "x402": (166_898, 122_833),
    "sweep": (99_871, 64_895),
    "sweep_paid": (60_997, 26_022),
}
# the published gas snapshot of base/commerce-payments: its charge, which is not run here
COMMERCE_PAYMENTS_CHARGE = 165_167
_FEE = 15_000
_GAS_MAX = 15_000_000
_ITEM_GAS = 300_000
_ROUTE = "(uint256,address,uint256,uint256,address,address,uint256,bytes32,address)"
_FORWARD = f"forward(({_ROUTE},address,bytes,uint256)[])"
_SWEEP = f"sweep(({_ROUTE},address[],uint256)[])"
_TRANSFER_BY_SIGNATURE = (
    "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
)
_AUTHORIZATION = keccak(
    b"TransferWithAuthorization(address from,address to,uint256 value,"
    b"uint256 validAfter,uint256 validBefore,bytes32 nonce)"
)


@dataclass(frozen=True, slots=True)
class GasRow:
    """The gas of one way to pay: alone, and of each payment of a batch if there are batches."""

    way: str
    title: str
    alone: int
    each: int | None = None


async def measure_rows() -> list[GasRow]:
    """Return the gas of every way, in the order of the table."""
    rows = []
    coin = EvmCoinSettings(name="Test Ether", symbol="tETH")
    lab = await open_lab(assets=(make_asset(), make_euro_asset()), coin=coin)
    try:
        for account in (MERCHANT, FEES, HOME):
            await lab.send(to=account, value=1)
            for token in (DEVNET.token.address, DEVNET.euro.address):
                await _mint(lab, token, account, 1)
        for way, asset_id, title in (
            ("eip3009", TOKEN, "`PaySettler`, signed transfer (EIP-3009)"),
            ("permit2", EURO, "`PaySettler`, Permit2"),
        ):
            rows.append(await _measure_settlement(lab, way, title, asset_id))
        direct = PayableAsset("", TOKEN, (PRICE,), "direct")
        for way, asset_id, means, title in (
            ("direct", TOKEN, direct, "`PaySettler.pay`, token, after an approval"),
            ("coin", gas.COIN, PayableAsset("", gas.COIN), "`PaySettler.pay`, coin"),
        ):
            figure = await gas.measure_wallet_payment(lab, asset_id, means, 0)
            rows.append(GasRow(way, title, round(figure.value)))
        for way, token, title in (
            ("forward", DEVNET.token.address, "`PayForwarder.forward`, EIP-3009 token"),
            ("forward_euro", DEVNET.euro.address, "… token without return values"),
            ("forward_coin", ZERO_ADDRESS, "… coin"),
        ):
            rows.append(await _measure_batches(lab, way, title, _forward_paid(lab, token)))
        rows.append(
            await _measure_batches(
                lab, "x402", "x402: EIP-3009 as errand, and `forward`", _forward_signed(lab)
            )
        )
        rows.append(
            await _measure_batches(
                lab, "sweep", "`PayForwarder.sweep`, address without code", _sweep_unpaid(lab)
            )
        )
        rows.append(
            await _measure_batches(lab, "sweep_paid", "… address with code", _sweep_paid(lab))
        )
        rows.append(await _measure_deposit(lab))
        rows.append(await _measure_bare_transfer(lab))
    finally:
        await lab.rail.close()
        await lab.chain.close()
    charge = "commerce-payments, `charge` (published, not run here)"
    return [*rows, GasRow("commerce", charge, COMMERCE_PAYMENTS_CHARGE)]


def format_table(rows: Sequence[GasRow]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| | Alone | Before | Each of 50 | Before |",
        "|-|-:|-:|-:|-:|",
    ]
    for row in rows:
        alone_before, each_before = BEFORE.get(row.way, (None, None))
        cells = (row.alone, alone_before, row.each, each_before)
        texts = ("" if gas_used is None else f"{gas_used:,}" for gas_used in cells)
        lines.append(f"| {row.title} | {' | '.join(texts)} |")
    return "\n".join(lines)


_Batch = Callable[[Sequence[int]], Awaitable[int]]


async def _measure_batches(lab: EvmChainHarness, way: str, title: str, send: _Batch) -> GasRow:
    """Return the gas of a batch of one, and of a batch of many, divided by their number."""
    base = 1_000 * int.from_bytes(keccak(way.encode())[:2], "big")
    alone = await send([base])
    batch = await send(list(range(base + 1, base + 1 + COUNT)))
    return GasRow(way, title, alone, round(batch / COUNT))


async def _measure_settlement(lab: EvmChainHarness, way: str, title: str, asset_id: str) -> GasRow:
    async def send(numbers: Sequence[int]) -> int:
        return await gas.settle_payments(lab, asset_id, numbers)

    return await _measure_batches(lab, way, title, send)


def _forward_paid(lab: EvmChainHarness, token: str) -> _Batch:
    """Return the forwarding of addresses that hold the money already."""

    async def send(numbers: Sequence[int]) -> int:
        routes = [_make_route(number, token) for number in numbers]
        for route in routes:
            await _mint(lab, token, route.compute_address(), PRICE)
        return await _forward(lab, [(route, ZERO_ADDRESS, b"") for route in routes])

    return send


def _forward_signed(lab: EvmChainHarness) -> _Batch:
    """Return the forwarding that first submits the transfers that buyers signed to addresses."""

    async def send(numbers: Sequence[int]) -> int:
        items = []
        for number in numbers:
            route, wallet = _make_route(number, DEVNET.token.address), make_buyer(number)
            await _mint(lab, DEVNET.token.address, wallet.address, 2 * PRICE)
            data = _encode_signed_transfer(wallet, route.compute_address(), number)
            items.append((route, DEVNET.token.address, data))
        return await _forward(lab, items)

    return send


def _sweep_unpaid(lab: EvmChainHarness) -> _Batch:
    """Return the sweep of addresses that hold another asset than the route's."""

    async def send(numbers: Sequence[int]) -> int:
        routes = [_make_route(number, DEVNET.token.address, chain_id=1) for number in numbers]
        for route in routes:
            await _mint(lab, DEVNET.token.address, route.compute_address(), PRICE)
        return await _sweep(lab, routes)

    return send


def _sweep_paid(lab: EvmChainHarness) -> _Batch:
    """Return the sweep of addresses that were paid, and got money again."""

    async def send(numbers: Sequence[int]) -> int:
        token = DEVNET.token.address
        await _forward_paid(lab, token)(numbers)
        routes = [_make_route(number, token) for number in numbers]
        for route in routes:
            await _mint(lab, token, route.compute_address(), PRICE)
        return await _sweep(lab, routes)

    return send


async def _measure_deposit(lab: EvmChainHarness) -> GasRow:
    """Return the gas of the transfer by which a buyer pays to an address."""
    wallet, address = make_buyer(900_001), "0x" + "ad" * 20
    await lab.send(to=wallet.address, value=10**18)
    await _mint(lab, DEVNET.token.address, wallet.address, 2 * PRICE)
    transfer = encode_call("transfer(address,uint256)", address, PRICE)
    used = await _send(lab, DEVNET.token.address, transfer, key=bytes(wallet.key))
    return GasRow("deposit", "Buyer's transfer to an address, which comes before", used)


async def _measure_bare_transfer(lab: EvmChainHarness) -> GasRow:
    """Return the gas of a transfer by EIP-3009 to the merchant, as x402's facilitators settle."""
    wallet = make_buyer(900_002)
    await _mint(lab, DEVNET.token.address, wallet.address, 2 * PRICE)
    call = "0x" + _encode_signed_transfer(wallet, MERCHANT, 1).hex()
    used = await _send(lab, DEVNET.token.address, call)
    return GasRow("bare", "x402 alone: a bare transfer by EIP-3009, without a fee", used)


async def _forward(lab: EvmChainHarness, items: Sequence[tuple[ForwardRoute, str, bytes]]) -> int:
    listed = [(_list_words(route), target, data, _ITEM_GAS) for route, target, data in items]
    receipt = await _run(lab, DEVNET.forwarder, encode_call(_FORWARD, listed))
    paid = [log for log in receipt["logs"] if log["topics"][0] == settler.PAID_TOPIC]
    if len(paid) != len(items):
        raise RuntimeError(f"{len(items) - len(paid)} of {len(items)} payments did not move")
    return int(receipt["gasUsed"], 16)


async def _sweep(lab: EvmChainHarness, routes: Sequence[ForwardRoute]) -> int:
    items = [(_list_words(route), [route.token], _ITEM_GAS) for route in routes]
    receipt = await _run(lab, DEVNET.forwarder, encode_call(_SWEEP, items))
    if len(receipt["logs"]) != 2 * len(routes):
        raise RuntimeError("not everything went home")
    return int(receipt["gasUsed"], 16)


async def _send(lab: EvmChainHarness, to: str, call: str, **fields: Any) -> int:
    return int((await _run(lab, to, call, **fields))["gasUsed"], 16)


async def _run(lab: EvmChainHarness, to: str, call: str, **fields: Any) -> Any:
    fields = {"gas": _GAS_MAX if to == DEVNET.forwarder else 500_000, **fields}
    return await lab.send(to=to, data=bytes.fromhex(call[2:]), **fields)


async def _mint(lab: EvmChainHarness, token: str, account: str, value: int) -> None:
    if token == ZERO_ADDRESS:
        await lab.send(to=account, value=value)
    else:
        await _send(lab, token, encode_call("mint(address,uint256)", account, value))


def _make_route(number: int, token: str, chain_id: int = DEVNET.chain_id) -> ForwardRoute:
    return ForwardRoute(
        chain_id=chain_id,
        forwarder=DEVNET.forwarder,
        token=token,
        value=PRICE,
        valid_before=END_S,
        dest=MERCHANT,
        fee_to=FEES,
        fee=_FEE,
        ref=keccak(str(number).encode()),
        home=HOME,
    )


def _list_words(route: ForwardRoute) -> tuple[Any, ...]:
    chain_id, _, *rest = astuple(route)
    return (chain_id, *rest)


def _encode_signed_transfer(wallet: LocalAccount, to: str, number: int) -> bytes:
    """Encode the submission of a transfer that a wallet signs."""
    token, nonce = DEVNET.token, keccak(f"nonce {number}".encode())
    domain = Eip712Domain(token.name, token.version, DEVNET.chain_id, token.address)
    words = (_AUTHORIZATION, _pad(wallet.address), _pad(to), _word(PRICE), _word(0), _word(END_S))
    content = keccak(b"".join((*words, nonce)))
    digest = keccak(b"\x19\x01" + domain.compute_separator() + content)
    signature = sign_digest(bytes(wallet.key), digest)
    packed = signature[:64] + bytes((signature[64] + 27,))
    call = encode_call(_TRANSFER_BY_SIGNATURE, wallet.address, to, PRICE, 0, END_S, nonce, packed)
    return bytes.fromhex(call[2:])


def _pad(address: str) -> bytes:
    return bytes.fromhex(address[2:]).rjust(32, b"\0")


def _word(value: int) -> bytes:
    return value.to_bytes(32, "big")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.gas_table")
    parser.add_argument("--write", action="store_true", help="put it into contracts/README.md")
    namespace = parser.parse_args()
    table = format_table(asyncio.run(measure_rows()))
    print(table)
    if namespace.write:
        DOCUMENT.write_text(put(DOCUMENT.read_text(), "gas", table))


if __name__ == "__main__":
    main()
