"""Single values of an installation, and what its operator has paused."""
