"""Monitoring: the health, conditions and figures of an installation, for its operator."""
