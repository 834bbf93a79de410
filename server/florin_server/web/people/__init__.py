"""Pages for people who come without a payment: what runs here, and what is not here."""
