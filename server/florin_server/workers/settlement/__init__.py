"""Payments that are accepted are settled, and what chains prove is noted."""
