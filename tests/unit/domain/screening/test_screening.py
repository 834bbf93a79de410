from __future__ import annotations

import pytest
from florin_server.domain.caip import format_checksum_address
from florin_server.domain.screening.blocklist import (
    Blocklist,
    find_address,
    validate_blocklist_entry,
)

ADDRESS = format_checksum_address("0x" + "ab" * 20)
SOLANA = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
CLUSTER = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"


@pytest.mark.parametrize("entry", [ADDRESS, ADDRESS.lower(), f"eip155:1:{ADDRESS}"])
@pytest.mark.parametrize("chain", ["eip155:1", "eip155:8453", "eip155:31337"])
def test_an_address_is_blocked_on_every_chain_of_its_namespace(entry, chain):
    blocked = Blocklist([entry])
    assert blocked.is_blocked(f"{chain}:{ADDRESS}")
    assert blocked.is_blocked(f"{chain}:{ADDRESS.lower()}")
    assert not blocked.is_blocked(f"{chain}:0x{'ac' * 20}")


def test_addresses_that_know_capitals_compare_as_they_are():
    blocked = Blocklist([f"{CLUSTER}:{SOLANA}"])
    assert blocked.is_blocked(f"solana:devnet:{SOLANA}")
    assert not blocked.is_blocked(f"{CLUSTER}:{SOLANA.lower()}")
    assert not blocked.is_blocked(f"eip155:1:{SOLANA}")


@pytest.mark.parametrize("text", ["", "rubbish", ADDRESS, f"eip155:1:{ADDRESS}:", "eip155:1:0x"])
def test_text_that_is_no_account_is_not_blocked(text):
    assert not Blocklist([ADDRESS]).is_blocked(text)
    assert not Blocklist().is_blocked(text)


def test_everybody_with_an_address_can_be_blocked_at_once():
    blocked = Blocklist.from_addresses([("eip155", ADDRESS.lower()), ("solana", SOLANA)])
    assert blocked.is_blocked(f"eip155:1:{ADDRESS}")
    assert blocked.is_blocked(f"{CLUSTER}:{SOLANA}")
    assert not blocked.is_blocked(f"eip155:1:0x{'ac' * 20}")


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        (ADDRESS.swapcase().replace("0X", "0x"), "^address has a wrong checksum"),
        (f"eip155:1:{ADDRESS.swapcase().replace('0X', '0x')}", "^address has a wrong checksum"),
        (ADDRESS[:-1], "^neither a CAIP-10 account nor an EVM address: '0x"),
    ],
)
def test_invalid_blocklist_entry_is_refused_with_its_reason(entry, fault):
    with pytest.raises(ValueError, match=fault):
        validate_blocklist_entry(entry)


def test_lists_add_up():
    blocked = Blocklist([ADDRESS])
    blocked.add([f"{CLUSTER}:{SOLANA}"])
    assert blocked.is_blocked(f"eip155:1:{ADDRESS}")
    assert blocked.is_blocked(f"{CLUSTER}:{SOLANA}")


@pytest.mark.parametrize("entry", ["", "rubbish", SOLANA, "eip155:1:0x12", ADDRESS.swapcase()])
def test_a_list_with_a_mistake_is_refused_as_a_whole(entry):
    blocked = Blocklist()
    with pytest.raises(ValueError, match="address|account"):
        blocked.add([ADDRESS, entry])
    assert not blocked.is_blocked(f"eip155:1:{ADDRESS}")
    with pytest.raises(ValueError, match="address|account"):
        validate_blocklist_entry(entry)


@pytest.mark.parametrize("capitals", [ADDRESS.swapcase().replace("0X", "0x"), ADDRESS.upper()])
def test_wrong_checksum_capitals_do_not_evade_the_blocklist(capitals):
    assert Blocklist([ADDRESS]).is_blocked(f"eip155:1:{capitals.replace('0X', '0x')}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (SOLANA, ("solana", SOLANA)),
        ("1" * 32, ("solana", "1" * 32)),
        ("SysvarC1ock11111111111111111111111111111111", ("solana", None)),
        # the largest number of 32 bytes, and the next one
        ("JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG", ("solana", None)),
        ("JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFH", None),
        ("1" * 33, None),
        ("z" * 44, None),
        (SOLANA[:-2], None),
        (ADDRESS.upper().replace("0X", "0x"), ("eip155", ADDRESS.lower())),
        ("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", None),
    ],
)
def test_address_form_determines_its_namespace(text, address):
    expected_address = address and (address[0], address[1] or text)
    assert find_address(text) == expected_address
