"""Shared test helpers: a service, a wallet, and clients that use only REST and gRPC."""
