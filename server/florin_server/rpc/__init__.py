"""gRPC: what every call passes, and thin servicers by noun."""
