"""Test that the embedded chain answers like an Ethereum node."""

from __future__ import annotations

import json

import pytest
from eth_account import Account
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.evm.block_rules import BlockRules
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.base.clock import TestClock
from web3 import AsyncHTTPProvider, AsyncWeb3
from web3.exceptions import ContractLogicError

from tests.support.artifacts import load_abi
from tests.support.evm_devnet import (
    ETHER,
    FAUCET,
    GWEI,
    MERCHANT,
    START_S,
    EvmNodeError,
    encode_call,
    make_account,
    make_payment,
    open_node,
    sign_transaction,
)

RELAYER = make_account(2)
BUYER = make_account(4)
TOKEN = DEVNET.token.address


@pytest.fixture
async def node():
    async with open_node() as node:
        yield node


async def test_every_chain_begins_the_same():
    async with open_node() as this_node, open_node() as other:
        block = await this_node.ask("eth_getBlockByNumber", "earliest", False)
        assert block == await other.ask("eth_getBlockByNumber", "earliest", False)
        assert block["timestamp"] == hex(START_S)
        assert await this_node.ask("eth_chainId") == hex(DEVNET.chain_id)
        assert await this_node.ask("eth_getCode", DEVNET.settler) == (
            "0x" + load_artifact("PaySettler").runtime.hex()
        )


async def test_contracts_have_fixed_addresses_for_any_chain_id_and_seed():
    async with open_node(chain_id=84532, seed=9) as node, open_node() as usual:
        assert await node.ask("eth_chainId") == hex(84532)
        assert await node.ask("net_version") == "84532"
        assert len(await node.ask("eth_getCode", DEVNET.settler)) > 1000
        first = await node.ask("eth_getBlockByNumber", "0x0", False)
        assert first["hash"] != (await usual.ask("eth_getBlockByNumber", "0x0", False))["hash"]


async def test_token_returns_its_metadata(node):
    token = DEVNET.token
    for call, expected in (("name()", token.name), ("symbol()", token.symbol), ("version()", "2")):
        answer = await node.ask("eth_call", {"to": TOKEN, "data": encode_call(call)}, "latest")
        length = int(answer[66:130], 16)
        assert bytes.fromhex(answer[130 : 130 + 2 * length]).decode() == expected
    assert await node.read(TOKEN, "decimals()") == token.decimals


async def test_web3_works_over_http(node):
    port = await node.chain.serve_http()
    web3 = AsyncWeb3(AsyncHTTPProvider(f"http://127.0.0.1:{port}"))
    try:
        assert await web3.is_connected()
        await node.fund(RELAYER.address)
        token = web3.eth.contract(
            address=web3.to_checksum_address(TOKEN), abi=load_abi("TestDollar")
        )
        before = await token.functions.balanceOf(RELAYER.address).call()
        move = token.functions.transfer(web3.to_checksum_address(MERCHANT), 5)
        transaction = await move.build_transaction(
            {
                "from": RELAYER.address,
                "nonce": await web3.eth.get_transaction_count(RELAYER.address),
            }
        )
        raw = RELAYER.sign_transaction(transaction).raw_transaction
        receipt = await web3.eth.wait_for_transaction_receipt(
            await web3.eth.send_raw_transaction(raw), poll_latency=0.01
        )
        assert receipt.status == 1
        assert await token.functions.balanceOf(RELAYER.address).call() == before - 5
        (log,) = token.events.Transfer().process_receipt(receipt)
        assert log.args.value == 5
        logs = await token.events.Transfer().get_logs(from_block=receipt.blockNumber)
        assert [each_log.args.value for each_log in logs] == [5]
        with pytest.raises(ContractLogicError, match="balance too small"):
            await token.functions.transfer(RELAYER.address, before).call({"from": RELAYER.address})
        assert len(await web3.eth.get_block_receipts("latest")) == 1
        block = await web3.eth.get_block("latest", full_transactions=True)
        assert block.transactions[0].hash == receipt.transactionHash
        mined = await web3.eth.get_transaction(receipt.transactionHash)
        assert mined["input"].to_0x_hex() == transaction["data"]
        assert len((await web3.eth.fee_history(4, "latest", [50])).baseFeePerGas) >= 2
    finally:
        await web3.provider.disconnect()


