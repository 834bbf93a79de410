"""A chain that the operator removed: its options have to be requested anew."""

from __future__ import annotations

import pytest

from tests.support.service_harness import open_service
from tests.support.solana import INSTANT_SOLANA, SolanaTestWallet
from tests.support.solana_offers import SolanaOffer, get_refusal, make_offer
from tests.support.wallet import EvmTestWallet

QUOTE_EXPIRED = (409, "quote_expired")


@pytest.mark.parametrize("call", [SolanaOffer.fetch, SolanaOffer.confirm])
async def test_an_option_on_a_chain_that_is_gone_has_expired(tmp_path, call):
    home, wallet = tmp_path / "home", EvmTestWallet()
    async with open_service(home, solana=INSTANT_SOLANA) as desk:
        offer = await make_offer(desk.rest, SolanaTestWallet())
    async with open_service(home) as desk:
        offer.api = desk.rest
        error = await get_refusal(call(offer))
        assert (error.http, error.code) == QUOTE_EXPIRED
        # the refusal asks wallets for that
        mine = [wallet.account, offer.wallet.account]
        options = (await desk.rest.options(offer.payment_id, mine))["options"]
        assert {item["account"] for item in options} == {wallet.account}
        assert (await offer.status())["status"] == "requires_action"
