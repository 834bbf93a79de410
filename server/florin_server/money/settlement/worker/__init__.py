"""Accounts that chains require before payments are possible."""
