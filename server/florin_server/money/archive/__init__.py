"""The archive: payments that ended long ago, in files instead of the store."""
