"""Data about buyers: who is asked for it, and what counts."""
