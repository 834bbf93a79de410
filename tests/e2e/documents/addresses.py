"""Steps for the document of payments to addresses."""

from __future__ import annotations

import json

from florin.v1 import address_pb2, held_pb2

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock, check_request, list_blocks, parse_chain
from tests.support.newcomer import NewcomerWalk


@step("docs/payments-to-addresses.md", "Request an address", 0)
async def request(walk: NewcomerWalk, block: DocumentBlock) -> None:
    check_request(address_pb2.OpenAddressesRequest(payment_id="pay_1", **json.loads(block.text)))


@step("docs/payments-to-addresses.md", "Claims", 0)
async def claim(walk: NewcomerWalk, block: DocumentBlock) -> None:
    check_request(held_pb2.ClaimDepositRequest(payment_id="pay_1", **json.loads(block.text)))


@step("docs/payments-to-addresses.md", "Settings", 0)
async def forwarder(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (total,) = [each.text for each in list_blocks() if "chain_id = 8453" in each.text]
    own = total.replace("[[chains]]", "[evm]") + block.text.replace("[chains.", "[evm.")
    settings = parse_chain(own).forwarder
    # the address that the document of the contracts gives
    contracts = (walk.folder / "contracts/README.md").read_text()
    assert settings.address in contracts.lower()
    assert settings.get_min_units(6) == 5_000_000
