"""Test which blocks of a chain the EVM rail takes for final."""

from __future__ import annotations

from florin_sandbox.devnet.evm.block_rules import FINAL_DEPTH

from tests.support.evm_harness import (
    RELAYER,
    open_lab,
)


async def test_a_nonce_counts_as_used_once_the_chain_calls_its_block_finalized():
    lab = await open_lab(confirmations=1, finality_tag="finalized")
    try:
        nonce = await lab.rail.account_nonces.get_next_nonce(RELAYER.address)
        await lab.settle(await lab.create_verified_item(1))
        for _ in range(FINAL_DEPTH):
            head = await lab.rail.observer.get_head()
            assert head.final is not None
            assert head.final < head.number
            assert not await lab.rail.account_nonces.is_nonce_used(RELAYER.address, nonce)
            await lab.mine()
        await lab.rail.observer.get_head()
        assert await lab.rail.account_nonces.is_nonce_used(RELAYER.address, nonce)
        # above its own head a node's answers count for nothing; its earlier answers stay
        lab.node.changes["eth_getBlockByNumber"] = lambda params, answer: (
            answer["result"].update(number="0xffffff") or answer
            if params[0] == "finalized"
            else answer
        )
        assert (await lab.rail.observer.get_head()).final == head.final + 1
        # a node that does not know the tag delays the chain but does not stop it
        lab.node.changes["eth_getBlockByNumber"] = lambda params, answer: (
            {"id": answer["id"], "error": {"code": -32602, "message": "unknown tag"}}
            if params[0] == "finalized"
            else answer
        )
        await lab.mine(3)
        assert (await lab.rail.observer.get_head()).final == head.final + 1
    finally:
        await lab.rail.close()
        await lab.chain.close()


async def test_looks_follow_the_pace_while_a_transaction_of_ours_is_not_final():
    lab = await open_lab(confirmations=1)
    try:
        assert not lab.rail.finality.is_awaited
        await lab.settle(await lab.create_verified_item(1))
        assert lab.rail.finality.is_awaited
    finally:
        await lab.rail.close()
        await lab.chain.close()


async def test_facts_of_blocks_that_are_too_young_are_not_agreed():
    lab = await open_lab(confirmations=1, final_after_s=60)
    try:
        item = await lab.create_verified_item(1)
        await lab.settle(item)
        (paid,) = await lab.rail.direct_settlement.list_settlement_events(
            [lab.rail.terms.get_reference(item.option)], 0
        )
        lab.clock.advance(3600)
        await lab.mine(2)
        head = await lab.rail.observer.get_head()
        # its timestamps claim an hour that Florin did not observe
        assert head.final == -1
        attestation = await lab.rail.observer.evidence.attest(frozenset({paid}))
        assert not attestation.facts
        assert not attestation.is_caught_up
    finally:
        await lab.rail.close()
        await lab.chain.close()
