"""What a payment is: pure rules, no input or output."""
