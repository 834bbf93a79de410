"""Test that the embedded Solana chain parses accounts and transactions like nodes: `jsonParsed`."""

from __future__ import annotations

import asyncio
import base64
import struct

import pytest
from florin_sandbox.devnet.solana import parsed
from florin_server.domain.chains.solana import spl
from solders.account import Account
from solders.account_decoder import UiAccountEncoding
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.rpc import requests, responses
from solders.rpc.config import (
    RpcAccountInfoConfig,
    RpcTokenAccountsFilterMint,
    RpcTransactionConfig,
)
from solders.signature import Signature
from solders.transaction import Transaction
from solders.transaction_status import UiTransactionEncoding

from tests.support import javascript
from tests.support.solana_devnet import (
    GIFT,
    TOKEN,
    TOKEN_2022,
    SolanaNodeError,
    get_token_account,
    make_coin_transfer,
    make_payment,
    make_wallet,
    open_node,
)

PARSED = {"encoding": "jsonParsed"}
BUYER, MERCHANT = make_wallet(1), make_wallet(3).pubkey()
PAYER = str(BUYER.pubkey())
PRICE = 12_500_000
AMOUNT = {"amount": "12500000", "decimals": 6, "uiAmount": 12.5, "uiAmountString": "12.5"}
WEB3 = """
import { Connection, PublicKey } from '@solana/web3.js';
let text = '';
for await (const piece of process.stdin) text += piece;
const { url, owner, mint, held, signature } = JSON.parse(text);
const node = new Connection(url, 'confirmed');
const listed = await node.getParsedTokenAccountsByOwner(
  new PublicKey(owner), { mint: new PublicKey(mint) });
const account = await node.getParsedAccountInfo(new PublicKey(held));
const minted = await node.getParsedAccountInfo(new PublicKey(mint));
const keys = [held, owner].map((one) => new PublicKey(one));
const several = await node.getMultipleParsedAccounts(keys);
const paid = await node.getParsedTransaction(signature, { maxSupportedTransactionVersion: 0 });
console.log(JSON.stringify({
  listed: listed.value.map((one) => one.account.data.parsed.info.tokenAmount.amount),
  account: account.value.data.parsed.type,
  minted: minted.value.data.parsed.info.decimals,
  several: several.value.map((one) => 'parsed' in one.data),
  kinds: paid.transaction.message.instructions.map((one) => one.parsed?.type ?? one.parsed ?? null),
  signers: paid.transaction.message.accountKeys.filter((one) => one.signer)
    .map((one) => one.pubkey.toBase58()),
}));
"""


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(BUYER)
        yield node


# accounts


async def test_parsed_token_account_shows_its_amount(node):
    owned = {
        "mint": TOKEN.address,
        "owner": PAYER,
        "tokenAmount": {
            "amount": str(GIFT),
            "decimals": 6,
            "uiAmount": 10_000.0,
            "uiAmountString": "10000",
        },
        "state": "initialized",
        "isNative": False,
    }
    result = await node.value("getAccountInfo", str(get_token_account(BUYER.pubkey())), PARSED)
    assert result["data"] == {
        "program": "spl-token",
        "parsed": {"type": "account", "info": owned},
        "space": 165,
    }
    assert (result["owner"], result["space"]) == (TOKEN.program, 165)
    expected = {"mint": TOKEN.address}
    (listed,) = await node.value("getTokenAccountsByOwner", PAYER, expected, PARSED)
    assert listed == {"pubkey": str(get_token_account(BUYER.pubkey())), "account": result}
    both = await node.value("getMultipleAccounts", [listed["pubkey"], PAYER], PARSED)
    assert both[0] == result
    # a person's account has no data to parse
    assert both[1]["data"] == ["", "base64"]


async def test_parsed_token_2022_account_shows_its_extensions(node):
    address = str(get_token_account(BUYER.pubkey(), TOKEN_2022))
    data = (await node.value("getAccountInfo", address, PARSED))["data"]
    assert (data["program"], data["space"]) == ("spl-token-2022", 170)
    assert data["parsed"]["info"]["extensions"] == [{"extension": "immutableOwner"}]


