"""The installation as its operator sees and stops it."""
