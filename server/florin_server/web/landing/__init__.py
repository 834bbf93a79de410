"""Pages for people without a payment link: the landing page, and errors."""
