"""Idempotency: the stored response of a request, for every request that repeats it."""
