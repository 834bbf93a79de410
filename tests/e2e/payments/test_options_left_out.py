"""A chain that is slow, or fails, costs a buyer the options on it and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
import pytest_asyncio
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.solana import SOLANA_DEVNET

from tests.support.service_harness import CREATE, ORDER, ServiceHarness, open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVM, SOLANA = f"eip155:{DEVNET.chain_id}", SOLANA_DEVNET.chain_id
PATIENCE_S = 1.5
# on the service's clock, which is stopped: never
LATE = {"effect": "delay", "delayMs": 600_000}
READS = {EVM: "eth_getCode", SOLANA: "getMultipleAccounts"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("left") / "home"
    async with open_service(home, solana=INSTANT_SOLANA, discovery_s=PATIENCE_S) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def nodes(desk: ServiceHarness):
    nodes = {
        EVM: SolanaNodeClient(desk.session, desk.env["FLORIN_EVM_RPC_URL"]),
        SOLANA: SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"]),
    }
    yield nodes
    for node in nodes.values():
        await node.fault("clear")


class Buyer:
    """A buyer with an account on each chain, who polls one payment."""

    def __init__(self, desk: ServiceHarness) -> None:
        self.desk = desk
        self.accounts = [EvmTestWallet().account, SolanaTestWallet().account]
        self.payment_id = ""

    async def chains(self) -> list[str]:
        """Return the chains of the returned options."""
        if not self.payment_id:
            created = await self.desk.rest.call("POST", CREATE, self.desk.rest.merchant, ORDER)
            self.payment_id = created["paymentId"]
        result = await self.desk.rest.options(self.payment_id, self.accounts)
        units = [option["amount"]["unit"].removeprefix("caip19/") for option in result["options"]]
        return sorted({unit.partition("/")[0] for unit in units})

    async def sees_both(self) -> None:
        """Return once both chains have options: a busy machine delays healthy chains too."""
        await wait_until(self.chains, sorted([EVM, SOLANA]))


@pytest.mark.parametrize(("slow", "other"), [(EVM, SOLANA), (SOLANA, EVM)])
@pytest.mark.parametrize("fault", [LATE, {"effect": "error", "message": "busy"}])
async def test_a_chain_that_does_not_answer_in_time_is_left_out(desk, nodes, slow, other, fault):
    buyer = Buyer(desk)
    await buyer.sees_both()
    await nodes[slow].fault("answer", method=READS[slow], times=1000, **fault)
    started = time.monotonic()
    assert await buyer.chains() == [other]
    # with margin for a busy machine
    assert time.monotonic() - started < PATIENCE_S + 3
    await nodes[slow].fault("clear")
    await buyer.sees_both()


async def test_two_slow_chains_take_no_longer_than_a_single_slow_chain(desk, nodes):
    buyers = [Buyer(desk) for _ in range(4)]
    for buyer in buyers:
        await buyer.sees_both()
    for chain, node in nodes.items():
        await node.fault("answer", method=READS[chain], times=1000, **LATE)
    started = time.monotonic()
    assert await asyncio.gather(*(buyer.chains() for buyer in buyers)) == [[]] * 4
    assert time.monotonic() - started < PATIENCE_S + 3


async def test_a_node_that_lies_about_everything_costs_only_its_chain(desk, nodes):
    buyer = Buyer(desk)
    await buyer.sees_both()
    await nodes[EVM].fault("answer", method="eth_call", effect="lie", result="0x12", times=1000)
    assert await buyer.chains() == [SOLANA]


async def test_huge_prices_with_new_accounts_do_not_affect_usual_gifts(desk, caplog):
    """Every caller makes the faucets give; gifts above the usual amount have their own budget."""
    dearest = {"amount": {"unit": "iso4217/USD", "value": "10000000000"}}
    offered = []
    for _ in range(15):
        created = await desk.rest.call("POST", CREATE, desk.rest.merchant, dearest)
        accounts = [EvmTestWallet().account, SolanaTestWallet().account]
        offered.append(len((await desk.rest.options(created["paymentId"], accounts))["options"]))
    assert offered[0] > 0
    assert offered[-1] == 0
    result = [record.message for record in caplog.records if "no test money" in record.message]
    assert any("left for larger gifts" in item for item in result)
    await Buyer(desk).sees_both()
