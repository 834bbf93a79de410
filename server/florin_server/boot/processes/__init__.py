"""Several processes that are one service: who starts them, and starts them again."""
