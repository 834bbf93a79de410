"""The archive if the operator wants it, and what to say where its extra is missing."""

from __future__ import annotations

from importlib.util import find_spec

from florin_server.app.home import SetupError
from florin_server.settings import Settings


def is_on(settings: Settings) -> bool:
    """Return whether old rows leave the store."""
    return settings.archive.payment_days is not None or settings.archive.option_days is not None


def require_usable(settings: Settings) -> None:
    """Raise SetupError if the settings of the archive cannot work here."""
    if settings.archive.folder is not None and find_spec("pyarrow") is None:
        raise SetupError("the archive needs the extra: pip install 'florin-pay[export]'")
