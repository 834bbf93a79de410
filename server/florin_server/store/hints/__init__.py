"""What tells other processes that something they remember was changed."""
