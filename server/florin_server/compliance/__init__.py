"""Who may pay, and the data that buyers give."""
