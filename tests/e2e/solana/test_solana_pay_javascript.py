"""Payments by wallets that are made of npm's @solana/pay, as it is published."""

from __future__ import annotations

import asyncio

from florin_sandbox.devnet.solana import SOLANA_DEVNET

from tests.support.javascript import run_script
from tests.support.service_harness import open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import make_offer
from tests.support.solana_pay import ORDER, PRICE, fund, wait_status

# the link leads to the public host, which stands for the service under test
WALLET = """
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const need = createRequire(process.cwd() + '/package.json');
const { parseURL, fetchTransaction } = need('@solana/pay');
const { Connection, Keypair } = need('@solana/web3.js');
const { secret, rpc, url, host } = JSON.parse(readFileSync(0, 'utf8'));
const wallet = Keypair.fromSecretKey(Uint8Array.from(secret));
const connection = new Connection(rpc, 'finalized');
const { link } = parseURL(url);
const place = new URL(link.pathname, host);
const { label, icon } = await (await fetch(place)).json();
const commitment = 'finalized';
const transaction = await fetchTransaction(connection, wallet.publicKey, place, { commitment });
transaction.partialSign(wallet);
const signature = await connection.sendRawTransaction(transaction.serialize());
const headers = { 'Content-Type': 'application/json' };
const refused = await fetch(place, { method: 'POST', body: '{}', headers });
console.log(JSON.stringify({
  protocol: link.protocol, label, icon, signature,
  feePayer: transaction.feePayer.toBase58(), refused: (await refused.json()).message,
}));
process.exit(0);
"""


async def test_unmodified_solana_pay_reads_the_link_signs_and_sends(tmp_path):
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA) as service:
        rpc = service.env["FLORIN_SOLANA_RPC_URL"]
        node, wallet = SolanaNodeClient(service.session, rpc), SolanaTestWallet()
        offer = await make_offer(service.rest, SolanaTestWallet())
        await offer.confirm()
        await offer.final()
        await fund(node, wallet)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        detail = await service.rest.detail(payment_id)
        held = await node.balance(wallet.address)
        result = await asyncio.to_thread(
            run_script,
            WALLET,
            {
                "secret": list(bytes(wallet.key)),
                "rpc": rpc,
                "url": detail["solanaPayUrl"],
                "host": service.rest.base,
            },
        )
        assert result["protocol"] == "https:"
        assert result["label"] == detail["merchant"]["name"]
        assert result["icon"].startswith("https://")
        assert result["feePayer"] == wallet.address
        assert "account" in result["refused"]
        detail = await wait_status(service, node, payment_id, "succeeded")
        assert detail["info"]["txId"] == result["signature"]
        assert detail["buyer"]["accountCaip10"] == f"{SOLANA_DEVNET.chain_id}:{wallet.address}"
        assert await node.balance(wallet.address) == held - PRICE
