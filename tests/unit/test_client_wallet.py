"""The client's wallet: what it does with each action, and what it refuses."""

from __future__ import annotations

import base64
import json

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from florin.v1.gateway_pb2 import Action, BuildAction, WalletRpcAction
from florin_client.wallet import JsonRpc, Pause, Question, Step, Wallet, WalletError, steps_of
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

CHAIN = "eip155:31337"
SOLANA = "solana:devnet"
KEY = b"\x07" * 32
ADDRESS = Account.from_key(KEY).address
TYPED = {
    "types": {
        "EIP712Domain": [
            {"name": "name", "type": "string"},
            {"name": "chainId", "type": "uint256"},
        ],
        "Order": [{"name": "value", "type": "uint256"}],
    },
    "domain": {"name": "Test", "chainId": "0x7a69"},
    "primaryType": "Order",
    "message": {"value": "0xf4240"},
}


def wallet(**more):
    return Wallet(evm_key=KEY, **more)


def typed(signer=ADDRESS, **changes):
    return Step(CHAIN, "eth_signTypedData_v4", (signer.lower(), json.dumps({**TYPED, **changes})))


def send(**call):
    return Step(CHAIN, "eth_sendTransaction", ({"from": ADDRESS.lower(), **call},))


def driven(asking, answers):
    """What comes of it, and what was asked, by a chain that answers from a table."""
    asked, answer = [], None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as end:
            return end.value, asked
        asked.append(question)
        if isinstance(question, Pause):
            answer = None
        else:
            answer = answers[question.method]
            answer = answer.pop(0) if isinstance(answer, list) else answer


def test_actions_are_read_from_grpc_and_from_both_profiles_of_rest():
    params = [ADDRESS, json.dumps(TYPED)]
    call = {"chain_id": CHAIN, "method": "eth_signTypedData_v4"}
    rpc = WalletRpcAction(**call, params_json=json.dumps(params))
    ways = [
        rpc,
        Action(wallet_rpc=rpc),
        {"type": "walletRpc", "data": {**call, "params": params}},
        {"type": "walletRpc", "data": {**call, "params": json.dumps(params)}},
    ]
    (step,) = set(steps_of(ways))
    assert step == Step(CHAIN, "eth_signTypedData_v4", tuple(params))
    (output,) = set(wallet().execute(ways))
    assert (
        Account.recover_message(encode_typed_data(full_message=TYPED), signature=output) == ADDRESS
    )


@pytest.mark.parametrize(
    "action",
    [Action(build=BuildAction(data="x")), Action(), {"type": "build", "data": {"data": "x"}}],
)
def test_what_is_to_be_fetched_is_not_executed(action):
    with pytest.raises(WalletError, match="fetched before"):
        wallet().execute([action])


def test_a_message_is_signed():
    text = "0x" + b"hello".hex()
    (output,) = wallet().execute([Step(CHAIN, "personal_sign", (text, ADDRESS))])
    assert Account.recover_message(encode_defunct(text="hello"), signature=output) == ADDRESS


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (typed(signer="0x" + "11" * 20), "is not the wallet's"),
        (typed(domain={"name": "Test", "chainId": "0x1"}), "typed data of chain 1"),
        (Step(CHAIN, "eth_sign", ()), "cannot eth_sign"),
        (Step(CHAIN, "eth_sendTransaction", ({"from": "0x" + "11" * 20},)), "is not the wallet's"),
        (Step(SOLANA, "solana_signTransaction", ({"transaction": ""},)), "no key for Solana"),
        (Step(SOLANA, "eth_sendTransaction", ({"from": ADDRESS},)), "is no EVM chain"),
        (send(to="0x" + "22" * 20), "knows no JSON-RPC URL"),
    ],
)
def test_what_it_will_not_do_is_said(step, why):
    with pytest.raises(WalletError, match=why):
        wallet().execute([step])


