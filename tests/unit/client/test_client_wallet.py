"""Test the client's wallet: how it executes each action, and what it refuses."""

from __future__ import annotations

import base64
import json
import time

import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_hash.auto import keccak
from florin.v1.gateway_pb2 import Action, BuildAction, WalletRpcAction
from florin_client.wallet import (
    JsonRpc,
    Pause,
    Step,
    Wallet,
    WalletError,
    default_max_fee,
    steps_of,
)
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from tests.support import options
from tests.support.options import EVM, make_honest_option, to_wire_steps

CHAIN, SOLANA = EVM, "solana:devnet"
KEY = b"\x07" * 32
ADDRESS = Account.from_key(KEY).address
OWN = Keypair.from_seed(b"\x08" * 32)
ACCOUNTS = {EVM: ADDRESS, options.SOLANA: str(OWN.pubkey())}
NODE = {
    "eth_chainId": "0x2105",
    "eth_estimateGas": "0x7530",
    "eth_getTransactionCount": "0x5",
    "eth_getBlockByNumber": {"baseFeePerGas": "0x3b9aca0"},
    "eth_sendRawTransaction": "0xwhatever",
}


def wallet(**more):
    return Wallet(evm_key=KEY, solana_key=bytes(OWN), **more)


def honest(kind):
    """Return the actions of an honest option and the option itself, as in REST."""
    option = make_honest_option(kind, ACCOUNTS, int(time.time()))
    actions = [{"type": "walletRpc", "data": step} for step in to_wire_steps(option["steps"])]
    return actions, {"account": option["account"], "amount": option}


def executing(kind, **more):
    actions, option = honest(kind)
    return wallet().start_execution(actions, option=option, **more)


def driven(asking, answers):
    """Run the wallet on a chain that answers from a table; return the outputs and the calls."""
    requests, answer = [], None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as end:
            return end.value, requests
        requests.append(question)
        if isinstance(question, Pause):
            answer = None
        else:
            answer = answers[question.method]
            answer = answer.pop(0) if isinstance(answer, list) else answer


def test_actions_are_read_from_grpc_and_from_both_profiles_of_rest():
    (action,), option = honest("eip3009")
    step = action["data"]
    params = json.loads(step["params"])
    rpc = WalletRpcAction(
        chain_id=step["chain_id"], method=step["method"], params_json=step["params"]
    )
    parsed = {"type": "walletRpc", "data": {**step, "params": params}}
    document = json.loads(params[1])
    for way in (rpc, Action(wallet_rpc=rpc), action, parsed):
        assert steps_of([way]) == [Step(CHAIN, "eth_signTypedData_v4", tuple(params))]
        (output,) = wallet().execute([way], option=option)
        signed = encode_typed_data(full_message=document)
        assert Account.recover_message(signed, signature=output) == ADDRESS


@pytest.mark.parametrize(
    "action",
    [Action(build=BuildAction(data="x")), Action(), {"type": "build", "data": {"data": "x"}}],
)
def test_unfetched_build_is_not_executed(action):
    with pytest.raises(WalletError, match="must be fetched before"):
        wallet().execute([action], option=honest("eip3009")[1])


@pytest.mark.parametrize(
    "action",
    [{}, {"type": "walletRpc"}, {"type": "walletRpc", "data": {"chain_id": CHAIN}}, "text"],
    ids=str,
)
def test_action_that_cannot_be_read_is_refused(action):
    with pytest.raises(WalletError, match="cannot be parsed"):
        steps_of([action])
    for text in ("{}", "[", "[" * 100_000, '["]]]]",' * 100_000):
        with pytest.raises(WalletError, match="not an array"):
            steps_of([WalletRpcAction(chain_id=CHAIN, method="x", params_json=text)])


def test_action_without_its_key_or_node_is_refused():
    actions, option = honest("solana")
    with pytest.raises(WalletError, match="no key for Solana"):
        Wallet(evm_key=KEY).execute(actions, option=option)
    actions, option = honest("coin")
    with pytest.raises(WalletError, match="no JSON-RPC URL for"):
        wallet().execute(actions, option=option)


def test_a_transaction_is_sent_with_the_gas_and_fees_of_its_chain():
    outputs, request = driven(executing("coin"), NODE)
    (action,), _ = honest("coin")
    (call,) = json.loads(action["data"]["params"])
    (estimate,) = [item for item in request if item.method == "eth_estimateGas"]
    assert estimate.params[0]["to"] == call["to"]
    raw = bytes.fromhex(request[-1].params[0][2:])
    assert Account.recover_transaction(raw) == ADDRESS
    # the hash is the transaction's own, whatever the node returns
    assert outputs == ["0x" + keccak(raw).hex()]
    # without a base fee the wallet asks for the gas price
    _, request = driven(
        executing("coin"), NODE | {"eth_getBlockByNumber": {}, "eth_gasPrice": "0x1"}
    )
    assert "eth_gasPrice" in [item.method for item in request]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"eth_chainId": "0x1"}, "is not on chain"),
        ({"eth_chainId": None}, "instead of a number"),
        ({"eth_estimateGas": hex(3_000_000)}, "the limit is 2000000"),
        ({"eth_estimateGas": 30_000}, "instead of a number"),
        ({"eth_estimateGas": "-0x1"}, "instead of a number"),
        ({"eth_estimateGas": "0x" + "f" * 64}, "too large"),
        ({"eth_getTransactionCount": "5"}, "instead of a number"),
        ({"eth_getTransactionCount": "0x" + "f" * 16}, "too large"),
        ({"eth_getBlockByNumber": None}, "no latest block"),
        ({"eth_getBlockByNumber": {"baseFeePerGas": hex(10**15)}}, "a fee of up to"),
        ({"eth_getBlockByNumber": {}, "eth_gasPrice": hex(10**18)}, "a fee of up to"),
    ],
    ids=str,
)
def test_lying_node_is_offered_no_huge_fee(answers, why):
    with pytest.raises(WalletError, match=why):
        driven(executing("coin"), NODE | answers)


