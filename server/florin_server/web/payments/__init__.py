"""The checkout page, its status and its links for phones."""
