"""The commands about money that is held, that leaves, and that is booked."""
