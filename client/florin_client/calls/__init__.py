"""The calls of a client as values: requests, keys, pages and streams; no I/O."""
