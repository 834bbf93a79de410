"""Name and version of this client."""

from importlib.metadata import version

VERSION = version("florin-client")
