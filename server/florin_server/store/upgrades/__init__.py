"""What is left to do on a store after its schema changed."""
