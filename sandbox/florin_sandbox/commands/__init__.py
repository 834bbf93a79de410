"""Commands of `florin` that need the sandbox."""
