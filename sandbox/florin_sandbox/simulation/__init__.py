"""Simulate days of merchants and buyers in seconds, on a real service through its public API."""
