"""What an installation keeps once, and what its operator has stopped."""
