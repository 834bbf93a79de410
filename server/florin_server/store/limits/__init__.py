"""Shared limits of the processes that have a store."""
