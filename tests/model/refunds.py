"""Play random refunds of many payments: `python -m tests.model.refunds`, a million steps twice.

The first pass checks the amounts alone, the second the store with its services, payouts and books.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.model.refund_store import run_store_campaign
from tests.support.refund_rules import CENTS, ETHER, USD, WEI, play_steps

STEPS_A_PAYMENT = 12


def run_campaign(steps: int, seed: int) -> int:
    """Return the number of steps done; AssertionError at the first wrong answer."""
    rng, done = random.Random(seed), 0
    while done < steps:
        paid, value = rng.choice(
            [(WEI, CENTS), (rng.randint(1, 10**30), rng.randint(1, 10**6)),
             (rng.randint(1, 5000), rng.randint(1, 5000))]
        )  # fmt: skip
        count = rng.randint(1, STEPS_A_PAYMENT)
        # without an amount only the first refund can succeed
        units = rng.choices([ETHER, USD, None], [5, 5, 1], k=count)
        rounds = [
            (unit, rng.choice([rng.randint(0, 600), 1000]), rng.randint(0, 2), rng.random() < 0.3)
            for unit in units
        ]
        play_steps(paid, value, rounds)
        done += count
    return done


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.refunds", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["amounts", "store"])
    options = parser.parse_args()
    campaigns = {"amounts": run_campaign, "store": run_store_campaign}
    for name in [options.only] if options.only else campaigns:
        started = time.monotonic()
        done = campaigns[name](options.steps, options.seed)
        seconds = time.monotonic() - started
        pace = f"{done:,} steps in {seconds:,.0f} s ({done / seconds:,.0f} steps/s)"
        print(f"{name}: {pace}, nothing is wrong", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
