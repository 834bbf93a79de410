"""Stored responses by idempotency key, and which process works on a key."""
