"""`python -m tests.bench [--short] [subject …]`: all figures, or those of some subjects.

`--short` tries every subject with so little that its figures mean nothing.
"""

from __future__ import annotations

import os
import sys

from tests.bench.size import SHORT

if __name__ == "__main__":
    wanted = sys.argv[1:]
    if short := "--short" in wanted:
        wanted.remove("--short")
        os.environ[SHORT] = "1"
    # what is measured is decided where the subjects are imported
    from tests.bench.run import main

    sys.exit(main(wanted, kept=not short))
