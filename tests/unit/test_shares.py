"""What is reserved for a payment is more than it can use, whatever its payer's code does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from florin_server.rails.evm.paying import erc6492, verify
from florin_server.rails.evm.paying.erc6492 import Opening
from florin_server.rails.evm.sending.fees import (
    GAS_BASE,
    KEY_GAS,
    OPEN_GAS,
    WALLET_GAS,
    dry_run_gas,
    payment_share,
)
from florin_server.rails.evm.sending.submission import (
    DATA_MAX,
    GAS_HEAVIEST,
    Item,
    Submission,
    cut,
    few,
    submission,
)
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.settler import Pay, one
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

SETTLER, OPENER, TOKEN = ("0x" + digit * 40 for digit in "567")
CHAIN = EvmChain(
    chain_id=31337,
    name="Test",
    settler=SETTLER,
    opener=OPENER,
    factories=(TOKEN,),
    treasury="0x" + "fe" * 20,
)
# what the contracts ask for before they call, and what is used around a call in fact
SETTLER_CALL_GAS, OPENER_CALL_GAS = 10_000, 5_000
AROUND_PAYMENT, AROUND_OPENING = 7_000, 7_000


def item(signature: bytes, *, by_key: bool, opened_by: bytes | None = None) -> Item:
    pay = Pay(
        token=TOKEN,
        payer="0x" + "8f" * 20,
        value=2**255,
        valid_after=0,
        valid_before=2**40,
        dest="0x" + "9f" * 20,
        fee_to="0x" + "af" * 20,
        fee=2**200,
        ref=b"r" * 32,
        gas=KEY_GAS if by_key else WALLET_GAS,
        signature=signature,
    )
    opening = None if opened_by is None else Opening(pay.payer, TOKEN, opened_by)
    return Item(pay, "0x" + "22" * 20, by_permit2=False, by_key=by_key, opening=opening)


def noise(most: int) -> st.SearchStrategy[bytes]:
    """Bytes without zeros, which are the dearest."""
    return st.integers(0, most).map(lambda length: b"\xff" * length)


ITEMS = st.one_of(
    st.just(item(b"\xff" * 65, by_key=True)),
    noise(verify.SIGNATURE_BYTES_MAX).map(lambda given: item(given, by_key=False)),
    st.builds(
        lambda told, given: item(given, by_key=False, opened_by=told),
        noise(erc6492.FACTORY_DATA_MAX),
        noise(800),
    ),
)


@dataclass
class Meter:
    """Gas as the chain counts it down."""

    left: int

    def use(self, gas: int) -> None:
        self.left -= gas
        assert self.left >= 0

    def forwards(self) -> int:
        return self.left - self.left // 64


def run_by_burners(sent: Submission, items: list[Item]) -> None:
    """A transaction in which everybody burns all that is given, as the contracts give it."""
    zeros = sent.data.count(0)
    dear = len(sent.data) - zeros
    assert sent.gas >= 21_000 + 40 * dear + 10 * zeros
    meter = Meter(sent.gas)
    meter.use(21_000 + 16 * dear + 4 * zeros)
    openings = [one for one in items if one.opening is not None]
    for _ in openings:
        meter.use(AROUND_OPENING - OPENER_CALL_GAS)
        assert meter.forwards() >= OPEN_GAS + OPENER_CALL_GAS
        meter.use(OPEN_GAS + OPENER_CALL_GAS)
    if openings:
        # the whole call is copied into memory
        words = len(sent.data) // 32 + 1
        meter.use(6 * words + words * words // 512 + 3_000)
        meter = Meter(meter.forwards())
    meter.use(1_000)
    for each in items:
        meter.use(AROUND_PAYMENT - SETTLER_CALL_GAS // 2)
        assert meter.forwards() >= each.pay.gas + SETTLER_CALL_GAS
        meter.use(each.pay.gas + SETTLER_CALL_GAS // 2)


@settings(max_examples=300, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=50))
def test_nobody_can_take_the_gas_of_others(items):
    first = 0
    for count in cut(CHAIN, items, 50):
        part = items[first : first + count]
        first += count
        sent = submission(CHAIN, part)
        assert (sent.gas, len(sent.data)) <= (CHAIN.gas_max, DATA_MAX)
        assert len(sent.data) <= DATA_MAX
        run_by_burners(sent, part)
    assert first == len(items)


def test_fifty_payments_by_key_go_together():
    items = [item(b"\xff" * 65, by_key=True)] * 50
    assert cut(CHAIN, items, 50) == [50]
    assert submission(CHAIN, items).gas < 11_000_000


def test_long_signatures_do_not_make_a_transaction_that_nodes_refuse():
    chain = CHAIN.model_copy(update={"gas_max": 2**24})
    items = [item(b"\xff" * verify.SIGNATURE_BYTES_MAX, by_key=False)] * 50
    counts = cut(chain, items, 50)
    assert sum(counts) == 50
    assert all(len(submission(chain, items[:count]).data) < 128 * 1024 for count in counts)


@pytest.mark.parametrize(("told", "given"), [(3_072, 800), (0, 3_900), (1_500, 2_400)])
def test_the_heaviest_payment_is_as_heavy_as_it_is_taken_for(told, given):
    heavy = item(b"\xff" * given, by_key=False, opened_by=b"\xff" * told)
    wrapped = erc6492.Wrapped(TOKEN, b"\xff" * told, b"\xff" * given)
    assert len(wrapped.encoded()) <= verify.SIGNATURE_BYTES_MAX
    assert heavy.gas <= GAS_HEAVIEST
    count = few(CHAIN)
    assert cut(CHAIN, [heavy] * count, count) == [count]


def test_the_heaviest_payment_fits_into_the_smallest_limit():
    least = CHAIN.model_copy(update={"gas_max": 1_000_000})
    assert few(least) == 1
    assert least.gas_max >= GAS_BASE + GAS_HEAVIEST
    with pytest.raises(ValidationError):
        EvmChain(**CHAIN.model_dump() | {"gas_max": 999_999})


@pytest.mark.parametrize(("signature_bytes", "by_key"), [(65, True), (65, False), (4096, False)])
def test_a_dry_run_may_use_no_more_than_the_payment_later(signature_bytes, by_key):
    form = item(b"\xff" * signature_bytes, by_key=by_key)
    call = one(form.pay)
    zeros = call.count(0)
    spent_on_data = 21_000 + 16 * (len(call) - zeros) + 4 * zeros
    assert dry_run_gas(call, form.pay.gas) == spent_on_data + form.pay.gas
    assert payment_share(form.pay.gas, form.pay.size) > form.pay.gas
