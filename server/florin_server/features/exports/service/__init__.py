"""Exports: what the store holds, as tables for analysts."""
