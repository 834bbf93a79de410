"""Checks of accounts against the lists, and changes of the lists."""
