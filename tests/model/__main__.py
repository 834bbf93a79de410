"""Run `python -m tests.model`: a million steps on a fake rail, then some on the embedded chain."""

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
    namespace = parser.parse_args()
    for steps, chain in ((namespace.steps, False), (namespace.chain_steps, True)):
        if steps <= 0:
            continue
        started = time.monotonic()
        tally = campaign(steps, namespace.seed, namespace.workers, chain=chain)
        _show("embedded chain" if chain else "fake rail", tally, time.monotonic() - started)
        if tally.bad:
            return 1
    return 0


def _show(where: str, tally: Tally, seconds: float) -> None:
    print(
        f"{where}: {tally.steps:,} steps, {tally.calls:,} calls in {seconds:,.0f} s "
        f"({tally.steps / seconds:,.0f} steps/s)"
    )
    for name, counted in (("steps", tally.kinds), ("ends", tally.ends)):
        print(f"  {name}: " + ", ".join(f"{kind} {n:,}" for kind, n in counted.most_common()))
    print(tally.bad or "  nothing is wrong", flush=True)


if __name__ == "__main__":
    sys.exit(main())
