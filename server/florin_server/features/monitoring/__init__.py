"""Health, conditions and figures of the installation."""
