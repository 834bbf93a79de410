"""Where exports read from: the store of an installation, or a server."""
