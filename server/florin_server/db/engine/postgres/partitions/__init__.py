"""Declarative partitions of the tables of payments: one for each month, and a default."""