def test_fees_of_all_transactions_share_a_single_limit():
    answers = NODE | {
        "eth_getTransactionCount": ["0x0", "0x1"],
        "eth_getTransactionReceipt": {"status": "0x1"},
    }
    each = 30_000 * 120 // 100 * (2 * 0x3B9ACA0 + 10**9)
    driven(executing("direct", max_fee=2 * each), dict(answers))
    answers["eth_getTransactionCount"] = ["0x0", "0x1"]
    with pytest.raises(WalletError, match="a fee of up to"):
        driven(executing("direct", max_fee=2 * each - 1), answers)


def test_small_coin_payment_costs_no_more_in_fees_than_a_tenth_of_the_limit():
    assert default_max_fee("eip155:1") == 10 * default_max_fee("eip155:1", 1)
    assert default_max_fee("eip155:1", 10**30) == default_max_fee("eip155:1")
    assert default_max_fee("eip155:1", 5 * 10**15) == 5 * 10**15


def test_transaction_waits_for_its_predecessor():
    answers = NODE | {
        "eth_getTransactionCount": ["0x0", "0x1"],
        "eth_getTransactionReceipt": [None, {"status": "0x1"}],
    }
    outputs, request = driven(executing("direct"), answers)
    assert len(set(outputs)) == 2
    assert len([item for item in request if isinstance(item, Pause)]) == 1
    answers |= {"eth_getTransactionCount": "0x0"}
    for receipt in ({"status": "0x0"}, "nonsense", {}):
        with pytest.raises(WalletError, match="failed"):
            driven(executing("direct"), answers | {"eth_getTransactionReceipt": receipt})
    with pytest.raises(WalletError, match="is not mined"):
        driven(executing("direct"), answers | {"eth_getTransactionReceipt": None})
    # a node that knows nothing of the first must not have the second in its place
    with pytest.raises(WalletError, match="does not know the previous"):
        driven(executing("direct"), answers | {"eth_getTransactionReceipt": {"status": "0x1"}})


def test_solana_transaction_is_signed_and_keeps_existing_signatures():
    own, payer = Keypair(), Keypair()
    move = transfer(
        TransferParams(from_pubkey=own.pubkey(), to_pubkey=Pubkey.default(), lamports=1)
    )
    message = MessageV0.try_compile(payer.pubkey(), [move], [], Hash.default())
    theirs = payer.sign_message(b"whatever it is")
    requested_versioned_transaction = VersionedTransaction.populate(
        message, [theirs, Signature.default()]
    )
    for secret in (bytes(own), str(own)):
        output = Wallet(solana_key=secret).solana.sign_transaction(requested_versioned_transaction)
        versioned_transaction = VersionedTransaction.from_bytes(base64.b64decode(output))
        assert versioned_transaction.signatures[0] == theirs
        assert versioned_transaction.verify_with_results() == [False, True]
    with pytest.raises(WalletError, match="needs no signature"):
        Wallet.create().solana.sign_transaction(requested_versioned_transaction)
    actions, option = honest("solana")
    (output,) = wallet().execute(actions, option=option)
    versioned_transaction = VersionedTransaction.from_bytes(base64.b64decode(output))
    assert versioned_transaction.verify_with_results() == [False, True]


def test_accounts_are_listed_by_chain():
    this_wallet = Wallet.create()
    assert this_wallet.accounts(CHAIN, SOLANA) == [
        f"{CHAIN}:{this_wallet.evm.address}",
        f"{SOLANA}:{this_wallet.solana.address}",
    ]
    assert Wallet.create().evm.address != this_wallet.evm.address
    with pytest.raises(WalletError, match="no key for EVM"):
        Wallet(solana_key=bytes(Keypair())).account(CHAIN)


def test_no_secret_is_shown():
    item = wallet(rpc_urls={CHAIN: "https://node.example/secret-key"})
    shown = (
        repr(item) + repr(vars(item)) + repr(JsonRpc({CHAIN: "https://node.example/secret-key"}))
    )
    assert ADDRESS in shown
    assert "secret-key" not in shown
    assert KEY.hex() not in shown
    actions, option = honest("coin")
    with pytest.raises(WalletError) as caught:
        wallet(rpc_urls={CHAIN: "http://127.0.0.1:1/secret-key"}).execute(actions, option=option)
    assert "secret-key" not in str(caught.value)
