"""Every answer in every state, in both wire profiles, compared with the files in golden/.

Ids, hashes, addresses and signatures become placeholders; times stand still. Whatever else changes
in an answer (a member more or less, null or left out) is a difference. `--update-golden` writes
the files anew; read the diff.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import DEPLOYED, ORDER, SPEC, Desk, Offer
from tests.support.wallet import Wallet

GOLDEN = Path(__file__).parent / "golden"
PROFILES = {"spec": SPEC, "bare": {}, "deployed": DEPLOYED}
CHECKOUT = {"successUrl": "https://shop.example/ok?a=1#b", "errorUrl": "https://shop.example/no"}
STATES = (
    "requires_action",
    "processing",
    "succeeded",
    "succeeded_unsettled",
    "failed",
    "failed_lapsed",
    "expired",
    "cancelled_by_user",
    "cancelled_by_merchant",
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", loop_scope="module")
async def payments(desk) -> dict[str, Offer]:
    """One payment in each state."""
    made = {}
    made["succeeded"] = await desk.offer(checkout=CHECKOUT)
    await desk.confirm(made["succeeded"])
    await desk.final(made["succeeded"].payment_id)

    return made
