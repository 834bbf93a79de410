"""The operator console: the RPCs that the operator's token can call."""
