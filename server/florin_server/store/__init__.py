"""What is remembered: operations, each one transaction."""
