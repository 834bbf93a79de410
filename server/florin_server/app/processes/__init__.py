"""Several processes that act as one service, and their supervisor."""
