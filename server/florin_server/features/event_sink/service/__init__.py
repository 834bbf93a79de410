"""The broker, and the messages for it."""
