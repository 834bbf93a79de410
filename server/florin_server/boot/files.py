"""How many files a process may have open: each connection is one, and so is each open page."""

from __future__ import annotations

import resource
from typing import Final

# as the units of deploy/systemd have it
_WANTED: Final = 65_536


def open_many() -> None:
    """Lets this process open as many files as it may need, as far as the system lets it.

    Shells begin programs with 1,024, for the sake of those that cannot handle more.
    """
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if most == resource.RLIM_INFINITY else min(most, _WANTED)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
