"""Florin: a self-hosted crypto payment gateway."""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    """Return the version, on demand: reading it takes longer than most commands."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version  # noqa: PLC0415  (see above)

    return version("florin-pay")
