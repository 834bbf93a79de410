"""Processes on one store tell each other what they changed, and look what others did."""
