"""Actions on endpoints, and the messages that they receive."""
