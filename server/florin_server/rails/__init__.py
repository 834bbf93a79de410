"""Rails that move money; each speaks JSON-RPC to a chain."""
