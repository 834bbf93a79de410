"""A payment's life as a small model, and machines that compare the service with it step by step."""
