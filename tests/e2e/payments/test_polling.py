"""The polling delay for wallets: until the chain of the payment may have news."""

from __future__ import annotations

import pytest

from tests.support.service_harness import open_service
from tests.support.solana import INSTANT_SOLANA, SolanaTestWallet
from tests.support.wallet import EvmTestWallet

PAUSED = {
    "evm": {"kind": "mining", "paused": True},
    "solana": {"kind": "landing", "paused": True},
}


@pytest.mark.parametrize(
    ("blocks_s", "confirmations", "eta_s", "poll_ms"),
    [
        # final as soon as it is in a block
        (0, 1, 1, 500),
        (0.5, 2, 1, 500),
        (0.5, 6, 3, 1500),
        # never less often than documented, however slow the chain is
        (0.5, 9, 5, 2000),
        (0.5, 24, 12, 2000),
    ],
)
async def test_a_payment_under_way_is_polled_at_its_chains_pace(
    tmp_path, blocks_s, confirmations, eta_s, poll_ms
):
    pace = {"block_interval_s": blocks_s, "confirmations": confirmations}
    async with open_service(tmp_path / "home", **pace) as desk:
        offer = await desk.offer()
        assert offer.option["etaS"] == eta_s
        # while a buyer decides, the chain does not matter
        assert (await desk.rest.status(offer.payment_id))["pollInMs"] == 1000
        await desk.chain.ask("florin_fault", PAUSED["evm"])
        confirmed = await desk.confirm(offer)
        assert (confirmed["status"], confirmed["pollInMs"]) == ("processing", poll_ms)
        for api in (desk.rest, desk.grpc):
            assert (await api.status(offer.payment_id))["pollInMs"] == poll_ms
            result = await anext(aiter(api.watch(offer.payment_id)))
            assert (result["status"], result["pollInMs"]) == ("processing", poll_ms)


async def test_each_chain_of_an_installation_has_its_own_pace(tmp_path):
    pace = {"block_interval_s": 0.5, "confirmations": 24, "solana": INSTANT_SOLANA}
    async with open_service(tmp_path / "home", **pace) as desk:
        paces = {}
        for wallet, chain in ((EvmTestWallet(), "evm"), (SolanaTestWallet(), "solana")):
            url = desk.env[f"FLORIN_{chain.upper()}_RPC_URL"]
            order = {"amount": {"unit": "iso4217/USD", "value": "1250"}}
            payment_id = (await desk.rest.create(order))["paymentId"]
            option, *_ = (await desk.rest.options(payment_id, [wallet.account]))["options"]
            if option["actions"][0]["type"] == "build":
                data = option["actions"][0]["data"]["data"]
                option |= await desk.rest.fetch(payment_id, option["id"], data)
            call = {"jsonrpc": "2.0", "id": 1, "method": "florin_fault", "params": [PAUSED[chain]]}
            async with desk.session.post(url, json=call) as answer:
                assert "error" not in await answer.json()
            result = await desk.rest.confirm(payment_id, option["id"], wallet.execute_all(option))
            paces[chain] = result["status"], result["pollInMs"]
        assert paces == {"evm": ("processing", 2000), "solana": ("processing", 500)}
