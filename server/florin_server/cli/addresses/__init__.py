"""Commands for the addresses of payments."""
