"""Test the embedded Solana chain through the RPC of a cluster's node."""

from __future__ import annotations

import base64

import aiohttp
import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET, params
from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES, V1_BYTES
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.signature import Signature
from solders.transaction import Transaction, VersionedTransaction

from tests.support.solana_devnet import (
    GIFT,
    START_S,
    TOKEN,
    TOKEN_2022,
    SolanaNodeError,
    get_token_account,
    make_coin_transfer,
    make_payment,
    make_wallet,
    open_node,
)

BUYER, RELAYER, MERCHANT = make_wallet(1), make_wallet(2), make_wallet(3).pubkey()
SOL = spl.LAMPORTS_PER_SOL


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(BUYER, RELAYER)
        yield node


# ---- money


@pytest.mark.parametrize("token", [TOKEN, TOKEN_2022])
async def test_a_token_is_paid_to_an_account_that_did_not_exist(node, token):
    signature = await node.send(
        await node.make_transaction([BUYER], *make_payment(BUYER, MERCHANT, 5, token))
    )
    assert await node.tokens(MERCHANT, token) == 5
    assert await node.tokens(BUYER.pubkey(), token) == GIFT - 5
    result = await node.ask(
        "getTransaction",
        signature,
        {"commitment": "confirmed", "maxSupportedTransactionVersion": 0},
    )
    meta = result["meta"]
    keys = result["transaction"]["message"]["accountKeys"]
    spent = meta["preBalances"][0] - meta["postBalances"][0]
    size = 165 if token is TOKEN else 170  # Token-2022 records that the owner cannot change
    rent = await node.ask("getMinimumBalanceForRentExemption", size)
    assert (meta["fee"], spent) == (5000, 5000 + rent)
    before = {
        keys[pre_token_balance["accountIndex"]]: pre_token_balance
        for pre_token_balance in meta["preTokenBalances"]
    }
    after = {
        keys[post_token_balance["accountIndex"]]: post_token_balance
        for post_token_balance in meta["postTokenBalances"]
    }
    assert str(get_token_account(MERCHANT, token)) not in before
    got = after[str(get_token_account(MERCHANT, token))]
    assert (got["owner"], got["mint"], got["programId"]) == (
        str(MERCHANT),
        token.address,
        token.program,
    )
    assert got["uiTokenAmount"] == {
        "amount": "5",
        "decimals": 6,
        "uiAmount": 0.000005,
        "uiAmountString": "0.000005",
    }


async def test_the_faucet_gives_once_and_again_when_half_is_spent(node):
    assert await node.coin(BUYER.pubkey()) == SOL
    assert await node.tokens(BUYER.pubkey()) == GIFT
    assert (await node.fund(BUYER))["signatures"] == []
    await node.send(
        await node.make_transaction([BUYER], *make_payment(BUYER, MERCHANT, GIFT // 2 + 1))
    )
    assert len((await node.fund(BUYER))["signatures"]) == 1
    assert await node.tokens(BUYER.pubkey()) == GIFT


async def test_faucet_gives_the_requested_amounts(node):
    await node.fund(BUYER, lamports=3 * SOL, tokens=[TOKEN_2022.address], tokenUnits=GIFT + 7)
    assert await node.coin(BUYER.pubkey()) == 3 * SOL
    assert await node.tokens(BUYER.pubkey()) == GIFT
    assert await node.tokens(BUYER.pubkey(), TOKEN_2022) == GIFT + 7
    await node.ask("requestAirdrop", str(MERCHANT), SOL)
    await node.ask("requestAirdrop", str(MERCHANT), 77)
    assert await node.coin(MERCHANT) == SOL + 77


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accounts": "all"},
        {"accounts": ["0x12"]},
        {"accounts": [str(MERCHANT)] * 257},
        {"accounts": [str(MERCHANT)], "tokens": [str(MERCHANT)]},
        {"accounts": [str(MERCHANT)], "lamports": -1},
        {"accounts": [str(MERCHANT)], "amount": 1},
    ],
)
async def test_the_faucet_refuses_nonsense(node, options):
    with pytest.raises(SolanaNodeError) as refused:
        await node.ask("florin_faucet", options)
    assert refused.value.code == -32602


# ---- transactions that do not land


async def test_a_transaction_lands_once(node):
    wire = await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 2))
    signature = await node.send(wire)
    with pytest.raises(SolanaNodeError, match="already been processed"):
        await node.send(wire)
    # with skipPreflight the node accepts it, and nothing happens
    assert await node.send(wire, skipPreflight=True) == signature
    assert await node.coin(MERCHANT) == SOL // 2
    outcome = await node.value("simulateTransaction", wire, {"encoding": "base64"})
    assert outcome["err"] == "AlreadyProcessed"


