"""ABI, typed data, signatures and route hashes of EVM chains."""
