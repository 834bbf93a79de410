"""Work that runs in the background."""
