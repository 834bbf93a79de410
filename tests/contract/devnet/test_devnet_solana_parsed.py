"""The embedded Solana chain takes accounts and transactions apart as nodes do: `jsonParsed`."""

from __future__ import annotations

import asyncio
import base64
import struct

import pytest
from florin_server.chains.solana import spl
from florin_server.devnet.solana import parsed
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
from tests.support.solana_kit import (
    GIFT,
    TOKEN,
    TOKEN_2022,
    NodeError,
    coin,
    opened,
    payment,
    place,
    wallet,
)

PARSED = {"encoding": "jsonParsed"}
BUYER, MERCHANT = wallet(1), wallet(3).pubkey()
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
    async with opened() as node:
        await node.fund(BUYER)
        yield node


# accounts


async def test_a_token_account_is_told_with_its_amount(node):
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
    told = await node.value("getAccountInfo", str(place(BUYER.pubkey())), PARSED)
    assert told["data"] == {
        "program": "spl-token",
        "parsed": {"type": "account", "info": owned},
        "space": 165,
    }
    assert (told["owner"], told["space"]) == (TOKEN.program, 165)
    wanted = {"mint": TOKEN.address}
    (listed,) = await node.value("getTokenAccountsByOwner", PAYER, wanted, PARSED)
    assert listed == {"pubkey": str(place(BUYER.pubkey())), "account": told}
    both = await node.value("getMultipleAccounts", [listed["pubkey"], PAYER], PARSED)
    assert both[0] == told
    # an account of a person holds no data to be taken apart
    assert both[1]["data"] == ["", "base64"]


async def test_an_account_of_the_newer_program_tells_what_it_was_given(node):
    address = str(place(BUYER.pubkey(), TOKEN_2022))
    told = (await node.value("getAccountInfo", address, PARSED))["data"]
    assert (told["program"], told["space"]) == ("spl-token-2022", 170)
    assert told["parsed"]["info"]["extensions"] == [{"extension": "immutableOwner"}]


async def test_a_mint_and_a_nonce_are_told(node):
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
    made = spl.create_nonce(BUYER.pubkey(), "one", rent)
    await node.send(await node.made([BUYER], *made))
    address = spl.nonce_address(BUYER.pubkey(), "one")
    told = (await node.value("getAccountInfo", str(address), PARSED))["data"]
    assert (told["program"], told["space"], told["parsed"]["type"]) == ("nonce", 80, "initialized")
    assert told["parsed"]["info"]["authority"] == PAYER
    assert told["parsed"]["info"]["feeCalculator"] == {"lamportsPerSignature": "5000"}
    assert Hash.from_string(told["parsed"]["info"]["blockhash"])


def test_whatever_a_token_account_may_say_is_told():
    mint, owner, other = (Pubkey([one] * 32) for one in (1, 2, 3))
    some = b"\x01\0\0\0"
    data = bytes(mint) + bytes(owner) + struct.pack("<Q", 7)
    data += some + bytes(other) + b"\x02" + some + struct.pack("<Q", 2_039_280)
    data += struct.pack("<Q", 5) + some + bytes(owner)
    found = parsed.account(Account(1, data, spl.TOKEN), lambda _: 2)
    info = found["parsed"]["info"]
    assert (info["state"], info["isNative"]) == ("frozen", True)
    assert (info["delegate"], info["closeAuthority"]) == (str(other), str(owner))
    assert info["delegatedAmount"]["uiAmountString"] == "0.05"
    assert info["rentExemptReserve"]["amount"] == "2039280"
    # without its mint nobody knows how much it holds
    assert parsed.account(Account(1, data, spl.TOKEN), lambda _: None) is None
    assert parsed.account(Account(1, b"\x01" * 165, Pubkey([9] * 32)), lambda _: 2) is None
    # what no 64 bits count has no number beside its text
    assert parsed.ui_amount(1, 20) == {
        "amount": "1",
        "decimals": 20,
        "uiAmount": None,
        "uiAmountString": "0.00000000000000000001",
    }


# transactions


