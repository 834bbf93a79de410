"""Merchants and buyers of days that pass in seconds: they use a real service by its public API."""
