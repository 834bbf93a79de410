"""Commands that run Florin, and commands that inspect a running Florin."""
