"""The public networks, and the networks that an operator has added."""
