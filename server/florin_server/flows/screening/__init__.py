"""Who is not served."""