async def test_parsed_mint_and_nonce_show_their_fields(node):
    minted = (await node.value("getAccountInfo", TOKEN.address, PARSED))["data"]
    info = minted["parsed"]["info"]
    assert (minted["program"], minted["parsed"]["type"], minted["space"]) == (
        "spl-token",
        "mint",
        82,
    )
    assert (info["decimals"], info["isInitialized"], info["freezeAuthority"]) == (6, True, None)
    assert info["supply"] == str(GIFT)
    assert Pubkey.from_string(info["mintAuthority"])
    rent = await node.ask("getMinimumBalanceForRentExemption", spl.NONCE_BYTES)
    nonce = spl.create_nonce(BUYER.pubkey(), "one", rent)
    await node.send(await node.make_transaction([BUYER], *nonce))
    address = spl.derive_nonce_address(BUYER.pubkey(), "one")
    data = (await node.value("getAccountInfo", str(address), PARSED))["data"]
    assert (data["program"], data["space"], data["parsed"]["type"]) == ("nonce", 80, "initialized")
    assert data["parsed"]["info"]["authority"] == PAYER
    assert data["parsed"]["info"]["feeCalculator"] == {"lamportsPerSignature": "5000"}
    assert Hash.from_string(data["parsed"]["info"]["blockhash"])


def test_parsed_token_account_shows_every_optional_field():
    mint, owner, other = (Pubkey([item] * 32) for item in (1, 2, 3))
    items = b"\x01\0\0\0"
    data = bytes(mint) + bytes(owner) + struct.pack("<Q", 7)
    data += items + bytes(other) + b"\x02" + items + struct.pack("<Q", 2_039_280)
    data += struct.pack("<Q", 5) + items + bytes(owner)
    account = parsed.parse_account(Account(1, data, spl.TOKEN), lambda _: 2)
    info = account["parsed"]["info"]
    assert (info["state"], info["isNative"]) == ("frozen", True)
    assert (info["delegate"], info["closeAuthority"]) == (str(other), str(owner))
    assert info["delegatedAmount"]["uiAmountString"] == "0.05"
    assert info["rentExemptReserve"]["amount"] == "2039280"
    # without its mint its amount is unknown
    assert parsed.parse_account(Account(1, data, spl.TOKEN), lambda _: None) is None
    assert parsed.parse_account(Account(1, b"\x01" * 165, Pubkey([9] * 32)), lambda _: 2) is None
    # an amount above 64 bits has no number next to its text
    assert parsed.format_ui_amount(1, 20) == {
        "amount": "1",
        "decimals": 20,
        "uiAmount": None,
        "uiAmountString": "0.00000000000000000001",
    }


# transactions


@pytest.fixture
async def parsed_twice(node):
    """Return a payment's transaction, parsed and as it was sent."""
    steps = [
        set_compute_unit_price(1000),
        *make_payment(BUYER, MERCHANT, PRICE),
        make_coin_transfer(BUYER, MERCHANT, 10**8),
        spl.create_memo("order-1001"),
    ]
    signature = await node.send(await node.make_transaction([BUYER], *steps))
    await node.fault("slots", slots=32)
    config = {**PARSED, "maxSupportedTransactionVersion": 0}
    result = await node.ask("getTransaction", signature, config)
    raw = await node.ask("getTransaction", signature, {**config, "encoding": "json"})
    assert result["transaction"]["signatures"] == [signature]
    return result, raw


async def test_parsed_payment_lists_its_accounts(parsed_twice):
    result, raw = parsed_twice
    message = result["transaction"]["message"]
    source, dest = str(get_token_account(BUYER.pubkey())), str(get_token_account(MERCHANT))
    stored = {key: value for key, value in raw["meta"].items() if key != "loadedAddresses"}
    assert (result["meta"], result["version"]) == (stored, 0)
    assert set(message) == {
        "accountKeys",
        "recentBlockhash",
        "instructions",
        "addressTableLookups",
    }
    assert [account_key["pubkey"] for account_key in message["accountKeys"]] == raw["transaction"][
        "message"
    ]["accountKeys"]
    assert message["accountKeys"][0] == {
        "pubkey": PAYER,
        "writable": True,
        "signer": True,
        "source": "transaction",
    }
    writable = {
        account_key["pubkey"] for account_key in message["accountKeys"] if account_key["writable"]
    }
    assert writable == {PAYER, source, dest, str(MERCHANT)}
    assert [
        account_key["pubkey"] for account_key in message["accountKeys"] if account_key["signer"]
    ] == [PAYER]


