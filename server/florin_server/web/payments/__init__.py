"""What the link of a payment leads to."""
