"""Accounts: partners with their keys and wallet apps, merchants with their destinations."""
