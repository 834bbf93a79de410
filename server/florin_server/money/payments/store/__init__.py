"""Payments, their options and their idempotency keys."""
