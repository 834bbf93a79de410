"""Calls about accounts: by partners for themselves, and by the operator for partners."""
