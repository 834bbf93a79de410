"""The servers: gRPC, REST, metrics; their addresses, their callers, and their connections."""
