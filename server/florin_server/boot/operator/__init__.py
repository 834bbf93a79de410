"""The operator's calls, on a service that runs or on the store of one that does not."""
