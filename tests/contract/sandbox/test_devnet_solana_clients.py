"""Test the embedded Solana chain through the library behind the usual Python client."""

from __future__ import annotations

import base64

import pytest
from florin_server.domain.chains.solana import spl
from solders.rpc import requests, responses
from solders.rpc.config import (
    RpcSendTransactionConfig,
    RpcSimulateTransactionConfig,
    RpcTokenAccountsFilterMint,
    RpcTransactionConfig,
)
from solders.transaction import VersionedTransaction
from solders.transaction_status import UiTransactionEncoding

from tests.support.solana_devnet import (
    GIFT,
    TOKEN,
    get_token_account,
    make_coin_transfer,
    make_wallet,
    open_node,
)

BUYER, MERCHANT = make_wallet(1), make_wallet(3).pubkey()
SOL = spl.LAMPORTS_PER_SOL


@pytest.fixture
async def node():
    async with open_node() as node:
        await node.fund(BUYER)
        yield node


async def test_client_library_parses_every_response(node):
    """The library behind the usual Python client writes the requests and parses the responses."""
    wire = await node.make_transaction([BUYER], make_coin_transfer(BUYER, MERCHANT, SOL // 4))
    sent = VersionedTransaction.from_bytes(base64.b64decode(wire))
    owner, held = BUYER.pubkey(), get_token_account(BUYER.pubkey())
    config = RpcSendTransactionConfig(skip_preflight=True)
    signature = (await send_request(node, requests.SendVersionedTransaction(sent, config))).value
    assert signature == sent.signatures[0]
    await node.fault("slots", slots=32)
    status = (await send_request(node, requests.GetSignatureStatuses([signature]))).value[0]
    assert str(status.confirmation_status).endswith("Finalized")
    base64_form = RpcTransactionConfig(
        UiTransactionEncoding.Base64, max_supported_transaction_version=0
    )
    result = (await send_request(node, requests.GetTransaction(signature, base64_form))).value
    assert result.transaction.transaction == sent
    plain = RpcTransactionConfig(UiTransactionEncoding.Json, max_supported_transaction_version=0)
    read = (await send_request(node, requests.GetTransaction(signature, plain))).value.transaction
    assert read.meta.fee == 5000
    assert read.transaction.message.account_keys == sent.message.account_keys
    (listed,) = (await send_request(node, requests.GetSignaturesForAddress(MERCHANT))).value
    assert listed.signature == signature
    balance = await send_request(node, requests.GetTokenAccountBalance(held))
    assert balance.value.amount == str(GIFT)
    by_mint = RpcTokenAccountsFilterMint(spl.parse_pubkey(TOKEN.address))
    (mine,) = (await send_request(node, requests.GetTokenAccountsByOwner(owner, by_mint))).value
    assert (mine.pubkey, mine.account.owner) == (held, spl.TOKEN)
    assert (await send_request(node, requests.GetAccountInfo(owner))).value.lamports < SOL
    both = await send_request(node, requests.GetMultipleAccounts([owner, make_wallet(99).pubkey()]))
    assert [item is None for item in both.value] == [False, True]
    latest = (await send_request(node, requests.GetLatestBlockhash())).value
    assert (await send_request(node, requests.IsBlockhashValid(latest.blockhash))).value
    trial = RpcSimulateTransactionConfig(sig_verify=True)
    outcome = await send_request(node, requests.SimulateVersionedTransaction(sent, trial))
    assert outcome.value.err is not None
    for request in (
        requests.GetBalance(owner),
        requests.GetBlockHeight(),
        requests.GetBlockTime(1),
        requests.GetGenesisHash(),
        requests.GetMinimumBalanceForRentExemption(165),
        requests.GetSlot(),
        requests.GetVersion(),
        requests.RequestAirdrop(MERCHANT, SOL),
    ):
        assert (await send_request(node, request)).value


async def send_request(node, request):
    answer = await node.chain.handle(request.to_json().encode())
    kind = type(request).__name__.replace("Versioned", "")
    result = getattr(responses, f"{kind}Resp").from_json(answer.decode())
    assert not type(result).__name__.endswith("Message"), result
    return result
