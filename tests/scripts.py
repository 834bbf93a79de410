"""Run `python -m tests.scripts`: check the types of the pages' scripts with TypeScript.

They are plain JavaScript with types in comments: nothing is compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys

from florin_server.web.assets import FOLDER

from tests.support.browser import find_typescript

_OPTIONS = (
    *("--allowJs", "--checkJs", "--strict", "--noEmit", "--noUncheckedIndexedAccess"),
    *("--target", "es2022", "--module", "es2022", "--moduleResolution", "bundler"),
    *("--lib", "es2022,dom,dom.iterable", "--types", ""),
)


def check() -> int:
    """Return the checker's status; without Node print that, and return 0, except in CI."""
    command = find_typescript()
    if isinstance(command, str):
        print(f"NOT CHECKED: types of scripts: {command}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    scripts = sorted(map(str, FOLDER.glob("*/*.js")))
    return subprocess.run([*command, *_OPTIONS, *scripts], check=False).returncode if scripts else 0


if __name__ == "__main__":
    sys.exit(check())
