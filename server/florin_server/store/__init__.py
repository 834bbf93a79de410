"""The service's store: operations, each of them one transaction."""
