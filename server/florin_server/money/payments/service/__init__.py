"""The life of a payment, from its creation to its end."""
