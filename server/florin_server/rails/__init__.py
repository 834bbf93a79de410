"""Ways to move money; each speaks JSON-RPC to a chain."""
