"""The commands that run Florin, and those that look at what runs."""
