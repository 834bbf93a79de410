"""Commands about the store as a whole: its schema, copies of it."""