async def test_a_batch_is_answered_in_order_and_notifications_are_not(node):
    calls = [
        {"jsonrpc": "2.0", "id": "a", "method": "eth_chainId"},
        {"jsonrpc": "2.0", "method": "eth_chainId"},
        {"jsonrpc": "2.0", "id": 2, "method": "eth_nonsense", "params": []},
    ]
    answers = json.loads(await node.chain.handle(json.dumps(calls).encode()))
    assert [answer["id"] for answer in answers] == ["a", 2]
    assert answers[0]["result"] == hex(DEVNET.chain_id)
    assert answers[1]["error"]["code"] == -32601
    assert await node.chain.handle(json.dumps(calls[1]).encode()) == b""


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"{", -32700),
        (b"[]", -32600),
        (b"7", -32600),
        (b'{"id": 1}', -32600),
        (b'{"id": 1, "method": "eth_getBalance"}', -32602),
        (b'{"id": 1, "method": "eth_getBalance", "params": ["0x12"]}', -32602),
        (b'{"id": 1, "method": "eth_getBalance", "params": {}}', -32602),
        (b'{"id": 1, "method": "eth_chainId", "params": [1]}', -32602),
        (b'{"id": 1, "method": "eth_getBlockByNumber", "params": ["0xzz"]}', -32602),
        (b'{"id": 1, "method": "eth_call", "params": [{"to": 7}]}', -32602),
        (b'{"id": 1, "method": "eth_call", "params": [{"accessList": [1]}]}', -32602),
        (b'{"id": 1, "method": "eth_call", "params": [{}, "latest", {"0x": {}}]}', -32602),
        (b'{"id": 1, "method": "eth_getLogs", "params": [{"topics": "0x"}]}', -32602),
        (b'{"id": 1, "method": "eth_sendRawTransaction", "params": ["0x02c0"]}', -32000),
        (b'{"id": 1, "method": "eth_sendRawTransaction", "params": ["0x"]}', -32000),
        (b'{"id": 1, "method": "eth_sendRawTransaction", "params": ["0x03c0"]}', -32000),
        (b'{"id": 1, "method": "eth_call", "params": [{}, "0x99"]}', -32000),
    ],
)
async def test_nonsense_gets_an_error_and_the_node_stays_up(node, payload, code):
    answer = json.loads(await node.chain.handle(payload))
    assert answer["error"]["code"] == code, answer
    assert await node.number() == 0


async def test_tags_name_blocks(node):
    await node.mine(10)
    numbers = {"earliest": 0, "finalized": 4, "safe": 8, "latest": 10, "0x7": 7}
    for tag, number in numbers.items():
        block = await node.ask("eth_getBlockByNumber", tag, False)
        assert block["number"] == hex(number)
        assert await node.ask("eth_getBlockByHash", block["hash"], False) == block
    pending = await node.ask("eth_getBlockByNumber", "pending", False)
    assert (pending["number"], pending["hash"]) == ("0xb", None)
    assert await node.ask("eth_getBlockByNumber", "0xb", False) is None
    assert await node.ask("eth_getBlockReceipts", "0xb") is None
    assert await node.ask("eth_getTransactionReceipt", "0x" + "12" * 32) is None


async def test_blocks_form_a_chain_and_keep_the_clocks_time(node):
    node.clock.advance(5)
    await node.mine()
    await node.mine()
    first, second, third = [
        await node.ask("eth_getBlockByNumber", hex(number), False) for number in range(3)
    ]
    assert (second["parentHash"], third["parentHash"]) == (first["hash"], second["hash"])
    times = [int(block["timestamp"], 16) for block in (first, second, third)]
    assert times == [START_S, START_S + 5, START_S + 5]


