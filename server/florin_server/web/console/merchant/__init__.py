"""The merchant console: the RPCs that a partner's API key can call."""
