"""Writing, checking and reading files of the archive."""
