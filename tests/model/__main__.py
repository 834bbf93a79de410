"""`python -m tests.model`: a million steps over a fake rail, then some on the embedded chain."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.model.campaign import Tally, campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="over the fake rail")
    parser.add_argument("--chain-steps", type=int, default=20_000, help="on the embedded chain")
    parser.add_argument("--seed", type=int, default=1, help="of the first chunk")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    wanted = parser.parse_args()
    for steps, chain in ((wanted.steps, False), (wanted.chain_steps, True)):
        if steps <= 0:
            continue
        started = time.monotonic()
        told = campaign(steps, wanted.seed, wanted.workers, chain=chain)
        _show("embedded chain" if chain else "fake rail", told, time.monotonic() - started)
        if told.bad:
            return 1
    return 0


def _show(where: str, told: Tally, seconds: float) -> None:
    print(
        f"{where}: {told.steps:,} steps, {told.calls:,} calls in {seconds:,.0f} s "
        f"({told.steps / seconds:,.0f} steps/s)"
    )
    for name, counted in (("steps", told.kinds), ("ends", told.ends)):
        print(f"  {name}: " + ", ".join(f"{kind} {n:,}" for kind, n in counted.most_common()))
    print(told.bad or "  nothing is wrong", flush=True)


if __name__ == "__main__":
    sys.exit(main())
