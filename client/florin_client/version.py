"""Which client this is."""

from importlib.metadata import version

VERSION = version("florin-client")
