"""Formats of chains as bytes and texts, without input, output or payments."""
