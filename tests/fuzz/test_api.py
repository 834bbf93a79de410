"""The service answers as its own document says: a short campaign, always the same one."""

from __future__ import annotations

import asyncio

import pytest

from tests.fuzz.campaign import JUDGED, run
from tests.fuzz.pool import filled

CASES = 400
NUMBER = 1

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def test_every_answer_is_as_the_document_says(desk):
    document = (await desk.ask("GET", "/spec/2026-02-18/openapi.json")).body
    pool = await filled(desk)
    findings = await asyncio.to_thread(run, document, pool, cases=CASES, number=NUMBER)
    assert findings.problems == []
    assert findings.cases > CASES / 2
    # some requests were served
    assert findings.never_served() <= JUDGED