@pytest.fixture
async def told_twice(node):
    """A payment's transaction, taken apart and as it was sent."""
    steps = [
        set_compute_unit_price(1000),
        *payment(BUYER, MERCHANT, PRICE),
        coin(BUYER, MERCHANT, 10**8),
        spl.memo("order-1001"),
    ]
    signature = await node.send(await node.made([BUYER], *steps))
    await node.fault("slots", slots=32)
    config = {**PARSED, "maxSupportedTransactionVersion": 0}
    told = await node.ask("getTransaction", signature, config)
    raw = await node.ask("getTransaction", signature, {**config, "encoding": "json"})
    assert told["transaction"]["signatures"] == [signature]
    return told, raw


async def test_a_payment_is_told_with_its_accounts(told_twice):
    told, raw = told_twice
    message = told["transaction"]["message"]
    source, dest = str(place(BUYER.pubkey())), str(place(MERCHANT))
    kept = {key: value for key, value in raw["meta"].items() if key != "loadedAddresses"}
    assert (told["meta"], told["version"]) == (kept, 0)
    assert set(message) == {
        "accountKeys",
        "recentBlockhash",
        "instructions",
        "addressTableLookups",
    }
    assert [one["pubkey"] for one in message["accountKeys"]] == raw["transaction"]["message"][
        "accountKeys"
    ]
    assert message["accountKeys"][0] == {
        "pubkey": PAYER,
        "writable": True,
        "signer": True,
        "source": "transaction",
    }
    writable = {one["pubkey"] for one in message["accountKeys"] if one["writable"]}
    assert writable == {PAYER, source, dest, str(MERCHANT)}
    assert [one["pubkey"] for one in message["accountKeys"] if one["signer"]] == [PAYER]


async def test_a_payment_is_told_instruction_by_instruction(told_twice):
    told, raw = told_twice
    source, dest = str(place(BUYER.pubkey())), str(place(MERCHANT))
    price, made, paid, given, noted = told["transaction"]["message"]["instructions"]
    # a program that nodes do not take apart
    assert price == {
        "programId": str(spl.COMPUTE_BUDGET),
        "accounts": [],
        "data": raw["transaction"]["message"]["instructions"][0]["data"],
        "stackHeight": 1,
    }
    assert made == {
        "program": "spl-associated-token-account",
        "programId": str(spl.ASSOCIATED),
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
    assert given["parsed"] == {
        "type": "transfer",
        "info": {"source": PAYER, "destination": str(MERCHANT), "lamports": 10**8},
    }
    assert (noted["program"], noted["parsed"]) == ("spl-memo", "order-1001")


async def test_a_nonces_transactions_are_told(node):
    nonce = spl.nonce_address(BUYER.pubkey(), "one")
    rent = await node.ask("getMinimumBalanceForRentExemption", spl.NONCE_BYTES)
    made = await node.send(await node.made([BUYER], *spl.create_nonce(BUYER.pubkey(), "one", rent)))
    used = await node.send(await node.made([BUYER], spl.advance_nonce(nonce, BUYER.pubkey())))
    await node.fault("slots", slots=32)
    config = {**PARSED, "maxSupportedTransactionVersion": 0}
    kinds = []
    for signature in (made, used):
        told = await node.ask("getTransaction", signature, config)
        kinds += [one["parsed"] for one in told["transaction"]["message"]["instructions"]]
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
        [coin(BUYER, MERCHANT, 10**8)], BUYER.pubkey(), await node.blockhash()
    )
    signed = Transaction([BUYER], message, message.recent_blockhash)
    signature = await node.send(base64.b64encode(bytes(signed)).decode())
    await node.fault("slots", slots=32)
    told = await node.ask("getTransaction", signature, "jsonParsed")
    assert told["version"] == "legacy"
    assert set(told["transaction"]["message"]) == {
        "accountKeys",
        "recentBlockhash",
        "instructions",
    }


KEYS = [Pubkey([number] * 32) for number in range(1, 6)]