async def test_parsed_payment_lists_each_instruction(parsed_twice):
    result, raw = parsed_twice
    source, dest = str(get_token_account(BUYER.pubkey())), str(get_token_account(MERCHANT))
    price, created, paid, value, noted = result["transaction"]["message"]["instructions"]
    # a program that nodes do not parse
    assert price == {
        "programId": str(spl.COMPUTE_BUDGET),
        "accounts": [],
        "data": raw["transaction"]["message"]["instructions"][0]["data"],
        "stackHeight": 1,
    }
    assert created == {
        "program": "spl-associated-token-account",
        "programId": str(spl.ASSOCIATED_TOKEN),
        "parsed": {
            "type": "createIdempotent",
            "info": {
                "source": PAYER,
                "account": dest,
                "wallet": str(MERCHANT),
                "mint": TOKEN.address,
                "systemProgram": str(spl.SYSTEM),
                "tokenProgram": TOKEN.program,
            },
        },
        "stackHeight": 1,
    }
    assert paid["parsed"] == {
        "type": "transferChecked",
        "info": {
            "source": source,
            "mint": TOKEN.address,
            "destination": dest,
            "tokenAmount": AMOUNT,
            "authority": PAYER,
        },
    }
    assert (paid["program"], paid["programId"]) == ("spl-token", TOKEN.program)
    assert value["parsed"] == {
        "type": "transfer",
        "info": {"source": PAYER, "destination": str(MERCHANT), "lamports": 10**8},
    }
    assert (noted["program"], noted["parsed"]) == ("spl-memo", "order-1001")


async def test_nonce_transactions_are_parsed(node):
    nonce = spl.derive_nonce_address(BUYER.pubkey(), "one")
    rent = await node.ask("getMinimumBalanceForRentExemption", spl.NONCE_BYTES)
    created_created = await node.send(
        await node.make_transaction([BUYER], *spl.create_nonce(BUYER.pubkey(), "one", rent))
    )
    used = await node.send(
        await node.make_transaction([BUYER], spl.advance_nonce(nonce, BUYER.pubkey()))
    )
    await node.fault("slots", slots=32)
    config = {**PARSED, "maxSupportedTransactionVersion": 0}
    kinds = []
    for signature in (created_created, used):
        result = await node.ask("getTransaction", signature, config)
        kinds += [
            instruction["parsed"]
            for instruction in result["transaction"]["message"]["instructions"]
        ]
    created, initialized, advanced = kinds
    assert created["type"] == "createAccountWithSeed"
    assert created["info"] == {
        "source": PAYER,
        "newAccount": str(nonce),
        "base": PAYER,
        "seed": "one",
        "lamports": rent,
        "space": 80,
        "owner": str(spl.SYSTEM),
    }
    assert (initialized["type"], initialized["info"]["nonceAuthority"]) == (
        "initializeNonce",
        PAYER,
    )
    assert advanced["type"] == "advanceNonce"
    assert advanced["info"]["nonceAccount"] == str(nonce)
    assert advanced["info"]["recentBlockhashesSysvar"].startswith("SysvarRecent")


async def test_older_messages_have_no_tables(node):
    message = Message.new_with_blockhash(
        [make_coin_transfer(BUYER, MERCHANT, 10**8)], BUYER.pubkey(), await node.blockhash()
    )
    signed = Transaction([BUYER], message, message.recent_blockhash)
    signature = await node.send(base64.b64encode(bytes(signed)).decode())
    await node.fault("slots", slots=32)
    result = await node.ask("getTransaction", signature, "jsonParsed")
    assert result["version"] == "legacy"
    assert set(result["transaction"]["message"]) == {
        "accountKeys",
        "recentBlockhash",
        "instructions",
    }


KEYS = [Pubkey([number] * 32) for number in range(1, 6)]


def test_multisig_authority_is_parsed_with_its_signers():
    instruction = parsed.parse_instruction(spl.TOKEN, b"\x03" + struct.pack("<Q", 5), KEYS)
    assert instruction["parsed"] == {
        "type": "transfer",
        "info": {
            "source": str(KEYS[0]),
            "destination": str(KEYS[1]),
            "amount": "5",
            "multisigAuthority": str(KEYS[2]),
            "signers": [str(KEYS[3]), str(KEYS[4])],
        },
    }


