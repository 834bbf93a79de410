"""Run the suites of payments, payouts and reorganizations under each profile, or some of them.

`python -m tests.support.chainlab [PROFILE ...]` prints the result of each, and exits with status 1
if a test failed. pytest's output is in `build/chainlab`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.support.chainlab.profiles import BY_NAME, ChainProfile, EvmProfile

_OUTPUT: Final = Path("build/chainlab")
_EVM: Final = (
    "tests/contract/money/settlement/test_settler*.py",
    "tests/contract/money/settlement/test_standby_worker.py",
    "tests/contract/money/payouts/test_pay_out*.py",
    "tests/contract/money/refunds/test_refund_credit.py",
)
_SOLANA: Final = ("tests/contract/rails/solana/test_rail_solana*.py",)


def main(names: Sequence[str]) -> int:
    """Run the named profiles, or all if no name is given; return the exit status."""
    if unknown := [name for name in names if name not in BY_NAME]:
        print(f"no profile {', '.join(unknown)}; there are {', '.join(BY_NAME)}", file=sys.stderr)
        return 2
    _OUTPUT.mkdir(parents=True, exist_ok=True)
    statuses = [_run(BY_NAME[name]) for name in names or BY_NAME]
    return int(any(statuses))


def _run(profile: ChainProfile) -> int:
    globs = _EVM if isinstance(profile, EvmProfile) else _SOLANA
    suites = [str(path) for glob in globs for path in sorted(Path().glob(glob))]
    command = [sys.executable, "-m", "pytest", "-n", "2", "-v", "-rs", "--tb", "short"]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--chain-profile", profile.name, *suites],
        check=False,
        capture_output=True,
        text=True,
    )
    Path(_OUTPUT, f"{profile.name}.txt").write_text(done.stdout + done.stderr)
    counts = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "")
    print(f"{profile.name}: {counts} ({time.monotonic() - began:.0f} s)", flush=True)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
