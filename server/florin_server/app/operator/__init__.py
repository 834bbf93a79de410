"""The operator's calls, to a running service or to the store of a stopped one."""
