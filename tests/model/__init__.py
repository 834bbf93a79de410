"""A small model of a payment's life, and state machines that compare the service with it."""
