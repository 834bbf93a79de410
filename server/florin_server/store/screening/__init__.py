"""Lists of blocked accounts."""
