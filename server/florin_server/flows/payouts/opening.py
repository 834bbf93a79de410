"""What may be opened for those who receive: asked before it is offered, claimed before it is done.

On some chains an account has to be opened before it can hold a token. Its owner may close it and
keep what we paid for it; so each is opened once, and not too many a day.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from florin_server.domain.accounts.destinations import AssetAccount, Opening
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Split
from florin_server.store.engine.query import Op, operation
from florin_server.store.settlement import token_accounts


def places(asset: str, split: Split) -> list[AssetAccount]:
    """Where an asset (CAIP-19) goes when it is paid."""
    owners = [split.dest] if split.fee_to is None else [split.dest, split.fee_to]
    return [AssetAccount(asset, owner) for owner in dict.fromkeys(owners)]


async def openable(
    app: Core, rail: Rail, merchant_id: str, wanted: Iterable[AssetAccount]
) -> frozenset[AssetAccount]:
    """Those of the places that may be opened now for a merchant; none where none has to be."""
    work = rail.token_accounts
    if work is None:
        return frozenset()
    needed = [of(rail, merchant_id, one) for one in wanted if work.needed(one)]
    return await app.store.read(token_accounts.openable(needed, work.caps, app.clock.now_us()))


@operation
def claim(
    app: Core, rail: Rail, merchant_id: str, by: str, opened: Sequence[AssetAccount]
) -> Op[None]:
    """Part of an operation: something that is let go now opens places; or NotOpenable."""
    if rail.token_accounts is not None and opened:
        wanted = [of(rail, merchant_id, one) for one in opened]
        yield from token_accounts.claim(wanted, rail.token_accounts.caps, by, app.clock.now_us())


def of(rail: Rail, merchant_id: str, place: AssetAccount) -> Opening:
    """A place that is opened for a merchant; the treasury's is ours alone."""
    return Opening(place, None if place.account == rail.treasury else merchant_id)
