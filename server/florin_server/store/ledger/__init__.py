"""The books."""