async def test_recent_states_can_be_read_and_old_ones_are_pruned(node):
    await node.fund(BUYER.address)
    await node.fund(RELAYER.address)
    item = make_payment(BUYER, 1)
    await node.mine(3)
    await node.settle(RELAYER, item)
    settled = await node.number()
    await node.mine(100)
    block = hex(settled - 1)
    assert await node.tokens(MERCHANT) == await node.tokens(MERCHANT, hex(settled)) == 5_000_000
    assert await node.tokens(MERCHANT, block) == 0
    assert await node.ask("eth_getTransactionCount", RELAYER.address, block) == "0x0"
    assert await node.ask("eth_getBalance", RELAYER.address, block) == hex(ETHER)
    by_hash = (await node.ask("eth_getBlockByNumber", block, False))["hash"]
    assert await node.tokens(MERCHANT, {"blockHash": by_hash}) == 0
    assert await node.ask("eth_getBalance", RELAYER.address, "0x0") == "0x0"
    await node.mine(50)
    with pytest.raises(EvmNodeError, match=r"the state after block 0 is pruned"):
        await node.tokens(MERCHANT, "earliest")
    assert await node.tokens(MERCHANT) == 5_000_000


async def test_code_sees_the_block_it_is_called_at(node):
    # returns NUMBER and TIMESTAMP
    clock = await node.deploy(bytes.fromhex("435f52426020526040" + "5ff3"))
    deployed = await node.number()
    node.clock.advance(1)
    await node.mine()
    node.clock.advance(100)

    async def at(tag: str) -> tuple[int, int]:
        answer = (await node.ask("eth_call", {"to": clock}, tag))[2:]
        return int(answer[:64], 16) - deployed, int(answer[64:], 16) - START_S

    assert await at(hex(deployed)) == (0, 0)
    assert await at(hex(deployed + 1)) == (1, 1)
    assert await at("latest") == (1, 101)
    assert await at("pending") == (2, 101)


async def test_code_reads_the_gas_price_and_the_remaining_balance(node):
    # returns GASPRICE and the ORIGIN's BALANCE
    meter = await node.deploy(bytes.fromhex("3a5f523231602052" + "60405ff3"))
    await node.fund(BUYER.address)
    coin = int(await node.ask("eth_getBalance", BUYER.address, "latest"), 16)
    block = await node.ask("eth_getBlockByNumber", "pending", False)
    base_fee = int(block["baseFeePerGas"], 16)

    async def seen(**fees: int) -> tuple[int, int]:
        call = {"from": BUYER.address, "to": meter, "gas": hex(100_000)}
        result = {name: hex(fee) for name, fee in fees.items()}
        answer = (await node.ask("eth_call", {**call, **result}, "pending"))[2:]
        return int(answer[:64], 16), coin - int(answer[64:], 16)

    assert await seen() == (0, 0)
    price = base_fee + 7
    assert await seen(maxFeePerGas=2 * price, maxPriorityFeePerGas=7) == (price, 100_000 * price)
    assert await seen(gasPrice=price) == (price, 100_000 * price)
    with pytest.raises(EvmNodeError, match="less than block base fee"):
        await seen(maxFeePerGas=base_fee - 1)
    with pytest.raises(EvmNodeError, match="higher than max fee"):
        await seen(maxFeePerGas=base_fee, maxPriorityFeePerGas=base_fee + 1)
    with pytest.raises(EvmNodeError, match="insufficient funds for gas"):
        await seen(maxFeePerGas=coin)
    with pytest.raises(EvmNodeError, match="both gasPrice and"):
        await seen(gasPrice=price, maxFeePerGas=price)


async def test_logs_are_filtered_by_block_address_and_topic(node):
    await node.fund(BUYER.address, RELAYER.address)
    await node.settle(RELAYER, make_payment(BUYER, 1))
    await node.settle(RELAYER, make_payment(BUYER, 2), make_payment(BUYER, 3))
    head = await node.number()
    everything = await node.ask("eth_getLogs", {"fromBlock": "earliest", "toBlock": "latest"})
    settler = {"fromBlock": "0x0", "address": [DEVNET.settler]}
    paid = await node.ask("eth_getLogs", settler)
    assert len(everything) > len(paid) == 3
    topic = paid[0]["topics"][0]
    assert len(await node.ask("eth_getLogs", settler | {"fromBlock": hex(head)})) == 2
    assert await node.ask("eth_getLogs", {"blockHash": paid[0]["blockHash"]})
    expected = [[topic], ["0x" + "00" * 31 + "02", "0x" + "00" * 31 + "03"]]
    assert await node.ask("eth_getLogs", settler | {"topics": expected}) == paid[1:]
    assert await node.ask("eth_getLogs", settler | {"topics": [None, None, None, None]}) == paid
    assert await node.ask("eth_getLogs", settler | {"topics": ["0x" + "00" * 32]}) == []
    assert await node.ask("eth_getLogs", {"fromBlock": hex(head + 1)}) == []
    block = await node.ask("eth_getBlockByNumber", hex(head), False)
    assert int(block["logsBloom"], 16) > 0


