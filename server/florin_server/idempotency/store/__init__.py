"""The stored answers, and whose turn a key is."""