@pytest.mark.parametrize(
    ("program", "data", "accounts"),
    [
        (spl.SYSTEM, b"", 2),
        (spl.SYSTEM, b"\x02\0\0\0\x01", 2),
        (spl.SYSTEM, struct.pack("<IQ", 2, 1), 1),
        (spl.SYSTEM, struct.pack("<I", 99), 2),
        # a length far beyond the data
        (spl.SYSTEM, struct.pack("<I32sQ", 3, bytes(32), 2**63) + bytes(9), 3),
        (spl.SYSTEM, struct.pack("<I32sQ", 3, bytes(32), 2) + b"\xff\xff" + bytes(48), 3),
        (spl.TOKEN, b"", 3),
        (spl.TOKEN, b"\x0c\x01", 4),
        (spl.TOKEN, b"\x0c" + bytes(9), 3),
        (spl.TOKEN_2022, b"\xff", 3),
        (spl.ASSOCIATED_TOKEN, b"\x02", 6),
        (spl.ASSOCIATED_TOKEN, b"\x01", 5),
        (spl.MEMO, b"\xff\xfe", 0),
        (spl.LIGHTHOUSE, b"\x01", 1),
    ],
)
def test_incomplete_or_unsupported_instruction_is_not_parsed(program, data, accounts):
    keys = [KEYS[0]] * accounts
    assert parsed.parse_instruction(program, data, keys) is None


async def test_failed_transaction_with_malformed_instruction_is_returned_unparsed(node):
    junk = Instruction(spl.TOKEN, b"\x0c\x01", [AccountMeta(BUYER.pubkey(), True, True)])
    signature = await node.send(await node.make_transaction([BUYER], junk), skipPreflight=True)
    await node.fault("slots", slots=32)
    config = {**PARSED, "maxSupportedTransactionVersion": 0}
    result = await node.ask("getTransaction", signature, config)
    assert result["meta"]["err"] is not None
    (item,) = result["transaction"]["message"]["instructions"]
    assert (item["programId"], item["accounts"]) == (str(spl.TOKEN), [PAYER])


async def test_simulation_returns_parsed_accounts_on_request(node):
    wire = await node.make_transaction([BUYER], *make_payment(BUYER, MERCHANT, PRICE))
    accounts = {"addresses": [str(get_token_account(MERCHANT))], **PARSED}
    result = await node.value(
        "simulateTransaction", wire, {"encoding": "base64", "accounts": accounts}
    )
    assert result["accounts"][0]["data"]["parsed"]["info"]["tokenAmount"] == AMOUNT
    bad = {**accounts, "encoding": "base58"}
    with pytest.raises(SolanaNodeError, match="encoding is one of"):
        await node.ask("simulateTransaction", wire, {"encoding": "base64", "accounts": bad})


# the libraries behind wallets


async def test_the_usual_python_library_reads_it(node):
    signature = await node.send(
        await node.make_transaction([BUYER], *make_payment(BUYER, MERCHANT, PRICE))
    )
    await node.fault("slots", slots=32)

    async def send_request(request, kind):
        return kind.from_json((await node.chain.handle(request.to_json().encode())).decode())

    form = RpcAccountInfoConfig(UiAccountEncoding.JsonParsed)
    held = get_token_account(BUYER.pubkey())
    item = await send_request(
        requests.GetAccountInfo(held, form), responses.GetAccountInfoJsonParsedResp
    )
    assert item.value.data.parsed["type"] == "account"
    by_mint = RpcTokenAccountsFilterMint(spl.parse_pubkey(TOKEN.address))
    listed = await send_request(
        requests.GetTokenAccountsByOwner(BUYER.pubkey(), by_mint, form),
        responses.GetTokenAccountsByOwnerJsonParsedResp,
    )
    assert [account.pubkey for account in listed.value] == [held]
    plain = RpcTransactionConfig(
        UiTransactionEncoding.JsonParsed, max_supported_transaction_version=0
    )
    result = await send_request(
        requests.GetTransaction(Signature.from_string(signature), plain),
        responses.GetTransactionResp,
    )
    steps = result.value.transaction.transaction.message.instructions
    assert [step.parsed["type"] for step in steps] == [
        "createIdempotent",
        "transferChecked",
    ]


async def test_the_usual_javascript_library_reads_it(node):
    steps = [
        set_compute_unit_price(1),
        *make_payment(BUYER, MERCHANT, PRICE),
        spl.create_memo("tea"),
    ]
    signature = await node.send(await node.make_transaction([BUYER], *steps))
    await node.fault("slots", slots=32)
    values = {
        "url": f"http://127.0.0.1:{await node.chain.serve_http()}",
        "owner": PAYER,
        "mint": TOKEN.address,
        "held": str(get_token_account(BUYER.pubkey())),
        "signature": signature,
    }
    thread = await asyncio.to_thread(javascript.run_script, WEB3, values)
    assert thread == {
        "listed": [str(GIFT - PRICE)],
        "account": "account",
        "minted": 6,
        "several": [True, False],
        "kinds": [None, "createIdempotent", "transferChecked", "tea"],
        "signers": [PAYER],
    }
