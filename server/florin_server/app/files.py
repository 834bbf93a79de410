"""The limit of open files of a process: each connection is one, and so is each open page."""

from __future__ import annotations

import resource
from typing import Final

# as in the units of deploy/systemd
_FILES_MAX: Final = 65_536


def raise_file_limit() -> None:
    """Let this process open as many files as it may need, as far as the system lets it.

    Shells begin programs with 1,024, for the sake of those that cannot handle more.
    """
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _FILES_MAX if most == resource.RLIM_INFINITY else min(most, _FILES_MAX)
    if now != resource.RLIM_INFINITY and now < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