async def test_a_blockhash_is_good_for_150_slots(node):
    wires = [
        await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 4 + n))
        for n in (1, 2)
    ]
    blockhash = str(await node.blockhash())
    await node.fault("slots", slots=150)
    assert await node.value("isBlockhashValid", blockhash, {"commitment": "processed"})
    await node.send(wires[0])
    assert not await node.value("isBlockhashValid", blockhash, {"commitment": "processed"})
    with pytest.raises(SolanaNodeError) as refused:
        await node.send(wires[1])
    assert refused.value.data["err"] == "BlockhashNotFound"
    await node.send(wires[1], skipPreflight=True)
    assert await node.coin(MERCHANT) == SOL // 4 + 1


async def test_the_first_blockhash_of_a_chain_is_good():
    async with open_node() as node:
        assert await node.ask("getSlot", {"commitment": "confirmed"}) == 0
        blockhash = str(await node.blockhash("confirmed"))
        assert await node.value("isBlockhashValid", blockhash, {"commitment": "processed"})


async def test_a_blockhash_is_unknown_to_older_states(node):
    blockhash = str(await node.blockhash())
    assert not await node.value("isBlockhashValid", blockhash)
    await node.fault("slots", slots=32)
    assert await node.value("isBlockhashValid", blockhash)
    assert not await node.value("isBlockhashValid", str(Hash.new_unique()))


async def test_unsigned_and_unreadable_transactions_are_refused(node):
    wire = await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, 1))
    raw = base64.b64decode(wire)
    broken = bytearray(raw)
    broken[5] ^= 1
    refusals = [
        (base64.b64encode(bytes(broken)).decode(), -32003),
        (base64.b64encode(raw + b"\0").decode(), -32602),
        (base64.b64encode(bytes(4097)).decode(), -32602),
        ("@", -32602),
        (7, -32602),
    ]
    for value, code in refusals:
        with pytest.raises(SolanaNodeError) as refused:
            await node.send(value)
        assert refused.value.code == code
    assert await node.coin(MERCHANT) == 0


async def test_failing_transaction_is_refused_in_preflight_and_pays_its_fee_if_sent(node):
    wire = await node.make_transaction([BUYER], *make_payment(BUYER, RELAYER.pubkey(), GIFT + 1))
    error = {"InstructionError": [1, {"Custom": 1}]}
    with pytest.raises(SolanaNodeError) as refused:
        await node.send(wire)
    assert (refused.value.code, refused.value.data["err"]) == (-32002, error)
    before = await node.coin(BUYER.pubkey())
    signature = await node.send(wire, skipPreflight=True)
    assert (await node.status(signature))["err"] == error
    assert await node.coin(BUYER.pubkey()) == before - 5000
    assert await node.tokens(BUYER.pubkey()) == GIFT


async def test_sender_without_funds_for_the_fee_leaves_no_trace(node):
    poor = Keypair()
    signature = await node.send(
        await node.make_transaction([poor], make_coin_transfer(poor, MERCHANT, 1)),
        skipPreflight=True,
    )
    assert await node.status(signature) is None


