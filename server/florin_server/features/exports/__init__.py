"""Exports: tables of everything that the store holds, for analysts."""
