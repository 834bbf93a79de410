"""Accounts that are to be opened for receivers, those that were, and how many a day.

A place is looked at once: its account may be closed by its owner, who keeps the rent.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Integer, delete, func, select

from florin_server.domain.settlement import Place
from florin_server.store.query import Op, Statement, any_of, insert, param, upsert
from florin_server.store.tables import installation

# more than an operator opens in a week; whoever comes later has an account opened by a payment
QUEUE_MAX = 1000

_NAME = installation.c.name
_ADD = Statement(insert(installation).on_conflict_do_nothing(index_elements=["name"]))
_PUT = Statement(upsert(installation, "name"))
_GET = Statement(select(installation.c.value).where(installation.c.name == param("name")))
# no pattern: case counts in addresses, and databases differ about that
_OF_CHAIN = func.substr(_NAME, 1, param("size", Integer)) == param("prefix")
_COUNT = Statement(select(func.count()).select_from(installation).where(_OF_CHAIN))
_FIRST = Statement(select(_NAME).where(_OF_CHAIN).order_by(_NAME).limit(param("most")))
_DROP = Statement(delete(installation).where(any_of(_NAME, "names")))


def want(place: Place) -> Op[None]:
    """Queues a place, unless it was looked at before, or too many wait."""
    if (yield _GET(name=_done(place))):
        return
    ((waiting,),) = yield _COUNT(**_of(place.chain_id))
    if waiting < QUEUE_MAX:
        yield _ADD(name=f"{_queue(place.chain_id)}{place.asset} {place.account}", value="")


def wanted(chain_id: str, most: int) -> Op[list[Place]]:
    """Places of a chain that wait."""
    rows = yield _FIRST(**_of(chain_id), most=most)
    return [Place(*name.removeprefix(_queue(chain_id)).split(" ")) for (name,) in rows]


def opened(chain_id: str, day: int) -> Op[int]:
    """How many accounts were opened in a day (days since 1970)."""
    rows = yield _GET(name=f"opened {chain_id}")
    at, count = rows[0][0].split(" ") if rows else ("0", "0")
    return int(count) if int(at) == day else 0


def settle(chain_id: str, done: Sequence[Place], day: int, count: int) -> Op[None]:
    """Takes places out of the queue for good, `count` of them to be opened now."""
    names = [f"{_queue(chain_id)}{place.asset} {place.account}" for place in done]
    yield _DROP(names=names)
    yield _ADD.many([{"name": _done(place), "value": str(day)} for place in done])
    if count:
        before = yield from opened(chain_id, day)
        yield _PUT(name=f"opened {chain_id}", value=f"{day} {before + count}")


def _queue(chain_id: str) -> str:
    return f"to open {chain_id} "


def _done(place: Place) -> str:
    return f"account {place.asset} {place.account}"


def _of(chain_id: str) -> dict[str, object]:
    prefix = _queue(chain_id)
    return {"prefix": prefix, "size": len(prefix)}
