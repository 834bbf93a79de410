"""Accounts that are not served, and the public files that list them."""
