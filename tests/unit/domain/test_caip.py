import string

import pytest
from eth_utils import to_checksum_address
from florin_server.domain.caip import (
    AccountId,
    AssetId,
    ChainId,
    canonicalize_account,
    canonicalize_asset,
    format_checksum_address,
    parse_account,
    parse_asset,
    parse_chain,
    parse_evm_address,
)
from hypothesis import given
from hypothesis import strategies as st

USDC = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits + "-"


def _text(alphabet, low, high):
    return st.text(alphabet=alphabet, min_size=low, max_size=high)


CHAINS = st.builds(ChainId, _text(LOWER, 3, 8), _text(ALNUM + "-_", 1, 32))
ACCOUNTS = st.builds(AccountId, CHAINS, _text(ALNUM + "-.%", 1, 128))
ASSETS = st.builds(AssetId, CHAINS, _text(LOWER, 3, 8), _text(ALNUM + "-.%", 1, 128))
ADDRESSES = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())


@given(CHAINS, ACCOUNTS, ASSETS)
def test_a_name_reads_back_as_it_was_written(chain, account, asset):
    assert parse_chain(str(chain)) == chain
    assert parse_account(str(account)) == account
    assert parse_asset(str(asset)) == asset


def test_an_account_is_a_chain_and_an_address():
    account = parse_account(f"eip155:8453:{USDC}")
    assert account == AccountId(ChainId("eip155", "8453"), USDC)


def test_an_asset_is_a_chain_a_namespace_and_a_reference():
    asset = parse_asset("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501")
    assert asset == AssetId(ChainId("solana", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"), "slip44", "501")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eip155",
        "eip155:",
        ":1",
        "ei:1",
        "toolongns:1",
        "EIP155:1",
        "eip_155:1",
        "eip155:1:2",
        "eip155:1 ",
        " eip155:1",
        "eip155:1\n",
        "eip155:" + "1" * 33,
        "eip155:1.0",
        "eip155:١",
    ],
)
def test_invalid_chain_id_is_refused(text):
    with pytest.raises(ValueError, match="^not a CAIP-2 chain id: "):
        parse_chain(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eip155:1",
        "eip155:1:",
        "eip155:1:a:b",
        "eip155:1:a_b",
        "eip155:1:a/b",
        "eip155:1:a\n",
        "eip155:1:" + "a" * 129,
        "eip155:1:é",
    ],
)
def test_invalid_account_id_is_refused(text):
    with pytest.raises(ValueError, match="^not a CAIP-10 account id: "):
        parse_account(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eip155:1",
        "eip155:1/erc20",
        "eip155:1/erc20:",
        "eip155:1/er:a",
        "eip155:1/ERC20:a",
        "eip155:1/erc20:" + "a" * 129,
        "eip155:1/erc20:a_b",
        "caip19/eip155:1/erc20:a",
        "eip155:1/erc721:a/1",
        "eip155:1/erc20:a\n",
    ],
)
def test_invalid_asset_type_is_refused(text):
    with pytest.raises(ValueError, match="^not a CAIP-19 asset type: "):
        parse_asset(text)


@given(ADDRESSES)
def test_checksums_equal_those_of_another_implementation(address):
    assert format_checksum_address(address) == to_checksum_address(address)


@given(ADDRESSES)
def test_valid_address_is_parsed_to_lower_case(address):
    for written in (address, "0x" + address[2:].upper(), format_checksum_address(address)):
        assert parse_evm_address(written) == address


def test_wrong_checksum_is_refused_unless_the_check_is_off():
    wrong = USDC.replace("fCD", "Fcd")
    with pytest.raises(ValueError, match="checksum"):
        parse_evm_address(wrong)
    assert parse_evm_address(wrong, checksum=False) == USDC.lower()


@pytest.mark.parametrize("text", ["", "0x", USDC[2:], USDC + "0", USDC[:-1], "0X" + USDC[2:]])
@pytest.mark.parametrize("read", [parse_evm_address, format_checksum_address])
def test_invalid_evm_address_is_refused(read, text):
    with pytest.raises(ValueError, match="^not an EVM address: "):
        read(text)


def test_accounts_on_evm_chains_compare_in_lower_case():
    assert canonicalize_account(f"eip155:1:{USDC}") == f"eip155:1:{USDC.lower()}"


def test_accounts_elsewhere_compare_as_written():
    text = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:HzwqbKZw8HxMN6bF2yFZNrht3c2iXXzpKcFu7uBEDKtr"
    assert canonicalize_account(text) == text


def test_an_account_on_an_evm_chain_needs_an_evm_address():
    with pytest.raises(ValueError, match="^not an EVM address: "):
        canonicalize_account("eip155:1:alice")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (f"eip155:8453/erc20:{USDC}", f"eip155:8453/erc20:{USDC.lower()}"),
        ("eip155:1/slip44:60", "eip155:1/slip44:60"),
        ("solana:abc/token:EPjFWdd5", "solana:abc/token:EPjFWdd5"),
    ],
)
def test_only_erc20_assets_compare_in_lower_case(written, canonical):
    assert canonicalize_asset(written) == canonical


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (canonicalize_account, f"eip155:1:{USDC.swapcase().replace('0X', '0x')}"),
        (canonicalize_asset, f"eip155:1/erc20:{USDC.swapcase().replace('0X', '0x')}"),
    ],
)
def test_name_with_a_wrong_checksum_is_refused_unless_the_check_is_off(read, text):
    with pytest.raises(ValueError, match="checksum"):
        read(text)
    assert read(text, checksum=False) == text.lower()
