"""Money that is to leave is sent."""