async def test_receipts_of_a_block_are_those_of_its_transactions(node):
    await node.ask("florin_fault", {"kind": "mining", "paused": True})
    await node.fund(RELAYER.address)
    hashes = [await node.send(RELAYER, MERCHANT, "0x", value=1, nonce=n) for n in range(3)]
    assert (await node.ask("eth_getTransactionByHash", hashes[0]))["blockHash"] is None
    await node.mine()
    receipts = await node.ask("eth_getBlockReceipts", "latest")
    assert [receipt["transactionHash"] for receipt in receipts] == hashes
    assert [int(receipt["cumulativeGasUsed"], 16) for receipt in receipts] == [
        21_000,
        42_000,
        63_000,
    ]
    block = await node.ask("eth_getBlockByNumber", "latest", True)
    assert [transaction["hash"] for transaction in block["transactions"]] == hashes
    assert await node.ask("eth_getTransactionByHash", hashes[1]) == block["transactions"][1]


async def test_fee_history_returns_the_base_fee_of_each_block(node):
    await node.mine(2)
    await node.ask("florin_fault", {"kind": "baseFee", "wei": hex(40 * GWEI)})
    await node.mine()
    history = await node.ask("eth_feeHistory", "0x3", "latest", [10, 90])
    assert history["oldestBlock"] == "0x1"
    fees = [int(fee, 16) // GWEI for fee in history["baseFeePerGas"]]
    assert fees == [1, 1, 40, 40]
    assert len(history["reward"]) == 3
    assert int(await node.ask("eth_gasPrice"), 16) == 41 * GWEI


async def test_a_legacy_transaction_with_a_chain_id_is_taken(node):
    nonce = int(await node.ask("eth_getTransactionCount", FAUCET.address, "latest"), 16)
    fields = {"nonce": nonce, "gasPrice": 2 * GWEI, "gas": 21_000, "to": BUYER.address, "value": 1}
    raw = FAUCET.sign_transaction(fields | {"chainId": DEVNET.chain_id}).raw_transaction
    sent = await node.ask("eth_sendRawTransaction", "0x" + bytes(raw).hex())
    assert (await node.receipt(sent))["status"] == "0x1"
    view = await node.ask("eth_getTransactionByHash", sent)
    assert (view["type"], view["gasPrice"]) == ("0x0", hex(2 * GWEI))
    assert Account.recover_transaction(bytes(raw)) == FAUCET.address
    unprotected = FAUCET.sign_transaction(fields).raw_transaction
    with pytest.raises(EvmNodeError, match="replay-protected"):
        await node.ask("eth_sendRawTransaction", "0x" + bytes(unprotected).hex())


async def test_an_account_can_delegate_to_code_and_undo_it(node):
    """EIP-7702: from then on the token asks the code to verify signatures."""
    await node.fund(BUYER.address, RELAYER.address)
    for target, code in (
        (DEVNET.settler, "0xef0100" + DEVNET.settler[2:]),
        ("0x" + "00" * 20, "0x"),
    ):
        nonce = int(await node.ask("eth_getTransactionCount", BUYER.address), 16)
        authorization = BUYER.sign_authorization(
            {"chainId": DEVNET.chain_id, "address": target, "nonce": nonce}
        )
        raw = sign_transaction(
            RELAYER,
            {
                "to": BUYER.address,
                "nonce": int(await node.ask("eth_getTransactionCount", RELAYER.address), 16),
                "authorizationList": [authorization],
            },
        )
        view = await node.ask(
            "eth_getTransactionByHash", await node.ask("eth_sendRawTransaction", raw)
        )
        assert view["type"] == "0x4"
        assert len(view["authorizationList"]) == 1
        assert (await node.ask("eth_getCode", BUYER.address)).lower() == code


async def test_deployless_call_returns_the_output_of_its_code(node):
    code = "0x" + bytes.fromhex("602a5f5260205ff3").hex()
    assert int(await node.ask("eth_call", {"data": code}), 16) == 42
    assert int(await node.ask("eth_estimateGas", {"data": code}), 16) > 53_000
    with pytest.raises(EvmNodeError, match="max initcode size exceeded"):
        await node.ask("eth_call", {"data": "0x" + "00" * 50_000})


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("5f5ffd", "execution reverted"),
        ("5b5f56", "out of gas"),
        ("fe", "invalid opcode"),
        ("600156", "invalid jump destination"),
    ],
)
async def test_failing_code_gives_the_reason(node, code, message):
    place = await node.deploy(bytes.fromhex(code))
    with pytest.raises(EvmNodeError, match=message):
        await node.ask("eth_call", {"to": place, "gas": "0x20000"})


