"""Test that a payment's reserved gas exceeds what it can use, whatever its payer's code does."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from florin_server.rails.evm.paying import erc6492, outputs
from florin_server.rails.evm.paying.erc6492 import AccountCreation
from florin_server.rails.evm.sending.fees import (
    GAS_BASE,
    KEY_GAS,
    OPEN_GAS,
    WALLET_GAS,
    compute_dry_run_gas,
    compute_payment_share,
)
from florin_server.rails.evm.sending.submission import (
    DATA_MAX,
    PAYMENT_GAS_HEAVIEST,
    SettlementCall,
    SubmissionItem,
    build_settlement_call,
    count_items_that_fit,
    split_items,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.settler import PayArguments, encode_settle_one
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

SETTLER, OPENER, TOKEN = ("0x" + digit * 40 for digit in "567")
CHAIN = EvmChainSettings(
    chain_id=31337,
    name="Test",
    settler=SETTLER,
    opener=OPENER,
    factories=(TOKEN,),
    treasury="0x" + "fe" * 20,
)
# the gas that contracts require before a call, and the gas used around a call
SETTLER_CALL_GAS, OPENER_CALL_GAS = 10_000, 5_000
AROUND_PAYMENT, AROUND_OPENING = 7_000, 7_000
# the gas of taking a payment, and of one transfer to a receiver that is new to the token
HONEST_GAS, PAYOUT_GAS = 75_000, 40_000


def item(signature: bytes, *, by_key: bool, opened_by: bytes | None = None) -> SubmissionItem:
    pay = PayArguments(
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
    opening = None if opened_by is None else AccountCreation(pay.payer, TOKEN, opened_by)
    return SubmissionItem(
        pay, "0x" + "22" * 20, is_permit2=False, is_key_signature=by_key, creation=opening
    )


def noise(most: int) -> st.SearchStrategy[bytes]:
    """Return bytes without zeros, which cost the most."""
    return st.integers(0, most).map(lambda length: b"\xff" * length)


ITEMS = st.one_of(
    st.just(item(b"\xff" * 65, by_key=True)),
    noise(outputs.SIGNATURE_BYTES_MAX).map(lambda value: item(value, by_key=False)),
    st.builds(
        lambda result, value: item(value, by_key=False, opened_by=result),
        noise(erc6492.FACTORY_DATA_MAX),
        noise(800),
    ),
)


@dataclass
class Meter:
    """A gas counter that works as on the chain."""

    left: int

    def use(self, gas: int) -> None:
        self.left -= gas
        assert self.left >= 0

    def forwards(self) -> int:
        return self.left - self.left // 64


def run_by_burners(
    sent: SettlementCall, items: list[SubmissionItem], *, has_honest_payer: bool = False
) -> None:
    """Run a transaction in which every payer burns all gas that the contracts give it.

    If the last payer is honest, its payment is paid out.
    """
    zeros = sent.data.count(0)
    dear = len(sent.data) - zeros
    assert sent.gas >= 21_000 + 40 * dear + 10 * zeros
    meter = Meter(sent.gas)
    meter.use(21_000 + 16 * dear + 4 * zeros)
    openings = [
        submission_item for submission_item in items if submission_item.creation is not None
    ]
    for _ in openings:
        meter.use(AROUND_OPENING - OPENER_CALL_GAS)
        assert meter.forwards() >= OPEN_GAS + OPENER_CALL_GAS
        meter.use(OPEN_GAS + OPENER_CALL_GAS)
    if openings:
        # memory gets a copy of the whole call
        words = len(sent.data) // 32 + 1
        meter.use(6 * words + words * words // 512 + 3_000)
        meter = Meter(meter.forwards())
    meter.use(1_000)
    if len(items) > 1:
        # the payments are copied into a call of the contract to itself
        words = len(sent.data) // 32 + 1
        meter.use(6 * words + words * words // 512 + 1_000)
        meter = Meter(meter.forwards())
    for number, each in enumerate(items, 1):
        meter.use(AROUND_PAYMENT - SETTLER_CALL_GAS // 2)
        assert meter.forwards() >= each.arguments.gas + SETTLER_CALL_GAS
        is_honest = has_honest_payer and number == len(items)
        meter.use(HONEST_GAS if is_honest else each.arguments.gas + SETTLER_CALL_GAS // 2)
    for _ in range(2 if has_honest_payer else 0):
        assert meter.forwards() >= items[0].arguments.gas + SETTLER_CALL_GAS
        meter.use(PAYOUT_GAS)


@settings(max_examples=300, deadline=None)
@given(st.lists(ITEMS, min_size=1, max_size=50))
def test_payers_cannot_take_the_gas_of_other_items(items):
    first = 0
    for count in split_items(CHAIN, items, 50):
        part = items[first : first + count]
        first += count
        sent = build_settlement_call(CHAIN, part)
        assert (sent.gas, len(sent.data)) <= (CHAIN.gas_max, DATA_MAX)
        assert len(sent.data) <= DATA_MAX
        run_by_burners(sent, part)
        if len(part) > 1:
            run_by_burners(sent, part, has_honest_payer=True)
    assert first == len(items)


def test_fifty_payments_by_key_go_together():
    items = [item(b"\xff" * 65, by_key=True)] * 50
    assert split_items(CHAIN, items, 50) == [50]
    assert build_settlement_call(CHAIN, items).gas < 11_000_000


def test_long_signatures_do_not_make_a_transaction_that_nodes_refuse():
    chain = CHAIN.model_copy(update={"gas_max": 2**24})
    items = [item(b"\xff" * outputs.SIGNATURE_BYTES_MAX, by_key=False)] * 50
    counts = split_items(chain, items, 50)
    assert sum(counts) == 50
    assert all(
        len(build_settlement_call(chain, items[:count]).data) < 128 * 1024 for count in counts
    )


@pytest.mark.parametrize(
    ("creation_size", "signature_size"), [(3_072, 800), (0, 3_900), (1_500, 2_400)]
)
def test_the_heaviest_payment_is_as_heavy_as_it_is_taken_for(creation_size, signature_size):
    heavy = item(b"\xff" * signature_size, by_key=False, opened_by=b"\xff" * creation_size)
    wrapped = erc6492.WrappedSignature(TOKEN, b"\xff" * creation_size, b"\xff" * signature_size)
    assert len(wrapped.encode()) <= outputs.SIGNATURE_BYTES_MAX
    assert heavy.gas <= PAYMENT_GAS_HEAVIEST
    count = count_items_that_fit(CHAIN)
    assert split_items(CHAIN, [heavy] * count, count) == [count]


def test_the_heaviest_payment_fits_into_the_smallest_limit():
    least = CHAIN.model_copy(update={"gas_max": 1_000_000})
    assert count_items_that_fit(least) == 1
    assert least.gas_max >= GAS_BASE + PAYMENT_GAS_HEAVIEST
    with pytest.raises(ValidationError):
        EvmChainSettings(**CHAIN.model_dump() | {"gas_max": 999_999})


@pytest.mark.parametrize(("signature_bytes", "by_key"), [(65, True), (65, False), (4096, False)])
def test_a_dry_run_may_use_no_more_than_the_payment_later(signature_bytes, by_key):
    form = item(b"\xff" * signature_bytes, by_key=by_key)
    call = encode_settle_one(form.arguments)
    zeros = call.count(0)
    spent_on_data = 21_000 + 16 * (len(call) - zeros) + 4 * zeros
    assert compute_dry_run_gas(call, form.arguments.gas) == spent_on_data + form.arguments.gas
    assert compute_payment_share(form.arguments.gas, form.arguments.size) > form.arguments.gas
