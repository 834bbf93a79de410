"""The gRPC server: checks shared by all calls, and thin servicers grouped by noun."""
