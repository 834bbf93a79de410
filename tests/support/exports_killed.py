"""`python -m tests.support.exports_killed STORE TO FORMAT N`: an export that dies at step N.

Steps are files that it opens, renames, makes or removes. With fewer steps it ends normally.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.support import export_stores

STEPS = {"open", "os.rename", "os.remove", "os.mkdir"}


def main() -> None:
    store, to, format_, at = sys.argv[1:]
    left = int(at)

    def step(name: str, args: tuple[object, ...]) -> None:
        nonlocal left
        if name in STEPS and str(args[0]).startswith(to):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(step)
    export_stores.export_store(Path(store), Path(to), format_, part_rows=40)


if __name__ == "__main__":
    main()