def test_a_transaction_is_sent_with_the_gas_and_fees_of_its_chain():
    token, data = "0x" + "22" * 20, "0x095ea7b3" + "00" * 64
    answers = {
        "eth_estimateGas": "0x7530",
        "eth_getTransactionCount": "0x5",
        "eth_getBlockByNumber": {"baseFeePerGas": "0x3b9aca00"},
        "eth_sendRawTransaction": "0xhash",
    }
    outputs, asked = driven(wallet().executing([send(to=token, data=data)]), answers)
    assert outputs == ["0xhash"]
    call = {"from": ADDRESS, "value": "0x0", "data": data, "to": token}
    assert asked[0] == Question(CHAIN, "eth_estimateGas", (call,))
    raw = bytes.fromhex(asked[-1].params[0][2:])
    assert Account.recover_transaction(raw) == ADDRESS
    # without a base fee the price of gas is asked for
    answers |= {"eth_getBlockByNumber": {}, "eth_gasPrice": "0x1"}
    _, asked = driven(wallet().executing([send(to=token)]), answers)
    assert "eth_gasPrice" in [one.method for one in asked]


def test_a_transaction_waits_for_the_one_before_it():
    answers = {
        "eth_estimateGas": "0x7530",
        "eth_getTransactionCount": ["0x0", "0x1"],
        "eth_getBlockByNumber": {"baseFeePerGas": "0x1"},
        "eth_sendRawTransaction": ["0xa", "0xb"],
        "eth_getTransactionReceipt": [None, {"status": "0x1"}],
    }
    steps = [send(to="0x" + "22" * 20), typed(), send(to="0x" + "33" * 20)]
    outputs, asked = driven(wallet().executing(steps), answers)
    assert (outputs[0], outputs[2], len(outputs[1])) == ("0xa", "0xb", 132)
    waits = [one for one in asked if isinstance(one, Pause)]
    assert len(waits) == 1
    answers |= {
        "eth_getTransactionCount": "0x0",
        "eth_sendRawTransaction": "0xa",
        "eth_getTransactionReceipt": {"status": "0x0"},
    }
    with pytest.raises(WalletError, match="0xa failed"):
        driven(wallet().executing(steps), answers)
    with pytest.raises(WalletError, match="0xa is not mined"):
        driven(wallet().executing(steps), answers | {"eth_getTransactionReceipt": None})


def test_a_solana_transaction_gets_its_signature_and_keeps_others():
    own, payer = Keypair(), Keypair()
    move = transfer(
        TransferParams(from_pubkey=own.pubkey(), to_pubkey=Pubkey.default(), lamports=1)
    )
    message = MessageV0.try_compile(payer.pubkey(), [move], [], Hash.default())
    theirs = payer.sign_message(b"whatever it is")
    asked = VersionedTransaction.populate(message, [theirs, Signature.default()])
    params = ({"transaction": base64.b64encode(bytes(asked)).decode()},)
    step = Step(SOLANA, "solana_signTransaction", params)
    for secret in (bytes(own), str(own)):
        (output,) = Wallet(solana_key=secret).execute([step])
        made = VersionedTransaction.from_bytes(base64.b64decode(output))
        assert made.signatures[0] == theirs
        assert made.verify_with_results() == [False, True]
    with pytest.raises(WalletError, match="asks for no signature"):
        Wallet.create().execute([step])
    with pytest.raises(WalletError, match="no transaction"):
        Wallet.create().execute([Step(SOLANA, step.method, ({"transaction": "!"},))])


def test_accounts_are_told_by_chain():
    one = Wallet.create()
    assert one.accounts(CHAIN, SOLANA) == [
        f"{CHAIN}:{one.evm.address}",
        f"{SOLANA}:{one.solana.address}",
    ]
    assert Wallet.create().evm.address != one.evm.address
    with pytest.raises(WalletError, match="no key for EVM"):
        Wallet(solana_key=bytes(Keypair())).account(CHAIN)


def test_no_secret_is_shown():
    one = wallet(rpc_urls={CHAIN: "https://node.example/secret-key"})
    shown = repr(one) + repr(vars(one)) + repr(JsonRpc({CHAIN: "https://node.example/secret-key"}))
    assert ADDRESS in shown
    assert "secret-key" not in shown
    assert KEY.hex() not in shown
    with pytest.raises(WalletError) as caught:
        Wallet(evm_key=KEY, rpc_urls={CHAIN: "http://127.0.0.1:1/secret-key"}).execute([send()])
    assert "secret-key" not in str(caught.value)
