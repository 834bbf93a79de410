"""Python client of Florin: merchants, partners' back ends and wallets over gRPC."""

from importlib.metadata import version

__version__ = version("florin-client")
