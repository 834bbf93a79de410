"""The merchants' console: what a partner's key may do."""
