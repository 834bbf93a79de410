"""A buyer at the command line: pays a link, and shows every step."""
