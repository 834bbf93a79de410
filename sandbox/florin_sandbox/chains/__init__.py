"""The embedded chains of an installation, and their rails."""
