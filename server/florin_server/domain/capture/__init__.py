"""Data about buyers."""
