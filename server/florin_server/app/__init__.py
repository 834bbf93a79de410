"""The application: it is put together here, started, and ended in order."""
