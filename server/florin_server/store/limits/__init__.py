"""What processes that share a store tell each other of what they take and hold."""
