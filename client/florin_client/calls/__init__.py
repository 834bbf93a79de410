"""What a client may ask, as values: requests, their keys, pages and streams; no I/O."""
