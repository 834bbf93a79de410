"""Run `python -m tests.bench [--short] [subject …]`: all figures, or those of some subjects."""

from __future__ import annotations

import argparse
import os
import sys

from tests.bench.size import SHORT


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measures one subject after the other and prints each as it ends. A run of all "
        "subjects is also written to build/bench.json and build/bench.md.",
        epilog="`make bench ONLY='create verify'` does the same for some. "
        "`python -m tests.bench.document` puts the last whole run into docs/performance.md.",
    )
    parser.add_argument("subjects", nargs="*", metavar="subject", help="none: all of them")
    parser.add_argument("--list", action="store_true", help="name the subjects, and end")
    parser.add_argument(
        "--short", action="store_true", help="so little of each that its figures mean nothing"
    )
    return parser.parse_args()


if __name__ == "__main__":
    options = _parse_options()
    if options.short:
        os.environ[SHORT] = "1"
    # the size of a run is fixed when the subjects are imported
    from tests.bench.run import SUBJECTS, main

    if options.list:
        print(*SUBJECTS, sep="\n")
        sys.exit(0)
    sys.exit(main(options.subjects, is_saved=not options.short))
