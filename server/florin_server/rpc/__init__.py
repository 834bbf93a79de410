"""gRPC: interceptors, codec and thin servicers."""
