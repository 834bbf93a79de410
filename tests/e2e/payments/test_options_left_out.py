"""A chain that is slow, or fails, costs a buyer the options on it and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
import pytest_asyncio
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.solana import SOLNET

from tests.support.desk import CREATE, ORDER, Desk, opened
from tests.support.solana import AT_ONCE, SolanaNode, SolanaWallet
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

EVM, SOLANA = f"eip155:{DEVNET.chain_id}", SOLNET.chain_id
PATIENCE_S = 1.5
# on the desk's clock, which stands still: never
LATE = {"effect": "delay", "delayMs": 600_000}
READS = {EVM: "eth_getCode", SOLANA: "getMultipleAccounts"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("left") / "home"
    async with opened(home, solana=AT_ONCE, discovery_s=PATIENCE_S) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def nodes(desk: Desk):
    nodes = {
        EVM: SolanaNode(desk.session, desk.env["FLORIN_EVM_RPC_URL"]),
        SOLANA: SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"]),
    }
    yield nodes
    for node in nodes.values():
        await node.fault("clear")


class Buyer:
    """Somebody with an account on each chain, who looks at one payment again and again."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.accounts = [Wallet().account, SolanaWallet().account]
        self.payment_id = ""

    async def chains(self) -> list[str]:
        """The chains of the options that are told."""
        if not self.payment_id:
            created = await self.desk.rest.call("POST", CREATE, self.desk.rest.merchant, ORDER)
            self.payment_id = created["paymentId"]
        told = await self.desk.rest.options(self.payment_id, self.accounts)
        units = [option["amount"]["unit"].removeprefix("caip19/") for option in told["options"]]
        return sorted({unit.partition("/")[0] for unit in units})

    async def sees_both(self) -> None:
        """Returns once there are options on both chains: on a busy machine even good ones lag."""
        await until(self.chains, sorted([EVM, SOLANA]))


@pytest.mark.parametrize(("slow", "other"), [(EVM, SOLANA), (SOLANA, EVM)])
@pytest.mark.parametrize("fault", [LATE, {"effect": "error", "message": "busy"}])
async def test_a_chain_that_does_not_answer_in_time_is_left_out(desk, nodes, slow, other, fault):
    buyer = Buyer(desk)
    await buyer.sees_both()
    await nodes[slow].fault("answer", method=READS[slow], times=1000, **fault)
    started = time.monotonic()
    assert await buyer.chains() == [other]
    # with what else happens on a busy machine
    assert time.monotonic() - started < PATIENCE_S + 3
    await nodes[slow].fault("clear")
    await buyer.sees_both()


async def test_two_slow_chains_cost_the_time_of_one(desk, nodes):
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


async def test_huge_prices_with_ever_new_accounts_cost_others_nothing(desk, caplog):
    """Whoever asks makes the faucets give; what is more than usual has a budget of its own."""
    dearest = {"amount": {"unit": "iso4217/USD", "value": "10000000000"}}
    offered = []
    for _ in range(15):
        made = await desk.rest.call("POST", CREATE, desk.rest.merchant, dearest)
        accounts = [Wallet().account, SolanaWallet().account]
        offered.append(len((await desk.rest.options(made["paymentId"], accounts))["options"]))
    assert offered[0] > 0
    assert offered[-1] == 0
    told = [one.message for one in caplog.records if "no test money" in one.message]
    assert any("left for what is more than usual" in one for one in told)
    await Buyer(desk).sees_both()
