"""Sending of settlements, reading of blocks, and ends of payments."""
