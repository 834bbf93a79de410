"""The files that a build of the image reads, as Docker's own library finds them."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

from tests.deploy import tools
from tests.deploy.front import DEPLOY

# the library adds them, as a daemon elsewhere needs them
_ADDED = {".dockerignore", "Dockerfile"}


def list_context(folder: Path) -> set[str]:
    """Return the files of a folder that the repository's ignore file lets into a build."""
    packages = str(tools.needed(tools.packages()))
    with patch.object(sys, "path", [packages, *sys.path]):
        from docker.utils import exclude_paths  # type: ignore[import-untyped, import-not-found]

    lines = (DEPLOY.parent / ".containerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    paths = {path for path in exclude_paths(str(folder), patterns) if (folder / path).is_file()}
    return paths - _ADDED
