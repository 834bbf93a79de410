"""Formats of chains as bytes and texts: no input or output, and nothing of payments."""
