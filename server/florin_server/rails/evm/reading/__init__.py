"""What nodes of an EVM chain are asked, and what their answers prove."""