async def test_an_estimate_respects_the_gas_that_is_allowed(node):
    call = {"to": TOKEN, "from": FAUCET.address, "data": encode_call("pause()")}
    assert int(await node.ask("eth_estimateGas", call), 16) < 60_000
    with pytest.raises(EvmNodeError, match=r"gas required exceeds allowance \(30000\)"):
        await node.ask("eth_estimateGas", call | {"gas": hex(30_000)})
    plain = {"to": MERCHANT, "from": FAUCET.address, "value": "0x1"}
    assert await node.ask("eth_estimateGas", plain) == hex(21_000)
    with pytest.raises(EvmNodeError, match="insufficient funds for transfer"):
        await node.ask("eth_estimateGas", plain | {"from": BUYER.address})


async def test_storage_can_be_read(node):
    await node.fund(BUYER.address)
    supply = int(await node.ask("eth_getStorageAt", TOKEN, "0x0", "latest"), 16)
    assert supply == await node.read(TOKEN, "totalSupply()") > 0


async def test_system_transactions_open_each_block_and_are_recreated_by_a_reorg():
    async with open_node(rules=BlockRules(system_transactions=2)) as node:
        receipt = await node.run(FAUCET, BUYER.address, "0x", value=1)
        assert receipt["transactionIndex"] == "0x2"
        block = await node.ask("eth_getBlockByNumber", "latest", True)
        kinds = [transaction["type"] for transaction in block["transactions"]]
        assert kinds == ["0x7e", "0x7e", "0x2"]
        receipts = await node.ask("eth_getBlockReceipts", "latest")
        assert [each_receipt["type"] for each_receipt in receipts] == kinds
        assert receipts[-1] == receipt
        assert int(receipt["cumulativeGasUsed"], 16) == int(block["gasUsed"], 16)
        system = block["transactions"][0]
        assert await node.ask("eth_getTransactionByHash", system["hash"]) == system
        await node.ask("florin_fault", {"kind": "reorg", "depth": 1})
        assert await node.ask("eth_getTransactionReceipt", receipt["transactionHash"])
        empty = await node.ask("eth_getBlockByNumber", "latest", True)
        assert [transaction["type"] for transaction in empty["transactions"]] == ["0x7e", "0x7e"]
        assert empty["transactions"][0]["hash"] != system["hash"]


async def test_blocks_share_timestamps_and_tags_follow_the_rules_of_the_chain():
    clock = TestClock(START_S * 1_000_000)
    rules = BlockRules(timestamp_s=4, safe_depth=1, final_depth=3)
    async with open_node(clock=clock, rules=rules) as node:
        stamps = []
        for _ in range(10):
            clock.advance(1)
            await node.mine()
            block = await node.ask("eth_getBlockByNumber", "latest", False)
            stamps.append(int(block["timestamp"], 16) - START_S)
        assert stamps == [0, 0, 0, 4, 4, 4, 4, 8, 8, 8]
        for tag, number in (("safe", 9), ("finalized", 7)):
            block = await node.ask("eth_getBlockByNumber", tag, False)
            assert int(block["number"], 16) == number
