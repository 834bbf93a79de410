"""What is written down about transactions of ours."""