async def test_legacy_transactions_and_base58_are_taken_too(node):
    message = Message.new_with_blockhash(
        [make_coin_transfer(BUYER, MERCHANT, SOL // 2)], BUYER.pubkey(), await node.blockhash()
    )
    raw = bytes(Transaction([BUYER], message, message.recent_blockhash))
    text = str(Signature.default())  # any base58 of 64 bytes, to learn the zero digit
    assert text == "1" * 64
    signature = await node.ask("sendTransaction", base58(raw))
    result = await node.ask("getTransaction", signature, {"commitment": "confirmed"})
    assert result["version"] == "legacy"
    assert result["transaction"]["signatures"] == [signature]
    assert await node.coin(MERCHANT) == SOL // 2


def base58(raw: bytes) -> str:
    """The library that writes base58 only takes 32-byte keys; longer texts are joined here."""
    alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        text = alphabet[digit] + text
    return "1" * (len(raw) - len(raw.lstrip(b"\0"))) + text


# ---- simulations


async def test_a_trial_changes_nothing_and_shows_the_accounts_after_it(node):
    wire = await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 2))
    config = {
        "encoding": "base64",
        "sigVerify": True,
        "accounts": {"encoding": "base64", "addresses": [str(BUYER.pubkey()), str(MERCHANT)]},
    }
    answer = await node.ask("simulateTransaction", wire, config)
    # the slot of the call, as in every other answer
    assert answer["context"]["slot"] == await node.ask("getSlot")
    outcome = answer["value"]
    assert outcome["err"] is None
    assert outcome["unitsConsumed"] == 150
    lamports = [account["lamports"] for account in outcome["accounts"]]
    assert lamports == [SOL // 2 - 5000, SOL // 2]
    assert await node.coin(MERCHANT) == 0


async def test_a_trial_can_do_without_signatures_and_blockhash(node):
    message = MessageV0.try_compile(
        BUYER.pubkey(), [make_coin_transfer(BUYER, MERCHANT, SOL // 2)], [], Hash.new_unique()
    )
    unsigned = VersionedTransaction.populate(message, [Signature.default()])
    wire = base64.b64encode(bytes(unsigned)).decode()
    plain = {"encoding": "base64"}
    assert (await node.value("simulateTransaction", wire, plain))["err"] == "BlockhashNotFound"
    replaced = {**plain, "replaceRecentBlockhash": True}
    assert (await node.value("simulateTransaction", wire, replaced))["err"] is None
    for config, code in (({"sigVerify": True}, -32003), ({**replaced, "sigVerify": True}, -32602)):
        with pytest.raises(SolanaNodeError) as refused:
            await node.ask("simulateTransaction", wire, {**plain, **config})
        assert refused.value.code == code


# ---- commitment


async def test_a_transaction_gets_deeper_with_the_slots():
    async with open_node(slot_s=0.4, confirmed_slots=2, finalized_slots=5) as node:
        await node.fund(BUYER)
        signature = await node.send(
            await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 2))
        )
        result = []
        for _ in range(6):
            status = await node.status(signature)
            result.append((status["confirmationStatus"], status["confirmations"]))
            node.clock.advance(0.4)
        assert result == [
            ("processed", 0),
            ("processed", 1),
            ("confirmed", 2),
            ("confirmed", 3),
            ("confirmed", 4),
            ("finalized", None),
        ]


async def test_histories_return_only_sufficiently_deep_transactions():
    async with open_node(slot_s=0.4) as node:
        await node.fund(BUYER)
        wire = await node.make_transaction(
            [BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 2), spl.create_memo("for tea")
        )
        signature = await node.send(wire)
        confirmed = {"commitment": "confirmed", "maxSupportedTransactionVersion": 0}
        final = {**confirmed, "commitment": "finalized", "encoding": "base64"}
        assert await node.ask("getTransaction", signature, confirmed) is None
        node.clock.advance(0.4)
        assert (await node.ask("getTransaction", signature, confirmed))["blockTime"] == START_S
        assert await node.ask("getTransaction", signature, final) is None
        assert await node.ask("getSignaturesForAddress", str(MERCHANT)) == []
        node.clock.advance(31 * 0.4)
        assert (await node.ask("getTransaction", signature, final))["transaction"][0] == wire
        (listed,) = await node.ask("getSignaturesForAddress", str(MERCHANT))
        assert (listed["signature"], listed["memo"]) == (signature, "[7] for tea")
        with pytest.raises(SolanaNodeError) as refused:
            await node.ask("getTransaction", signature, {"commitment": "finalized"})
        assert refused.value.code == -32015


async def test_cluster_without_confirmed_refuses_it_wherever_it_can_be_named():
    async with open_node(confirmed_slots=None) as node:
        await node.fund(BUYER)
        wire = await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 2))
        name = str(MERCHANT)
        calls = [
            ("getSlot",),
            ("getBlockHeight",),
            ("getLatestBlockhash",),
            ("isBlockhashValid", str(await node.blockhash())),
            ("getMinimumBalanceForRentExemption", 0),
            ("getBalance", name),
            ("getAccountInfo", name),
            ("getMultipleAccounts", [name]),
            ("getSignaturesForAddress", name),
            ("getTransaction", str(Signature.default())),
            ("simulateTransaction", wire),
            ("requestAirdrop", name, SOL),
        ]
        for method, *values in calls:
            with pytest.raises(SolanaNodeError, match="unknown variant `confirmed`"):
                await node.ask(method, *values, {"commitment": "confirmed"})
        with pytest.raises(SolanaNodeError, match="unknown variant `confirmed`"):
            await node.send(wire, preflightCommitment="confirmed")
        signature = await node.send(wire)
        depths = []
        for _ in range(2):
            depths.append((await node.status(signature))["confirmationStatus"])
            await node.fault("slots", slots=32)
        assert depths == ["processed", "finalized"]


