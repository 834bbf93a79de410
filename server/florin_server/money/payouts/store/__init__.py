"""Outgoing and held money."""
