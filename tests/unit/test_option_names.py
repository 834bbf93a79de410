import hashlib
from uuid import UUID

import pytest
from florin_server.domain.payments.option_names import option_id, reference


def test_a_reference_is_fixed_per_payment_and_option():
    salt, other_salt = bytes(16), bytes(15) + b"\x01"
    found = reference(salt, "option-1")
    assert len(found) == 32
    assert found == reference(salt, "option-1")
    assert len({found, reference(salt, "option-2"), reference(other_salt, "option-1")}) == 3


def test_a_reference_needs_the_whole_salt():
    with pytest.raises(ValueError, match="16 bytes"):
        reference(hashlib.sha256(b"").digest(), "option-1")


def test_an_option_is_named_by_all_that_it_consists_of():
    made = UUID(option_id(["pay_1", "payer", "1000"]))
    digest = hashlib.sha256(b"pay_1\npayer\n1000").digest()
    assert (made.version, made.bytes[:6], made.bytes[9:]) == (5, digest[:6], digest[9:16])
    assert option_id(["pay_1", "payer", "1000"]) == str(made) != option_id(["pay_1", "payer"])