def test_several_signers_stand_for_one_authority():
    told = parsed.instruction(spl.TOKEN, b"\x03" + struct.pack("<Q", 5), KEYS)
    assert told["parsed"] == {
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
        # a length that is far beyond the data
        (spl.SYSTEM, struct.pack("<I32sQ", 3, bytes(32), 2**63) + bytes(9), 3),
        (spl.SYSTEM, struct.pack("<I32sQ", 3, bytes(32), 2) + b"\xff\xff" + bytes(48), 3),
        (spl.TOKEN, b"", 3),
        (spl.TOKEN, b"\x0c\x01", 4),
        (spl.TOKEN, b"\x0c" + bytes(9), 3),
        (spl.TOKEN_2022, b"\xff", 3),
        (spl.ASSOCIATED, b"\x02", 6),
        (spl.ASSOCIATED, b"\x01", 5),
        (spl.MEMO, b"\xff\xfe", 0),
        (spl.LIGHTHOUSE, b"\x01", 1),
    ],
)
def test_what_is_not_whole_or_not_known_is_told_as_it_is(program, data, accounts):
    keys = [KEYS[0]] * accounts
    assert parsed.instruction(program, data, keys) is None


async def test_a_failed_transaction_with_nonsense_in_it_is_told(node):
    junk = Instruction(spl.TOKEN, b"\x0c\x01", [AccountMeta(BUYER.pubkey(), True, True)])
    signature = await node.send(await node.made([BUYER], junk), skipPreflight=True)
    await node.fault("slots", slots=32)
    config = {**PARSED, "maxSupportedTransactionVersion": 0}
    told = await node.ask("getTransaction", signature, config)
    assert told["meta"]["err"] is not None
    (one,) = told["transaction"]["message"]["instructions"]
    assert (one["programId"], one["accounts"]) == (str(spl.TOKEN), [PAYER])


async def test_a_trial_tells_its_accounts_taken_apart_if_asked(node):
    wire = await node.made([BUYER], *payment(BUYER, MERCHANT, PRICE))
    accounts = {"addresses": [str(place(MERCHANT))], **PARSED}
    told = await node.value(
        "simulateTransaction", wire, {"encoding": "base64", "accounts": accounts}
    )
    assert told["accounts"][0]["data"]["parsed"]["info"]["tokenAmount"] == AMOUNT
    bad = {**accounts, "encoding": "base58"}
    with pytest.raises(NodeError, match="encoding is one of"):
        await node.ask("simulateTransaction", wire, {"encoding": "base64", "accounts": bad})


# the libraries behind wallets


async def test_the_usual_python_library_reads_it(node):
    signature = await node.send(await node.made([BUYER], *payment(BUYER, MERCHANT, PRICE)))
    await node.fault("slots", slots=32)

    async def asked(question, kind):
        return kind.from_json((await node.chain.handle(question.to_json().encode())).decode())

    form = RpcAccountInfoConfig(UiAccountEncoding.JsonParsed)
    held = place(BUYER.pubkey())
    one = await asked(requests.GetAccountInfo(held, form), responses.GetAccountInfoJsonParsedResp)
    assert one.value.data.parsed["type"] == "account"
    by_mint = RpcTokenAccountsFilterMint(spl.pubkey(TOKEN.address))
    listed = await asked(
        requests.GetTokenAccountsByOwner(BUYER.pubkey(), by_mint, form),
        responses.GetTokenAccountsByOwnerJsonParsedResp,
    )
    assert [account.pubkey for account in listed.value] == [held]
    plain = RpcTransactionConfig(
        UiTransactionEncoding.JsonParsed, max_supported_transaction_version=0
    )
    found = await asked(
        requests.GetTransaction(Signature.from_string(signature), plain),
        responses.GetTransactionResp,
    )
    steps = found.value.transaction.transaction.message.instructions
    assert [step.parsed["type"] for step in steps] == [
        "createIdempotent",
        "transferChecked",
    ]


async def test_the_usual_javascript_library_reads_it(node):
    steps = [set_compute_unit_price(1), *payment(BUYER, MERCHANT, PRICE), spl.memo("tea")]
    signature = await node.send(await node.made([BUYER], *steps))
    await node.fault("slots", slots=32)
    given = {
        "url": f"http://127.0.0.1:{await node.chain.serve_http()}",
        "owner": PAYER,
        "mint": TOKEN.address,
        "held": str(place(BUYER.pubkey())),
        "signature": signature,
    }
    told = await asyncio.to_thread(javascript.run, WEB3, given)
    assert told == {
        "listed": [str(GIFT - PRICE)],
        "account": "account",
        "minted": 6,
        "several": [True, False],
        "kinds": [None, "createIdempotent", "transferChecked", "tea"],
        "signers": [PAYER],
    }
