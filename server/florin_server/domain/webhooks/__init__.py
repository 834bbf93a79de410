"""Webhooks to merchants' back ends, and their signatures; pure."""
