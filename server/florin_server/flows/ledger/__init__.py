"""What is booked, and the books against the chains."""
