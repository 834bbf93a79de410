"""A chain that the operator took away: what was offered on it has to be asked for anew."""

from __future__ import annotations

import pytest

from tests.support.desk import opened
from tests.support.solana import AT_ONCE, SolanaWallet
from tests.support.solana_offers import Offer, offered, refusal
from tests.support.wallet import Wallet

QUOTE_EXPIRED = (409, "quote_expired")


@pytest.mark.parametrize("call", [Offer.fetch, Offer.confirm])
async def test_an_option_on_a_chain_that_is_gone_has_expired(tmp_path, call):
    home, wallet = tmp_path / "home", Wallet()
    async with opened(home, solana=AT_ONCE) as desk:
        offer = await offered(desk.rest, SolanaWallet())
    async with opened(home) as desk:
        offer.api = desk.rest
        error = await refusal(call(offer))
        assert (error.http, error.code) == QUOTE_EXPIRED
        # it is what the refusal tells a wallet to do
        mine = [wallet.account, offer.wallet.account]
        found = (await desk.rest.options(offer.payment_id, mine))["options"]
        assert {one["account"] for one in found} == {wallet.account}
        assert (await offer.status())["status"] == "requires_action"
