import hashlib
from uuid import UUID

import pytest
from florin_server.domain.payments.option_names import (
    build_option_id_parts,
    derive_option_id,
    derive_reference,
)


def test_a_reference_is_fixed_per_payment_and_option():
    salt, other_salt = bytes(16), bytes(15) + b"\x01"
    reference = derive_reference(salt, "option-1")
    assert len(reference) == 32
    assert reference == derive_reference(salt, "option-1")
    assert (
        len(
            {
                reference,
                derive_reference(salt, "option-2"),
                derive_reference(other_salt, "option-1"),
            }
        )
        == 3
    )


def test_a_reference_needs_the_whole_salt():
    with pytest.raises(ValueError, match="16 bytes"):
        derive_reference(hashlib.sha256(b"").digest(), "option-1")


def test_an_option_is_named_by_all_that_it_consists_of():
    uuid = UUID(derive_option_id(["pay_1", "payer", "1000"]))
    digest = hashlib.sha256(b"pay_1\npayer\n1000").digest()
    assert (uuid.version, uuid.bytes[:6], uuid.bytes[9:]) == (5, digest[:6], digest[9:16])
    assert (
        derive_option_id(["pay_1", "payer", "1000"])
        == str(uuid)
        != derive_option_id(["pay_1", "payer"])
    )


def test_parts_of_an_option_id_have_a_fixed_order():
    def build_parts(**changes):
        named = {
            "payment_id": "pay_1",
            "payer": "eip155:1:0x1",
            "asset": "eip155:1/erc20:0x2",
            "value": 1250,
            "contracts": ("0x3", "0x4"),
            "dest": "eip155:1:0x5",
            "fee_to": "eip155:1:0x6",
            "fee": 7,
            "settled": True,
            "steps": ("sign", "1800000000"),
        }
        return build_option_id_parts(**(named | changes))

    money, contracts = ("pay_1", "eip155:1:0x1", "eip155:1/erc20:0x2", "1250"), ("0x3", "0x4")
    assert build_parts() == (
        *money,
        *contracts,
        *("eip155:1:0x5", "eip155:1:0x6", "7", "True"),
        *("sign", "1800000000"),
    )
    without_fee = build_parts(fee_to=None, fee=0, settled=False, steps=())
    assert without_fee == (*money, *contracts, "eip155:1:0x5", "", "0", "False")