async def filled(node, length: int) -> list[Instruction]:
    """Return memos that make a transaction of the buyer exactly this long."""
    notes = [spl.create_memo("m" * 500) for _ in range(length // 600)]
    rest = length - len(
        base64.b64decode(await node.make_transaction([BUYER], *notes, spl.create_memo("")))
    )
    # a length above 127 bytes takes two bytes
    return [*notes, spl.create_memo("m" * (rest if rest < 128 else rest - 1))]


@pytest.mark.parametrize("encoding", ["base58", "base64"])
async def test_cluster_takes_transactions_of_version_0_up_to_a_packet(node, encoding):
    await node.fund(BUYER)
    for length in (PACKET_BYTES, PACKET_BYTES + 1, V1_BYTES + 100):
        wire = await node.make_transaction([BUYER], *await filled(node, length))
        raw = base64.b64decode(wire)
        assert len(raw) == length
        text = wire if encoding == "base64" else params.encode_base58(raw)
        sent = node.ask("sendTransaction", text, {"encoding": encoding, "skipPreflight": True})
        if length == PACKET_BYTES:
            await sent
            continue
        with pytest.raises(SolanaNodeError, match="too large") as refused:
            await sent
        assert refused.value.code == -32602


async def test_signatures_of_an_address_are_read_page_by_page(node):
    created = [
        await node.send(
            await node.make_transaction(
                [BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 100 + n)
            )
        )
        for n in range(5)
    ]
    await node.fault("slots", slots=32)

    async def page(**config) -> list[str]:
        listed = await node.ask("getSignaturesForAddress", str(MERCHANT), config)
        return [item["signature"] for item in listed]

    assert await page() == created[::-1]
    assert await page(limit=2, before=created[3]) == [created[2], created[1]]
    assert await page(until=created[3]) == [created[4]]


async def test_slots_pass_by_the_clock_and_on_demand():
    async with open_node(slot_s=0.4) as node:
        assert await node.ask("getSlot", {"commitment": "processed"}) == 1
        assert await node.ask("getSlot") == 0
        node.clock.advance(40)
        assert await node.ask("getSlot", {"commitment": "processed"}) == 101
        assert await node.ask("getBlockHeight", {"commitment": "confirmed"}) == 100
        assert await node.ask("getSlot") == 101 - 32
        assert await node.fault("slots", slots=9) == 110
        latest = await node.ask("getLatestBlockhash", {"commitment": "processed"})
        assert latest["context"]["slot"] == 110
        assert latest["value"]["lastValidBlockHeight"] == 260
        with pytest.raises(SolanaNodeError) as refused:
            await node.ask("getSlot", {"commitment": "processed", "minContextSlot": 111})
        assert refused.value.code == -32016


# ---- accounts


async def test_accounts_are_read_together_and_missing_ones_are_null(node):
    mint = await node.value("getAccountInfo", TOKEN_2022.address, {"encoding": "base64"})
    assert mint["owner"] == TOKEN_2022.program
    assert spl.parse_mint(base64.b64decode(mint["data"][0])) == spl.TokenMint(6, frozenset())
    requests = [str(BUYER.pubkey()), str(MERCHANT), str(get_token_account(BUYER.pubkey()))]
    cut = {"encoding": "base64", "dataSlice": {"offset": 64, "length": 8}}
    there, missing, held = await node.value("getMultipleAccounts", requests, cut)
    assert (there["lamports"], missing) == (SOL, None)
    assert base64.b64decode(held["data"][0]) == GIFT.to_bytes(8, "little")
    with pytest.raises(SolanaNodeError):
        await node.ask("getMultipleAccounts", requests * 34)
    balance = await node.value("getTokenAccountBalance", requests[2])
    assert balance["uiAmountString"] == "10000"
    with pytest.raises(SolanaNodeError, match="could not find account"):
        await node.ask("getTokenAccountBalance", str(get_token_account(MERCHANT)))


async def test_token_accounts_of_an_owner_are_returned(node):
    owner = str(BUYER.pubkey())
    for expected, pubkey in (
        ({"mint": TOKEN.address}, get_token_account(BUYER.pubkey())),
        ({"programId": TOKEN_2022.program}, get_token_account(BUYER.pubkey(), TOKEN_2022)),
    ):
        result = await node.value(
            "getTokenAccountsByOwner", owner, expected, {"encoding": "base64"}
        )
        assert [item["pubkey"] for item in result] == [str(pubkey)]


async def test_node_reports_health_version_genesis_hash_and_block_time(node):
    assert await node.ask("getHealth") == "ok"
    assert (await node.ask("getVersion"))["solana-core"]
    genesis = await node.ask("getGenesisHash")
    assert SOLANA_DEVNET.chain_id == f"solana:{genesis[:32]}"
    assert await node.ask("getBlockTime", 1) == START_S
    with pytest.raises(SolanaNodeError):
        await node.ask("getBlockTime", 10**6)
    with pytest.raises(SolanaNodeError) as refused:
        await node.ask("getClusterNodes")
    assert refused.value.code == -32601


# ---- HTTP


async def test_the_chain_answers_over_http(node):
    port = await node.chain.serve_http()
    calls = [{"jsonrpc": "2.0", "id": n, "method": "getHealth"} for n in (1, 2)]
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://127.0.0.1:{port}", json=calls) as answer,
    ):
        assert [item["result"] for item in await answer.json()] == ["ok", "ok"]
