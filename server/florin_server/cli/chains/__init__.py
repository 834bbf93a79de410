"""Commands for chains that are not embedded."""
