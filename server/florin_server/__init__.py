"""Florin: a self-hosted crypto payment gateway."""

from importlib.metadata import version

__version__ = version("florin-pay")
