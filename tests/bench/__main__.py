"""`python -m tests.bench [subject …]`: all figures, or those of some subjects."""

from __future__ import annotations

import sys

from tests.bench.run import main

if __name__ == "__main__":
    main(sys.argv[1:])
