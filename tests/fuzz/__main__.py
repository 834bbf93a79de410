"""A long campaign against a service of its own: `python -m tests.fuzz --cases 20000`.

Exits with 1 if an answer differs from the document; each is printed with its request.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.campaign import Findings, run
from tests.fuzz.pool import filled
from tests.support.service_harness import open_service

CASES = 20_000


async def explore(cases: int, number: int, version: str) -> Findings:
    """Run one campaign with the document of a version."""
    with tempfile.TemporaryDirectory() as home:
        async with open_service(Path(home)) as desk:
            document = (await desk.ask("GET", f"/spec/{version}/openapi.json")).body
            pool = await filled(desk)
            return await asyncio.to_thread(run, document, pool, cases=cases, number=number)


def main() -> None:
    """Run the campaign, and print the findings."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=CASES, help="requests, about so many")
    options.add_argument("--number", type=int, default=1, help="the same one asks the same again")
    options.add_argument("--version", default="2026-02-18")
    chosen = options.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    started = time.monotonic()
    findings = asyncio.run(explore(chosen.cases, chosen.number, chosen.version))
    for (operation, status), count in sorted(findings.statuses.items()):
        print(f"{operation:50} {status} {count:6}")
    findings.problems += [f"{name} refused every request" for name in findings.never_served()]
    for problem in findings.problems:
        print(f"\n{problem}")
    seconds = time.monotonic() - started
    print(f"\n{findings.cases} requests, {len(findings.problems)} findings, {seconds:.0f} s")
    sys.exit(1 if findings.problems else 0)


if __name__ == "__main__":
    main()
